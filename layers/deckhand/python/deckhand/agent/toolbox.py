"""The tools of one turn as the loop sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from deckhand.agent.chat import ToolCall


@dataclass(frozen=True, slots=True)
class ToolNote:
    """What is known of a call before it runs: whether it changes anything, its card, and a short progress line."""

    mutates: bool = False
    card: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """`content` is a bounded JSON string for the model; a failure is a result too. `changes` are `{id, change}` for
    the reply's `cards`.
    """

    content: str
    failed: bool = False
    changes: tuple[Mapping[str, str], ...] = field(default=())


class Toolbox(Protocol):
    def definitions(self) -> list[dict[str, Any]]:
        """Function tools in a fixed order."""
        ...

    def note(self, call: ToolCall) -> ToolNote: ...

    async def run(self, call: ToolCall) -> ToolResult:
        """Never raises for what a model can do wrong: unknown names and bad arguments are failed results."""
        ...
