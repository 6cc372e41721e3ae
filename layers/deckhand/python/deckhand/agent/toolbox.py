"""The tools of one turn as the loop sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from deckhand.agent.chat import ToolCall
from deckhand.domain.proposal import Proposal


@dataclass(frozen=True, slots=True)
class ToolNote:
    """What is known of a call before it runs: whether it changes anything, its card, and a short progress line."""

    mutates: bool = False
    card: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """`content` is a bounded JSON string for the model; a failure is a result too. `changes` are `{id, change}` for
    the reply's `cards`. With a `proposal` there is no result yet: the call waits for a person.
    """

    content: str
    failed: bool = False
    changes: tuple[Mapping[str, str], ...] = field(default=())
    proposal: Proposal | None = None


class Toolbox(Protocol):
    def definitions(self) -> list[dict[str, Any]]:
        """Function tools in a fixed order."""
        ...

    def note(self, call: ToolCall) -> ToolNote: ...

    async def hold(self, call: ToolCall, *, behind: bool) -> ToolResult | None:
        """What stands in the place of running a call that changes something; None when it may run. `behind`: an
        earlier call of the step waits, so nothing may change before that one is decided.
        """
        ...

    async def run(self, call: ToolCall) -> ToolResult:
        """Never raises for what a model can do wrong: unknown names and bad arguments are failed results."""
        ...
