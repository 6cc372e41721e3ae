"""Counting what a model is asked: before each call its share is reserved, behind it what was used is settled."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol

from deckhand.agent.chat import Answer, ChatGateway, DeadlineReached, StepIdle, StepRequest, TextDelta, Usage
from deckhand.domain.errors import DeckhandError, GatewayTimeout

# The model was at work when these were raised.
_TOOK_TIME = (StepIdle, DeadlineReached, GatewayTimeout)


class Meter(Protocol):
    """For one call at a time. Only `reserve` raises."""

    async def reserve(self, request: StepRequest) -> int | None:
        """Before a call: the longest answer in tokens that was reserved for, None where nothing is limited. Raises
        `AllowanceUsedUp` when too little is left, and storage errors.
        """
        ...

    async def settle(self, answer: Answer) -> Usage | None:
        """What the answer used, with its cost where that is known; None when the gateway did not report it."""
        ...

    async def give_up(self, shown: str | None) -> None:
        """The call that was reserved for came to no answer. `shown` is what came of it, None when it used nothing."""
        ...


class MeteredGateway:
    """A `ChatGateway` whose calls are counted."""

    def __init__(self, gateway: ChatGateway, meter: Meter) -> None:
        self._gateway, self._meter = gateway, meter

    async def stream(self, request: StepRequest) -> AsyncGenerator[TextDelta | Answer, None]:
        """See `ChatGateway.stream`. A call that was stopped, or broke off, is settled by an estimate."""
        shown: list[str] = []
        used = answered = False
        try:
            limited = replace(request, max_output=await self._meter.reserve(request))
            used = True
            async with aclosing(self._gateway.stream(limited)) as items:  # type: ignore[type-var]
                async for item in items:
                    if isinstance(item, Answer):
                        answered = True
                        yield replace(item, usage=await self._meter.settle(item))
                    else:
                        shown.append(item.text)
                        yield item
        except DeckhandError as error:
            used = bool(shown) or isinstance(error, _TOOK_TIME)
            raise
        finally:
            if not answered:
                await self._meter.give_up("".join(shown) if used else None)
