"""A gateway behind the switch of `chat.ai-agent`: looked at before every call of the model."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from deckhand.agent.chat import Answer, ChatGateway, StepRequest, TextDelta
from deckhand.domain.principal import Principal
from deckhand.storage.port import ItemStore
from deckhand.storage.switches import Switches


class SwitchedGateway:
    """For one principal. A call raises `AgentSwitchedOff` where the assistant is off for them."""

    def __init__(self, gateway: ChatGateway, store: ItemStore, principal: Principal) -> None:
        self._gateway, self._switches, self._principal = gateway, Switches(store, principal.tenant), principal

    async def stream(self, request: StepRequest) -> AsyncGenerator[TextDelta | Answer, None]:
        """See `ChatGateway.stream`."""
        await asyncio.to_thread(self._switches.check, self._principal)
        async with aclosing(self._gateway.stream(request)) as items:  # type: ignore[type-var]
            async for item in items:
                yield item
