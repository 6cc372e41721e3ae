"""What a chat-completions request tells the demo: where the conversation stands. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any


@dataclass(frozen=True)
class ToolUse:
    """A tool call to make."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Exchange:
    """A call made since the user last spoke, with what the tool answered (None where that is no JSON)."""

    name: str
    result: Any

    @property
    def error(self) -> str | None:
        """The tool's own sentence about what went wrong."""
        if isinstance(self.result, dict) and (self.result.get("error") or self.result.get("ok") is False):
            return str(self.result.get("error") or "it was refused")
        return None

    @property
    def refusal(self) -> str | None:
        """How the person decided against it, or that they did not decide in time."""
        said = self.result.get("status") if isinstance(self.result, dict) else None
        return str(said) if said in ("rejected", "expired") else None

    @property
    def unknown_card(self) -> bool:
        return isinstance(self.result, dict) and self.result.get("code") == "unknown_manifest"


@dataclass(frozen=True)
class Scene:
    """Where the conversation stands: what the user said last, what tools answered since, which tools are offered."""

    request: str
    exchanges: tuple[Exchange, ...]
    tools: frozenset[str]
    system: str
    today: date

    def last(self, name: str) -> Exchange | None:
        return next((exchange for exchange in reversed(self.exchanges) if exchange.name == name), None)

    def count(self, name: str) -> int:
        return sum(exchange.name == name for exchange in self.exchanges)


def read_scene(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], clock: date) -> Scene:
    """Reads a request's messages; content may be text or a list of parts."""
    spoke = max((index for index, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    system = "\n".join(_text(message) for message in messages if message.get("role") == "system")
    names: dict[str, str] = {}
    exchanges = []
    for message in messages[spoke + 1 :]:
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        if message.get("role") == "tool":
            exchanges.append(Exchange(names.get(message.get("tool_call_id", ""), ""), _json(_text(message))))
    return Scene(
        request=_text(messages[spoke]) if spoke >= 0 else "",
        exchanges=tuple(exchanges),
        tools=frozenset(tool["function"]["name"] for tool in tools if "function" in tool),
        system=system,
        today=_dated(system) or clock,
    )


def rows_of(result: Any) -> list[Any]:
    """The rows of a card as a tool tells them: a list, or rows with their ids."""
    if not isinstance(result, dict):
        return []
    rows = result.get("data", result.get("rows"))
    if isinstance(rows, dict):
        rows = rows.get("rows")
    return [row["value"] if isinstance(row, dict) and "value" in row else row for row in rows or []]


def _dated(text: str) -> date | None:
    found = re.search(r"Today is [^\n]*?(\d{4}-\d{2}-\d{2})", text)
    try:
        return date.fromisoformat(found[1]) if found else None
    except ValueError:
        return None


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
