"""What a turn tells: the events that clients see (api.md section 2) and the few that only the recorder sees."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

EventName = Literal["status", "token", "reset", "proposal", "reply", "stopped", "error", "done"]


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the public stream. `data` is the JSON object of the frame."""

    name: EventName
    data: Mapping[str, Any] = field(default_factory=dict)

    def with_fields(self, more: Mapping[str, Any]) -> "Event":
        return Event(self.name, {**self.data, **more}) if more else self


def thinking() -> Event:
    return Event("status", {"phase": "thinking"})


def tool_status(tool: str, card: str | None, label: str | None) -> Event:
    data = {"phase": "tool", "tool": tool, "id": card, "label": label}
    return Event("status", {key: value for key, value in data.items() if value is not None})


def token(text: str) -> Event:
    return Event("token", {"text": text})


def reset() -> Event:
    return Event("reset")
