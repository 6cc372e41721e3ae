"""May they do it? The question that is asked before every operation, and its answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from deckhand.domain.principal import Channel, Principal

Kept = Literal["card", "conversation"]
Verdict = Literal["allow", "confirm", "deny"]
ConfirmWrites = Literal["all", "destructive", "none"]
"""Which changes need a person's yes, by what ships."""


Sees = Callable[[str], bool]
"""Whether the card, or conversation, of an id may be shown."""


@dataclass(frozen=True, slots=True)
class Access:
    """`operation` is asked for by `principal` through `channel`; `card` or `conversation` is the one it is about, where
    it is about one. `confirmed` says that a person has agreed to this very call.
    """

    principal: Principal
    operation: str
    channel: Channel
    mutates: bool
    destructive: bool
    confirmed: bool = False
    card: str | None = None
    conversation: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """`confirm`: only once a person has agreed. `policies` names what decided."""

    verdict: Verdict
    policies: tuple[str, ...] = ()


class Policy(Protocol):
    """Never raises for a question: what cannot be decided is denied. Storage errors pass through, when what decides
    cannot be read.
    """

    @property
    def confirm_writes(self) -> ConfirmWrites: ...

    def decide(self, access: Access) -> Decision: ...

    def offers(self, access: Access) -> bool:
        """Whether a call about some card might be more than denied; `access` names none."""
        ...

    def sees(self, access: Access, kept: Kept) -> Sees:
        """Which cards, or conversations, by id, an operation that shows many may show; `access` names none."""
        ...
