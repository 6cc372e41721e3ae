"""What the loop and the gateway say to each other: one request and one answer of a step."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from deckhand.domain.errors import GatewayError


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model wrote it. `arguments` is the raw text (not always JSON); `extra` are opaque fields of the
    provider that must go back unchanged (bug case 10).
    """

    id: str
    name: str
    arguments: str
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more steps, as the gateway reported them. `cost` in USD, None unless all of it is known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cost: Decimal | None = None

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            None if self.cost is None or other.cost is None else self.cost + other.cost,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """One step's whole answer. `finish` is the gateway's word or None; `extra` are opaque fields of the message
    (`reasoning_content`, `reasoning_details`)
    that the same provider wants back beside the calls (bug case 21). `text` is what a person may see, `reasoning`
    what they may not."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str | None = None
    usage: Usage | None = None
    model: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A fragment of visible text, at once as it came."""

    text: str


@dataclass(frozen=True, slots=True)
class StepLimits:
    """Seconds. `idle` is the longest silence of the gateway (None: no limit), `deadline` what is left of the turn
    (None: no limit), `ceiling` the hard
    end of one call."""

    idle: float | None = 180.0
    deadline: float | None = 720.0
    ceiling: float = 540.0


@dataclass(frozen=True, slots=True)
class StepRequest:
    """`messages` and `tools` in the chat-completions form, with cache marks where the prompt wants them. `max_output`
    is the longest answer in tokens, thinking included (None: the gateway's own).
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    limits: StepLimits = StepLimits()
    max_output: int | None = None


class StepIdle(GatewayError):
    """The gateway was silent for longer than the step allows. The loop decides what the person reads."""

    code = "gateway_idle"


class DeadlineReached(GatewayError):
    """The turn's time is over while the gateway was still writing."""

    code = "deadline_reached"


class Filtered(GatewayError):
    """The provider refused the request for its content before any text (bug case 22 b)."""

    code = "content_filtered"


class ChatGateway(Protocol):
    """The model behind one address. Real implementations: `agent/gateway.py` over HTTP, and scripted ones in tests."""

    def stream(self, request: StepRequest) -> AsyncIterator[TextDelta | Answer]:
        """Yields text as it comes and, last, exactly one `Answer`.

        Raises `GatewayFailed`, `GatewayUnreadable`, `GatewayTimeout`, `AllowanceUsedUp`, `ContextFull`, `StepIdle`,
        `DeadlineReached`, `Filtered`. Retries on its own
        only while nothing was yielded. Closing the iterator closes the connection.
        """
        ...
