"""Asks a gateway for one step in a test, without waiting for pauses."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from deckhand.agent.chat import Answer, StepLimits, StepRequest, TextDelta
from deckhand.agent.gateway import Endpoint, HttpGateway

NOW = 1_792_567_670.0  # Wed, 21 Oct 2026 07:27:50 GMT
QUESTION = [{"role": "user", "content": "hi"}]


@dataclass
class Pauses:
    """A sleep that only writes down how long it was asked for."""

    asked: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        await asyncio.sleep(0)


@dataclass
class Asker:
    gateway: HttpGateway
    pauses: Pauses
    shown: list[str] = field(default_factory=list)

    async def ask(
        self,
        messages: list[dict[str, Any]] | None = None,
        *,
        tools: list[dict[str, Any]] | None = None,
        limits: StepLimits | None = None,
        max_output: int | None = None,
    ) -> Answer:
        """The answer of one step; the texts that came before it are in `shown`."""
        self.shown.clear()
        limited = limits or StepLimits(idle=10, deadline=15)
        request = StepRequest(messages or QUESTION, tools or [], limited, max_output)
        answer: Answer | None = None
        async with aclosing(self.gateway.stream(request)) as items:
            async for item in items:
                assert answer is None, "the answer is the last item"
                if isinstance(item, TextDelta):
                    self.shown.append(item.text)
                else:
                    answer = item
        assert answer is not None
        return answer

    @property
    def text(self) -> str:
        return "".join(self.shown)


@asynccontextmanager
async def asker(
    url: str, *, key: str | Callable[[], str | None] | None = "test-key", model: str = "m", prompt_cache: bool = True
) -> AsyncIterator[Asker]:
    numbers = itertools.count(1)
    pauses = Pauses()
    gateway = HttpGateway(
        Endpoint(url, key if callable(key) else lambda: key, model, prompt_cache),
        new_id=lambda: f"made{next(numbers)}",
        sleep=pauses,
        wall=lambda: NOW,
    )
    try:
        yield Asker(gateway, pauses)
    finally:
        await gateway.aclose()
