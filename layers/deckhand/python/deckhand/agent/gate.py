"""The confirm gate as a turn's tools see it: calls that need a person's yes become proposals instead of running."""

from typing import Any, Protocol

from deckhand.agent.toolbox import ToolResult
from deckhand.domain.proposal import Proposal
from deckhand.operations.registry import Operation

ARGUMENT = "confirmationId"
SCHEMA = {
    "type": "string",
    "description": "Only once the person has agreed in a later message: the id that the waiting call was given.",
}
"""The optional argument of every tool that may wait for a yes."""


class Gate(Protocol):
    """Of one turn. Blocking; raises storage errors."""

    @property
    def spends(self) -> bool:
        """Whether a confirmation can be spent here at all: that takes a stored conversation."""
        ...

    def check(self) -> None:
        """Before anything is changed. Raises `AgentSwitchedOff`, and `NotAllowed` for whose rights have ended."""
        ...

    def propose(
        self,
        operation: Operation,
        *,
        call_id: str,
        arguments: str,
        card: str | None,
        destructive: bool,
        target: Any,
        policies: tuple[str, ...],
    ) -> Proposal:
        """A new one, not stored yet: it is stored with the calls that it belongs to. `arguments` is a JSON object,
        `target` what it would change (None: the arguments say it), `policies` decided that it has to wait.
        """
        ...

    def spend(self, id: str, operation: Operation, arguments: str) -> ToolResult:
        """Runs what an earlier turn proposed, once, when the person has written since and the arguments are the same.
        A failed result says why it cannot.
        """
        ...

    def granted(self, operation: Operation, card: str | None) -> bool:
        """Whether the person gave a standing yes."""
        ...
