"""How a turn ended, and what each step cost."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from deckhand.agent.chat import Answer, Usage
from deckhand.agent.wording import CappedBy, capped
from deckhand.domain.errors import DeckhandError
from deckhand.domain.proposal import Proposal


class Stopped(Exception):
    """The stop flag was set during a call of the model."""


@dataclass(frozen=True, slots=True)
class Step:
    """Structure only, never text: what the debug line and the metrics are made of. Times in milliseconds."""

    number: int
    total_ms: float
    first_text_ms: float | None
    finish: str | None
    tools: tuple[str, ...]
    usage: Usage | None
    model: str | None


class StepTimes:
    """Watches one step."""

    def __init__(self, number: int, clock: Callable[[], float]) -> None:
        self._number, self._clock, self._began = number, clock, clock()
        self._first: float | None = None

    def first(self) -> None:
        if self._first is None:
            self._first = self._ms()

    def step(self, answer: Answer) -> Step:
        tools = tuple(call.name for call in answer.calls)
        return Step(self._number, self._ms(), self._first, answer.finish, tools, answer.usage, answer.model)

    def _ms(self) -> float:
        return (self._clock() - self._began) * 1000


@dataclass(frozen=True, slots=True)
class Outcome:
    """`text` is the model's text (a voice turn's raw envelope), without the capped suffix. For `failed` and
    `stopped` it is the partial text, for `awaiting_confirmation` what was said before the calls that wait.
    """

    status: Literal["done", "stopped", "failed", "awaiting_confirmation"]
    text: str
    error: DeckhandError | None = None
    capped_by: CappedBy | None = None
    interrupted: bool = False
    filtered: bool = False
    usage: Usage | None = None
    model: str | None = None
    steps: int = 0
    changes: Mapping[str, str] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
    proposals: tuple[Proposal, ...] = ()

    def shown(self, display: str | None = None) -> str:
        """What the person reads: the display text, and how to go on when it was capped."""
        text = self.text if display is None else display
        return text if self.capped_by is None else capped(text, self.capped_by)
