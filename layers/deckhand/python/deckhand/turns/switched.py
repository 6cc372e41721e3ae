"""A gateway behind the switch of `chat.ai-agent`: looked at before every call of the model."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from deckhand.agent.chat import Answer, ChatGateway, StepRequest, TextDelta


class SwitchedGateway:
    """`check` raises `AgentSwitchedOff`. Blocking, so it runs in a thread."""

    def __init__(self, gateway: ChatGateway, check: Callable[[], None]) -> None:
        self._gateway, self._check = gateway, check

    async def stream(self, request: StepRequest) -> AsyncGenerator[TextDelta | Answer, None]:
        """See `ChatGateway.stream`."""
        await asyncio.to_thread(self._check)
        async with aclosing(self._gateway.stream(request)) as items:  # type: ignore[type-var]
            async for item in items:
                yield item
