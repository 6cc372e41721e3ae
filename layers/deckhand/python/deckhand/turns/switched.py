"""A gateway behind the switch of `chat.ai-agent` and the rights of whoever it works for: looked at before every call of
the model.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from deckhand.agent.chat import Answer, ChatGateway, StepRequest, TextDelta
from deckhand.domain.principal import Principal
from deckhand.storage.endings import Endings
from deckhand.storage.port import ItemStore
from deckhand.storage.switches import Switches


class SwitchedGateway:
    """For one principal. A call raises `AgentSwitchedOff` where the assistant is off for them, and `NotAllowed` once
    their rights have ended.

    `seen_on`: the switch was looked at just now, and the first call need not look again. Not so where the
    conversation's lock was taken since: whoever flipped it before that did not see the turn among the running ones to
    stop it.
    """

    def __init__(
        self,
        gateway: ChatGateway,
        store: ItemStore,
        principal: Principal,
        *,
        now: Callable[[], float],
        seen_on: bool = False,
    ) -> None:
        self._gateway, self._principal, self._seen_on = gateway, principal, seen_on
        self._switches, self._endings = Switches(store, principal.tenant), Endings(store, now=now)

    async def stream(self, request: StepRequest) -> AsyncGenerator[TextDelta | Answer, None]:
        """See `ChatGateway.stream`."""
        await asyncio.to_thread(self._check)
        async with aclosing(self._gateway.stream(request)) as items:  # type: ignore[type-var]
            async for item in items:
                yield item

    def _check(self) -> None:
        if not self._seen_on:
            self._switches.check(self._principal)
        self._seen_on = False
        self._endings.check(self._principal)
