"""The look at the pod in front of a direct turn with `wakeMode`, and the one start that may come of it (seed 002).

    turns  <tenant>#wake  <pod>   the last start that was asked for, and whether it failed; gone after the cooldown

No completion, no tool and no conversation is touched here: what a caller is told of a wake comes from this alone.
"""

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from deckhand.agent.chat import ChatGateway
from deckhand.agent.wake import Wakeable, WakeFailed, WakeMode, safe_endpoint, standing
from deckhand.domain.errors import ConditionFailed, StorageError
from deckhand.domain.json_text import dumps
from deckhand.storage.port import ABSENT, Item, Key, Put, VersionIs
from deckhand.storage.repeat import write_surely
from deckhand.turns.context import TurnContext

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PendingWake:
    """The turn did not begin: the pod is on its way."""

    pod: str


class Waking:
    """`endpoint` is the configured gateway's URL; `pinned` gives that gateway at another address, for one turn and
    without second tries; `has_key` says whether the gateway's credential is there.
    """

    def __init__(
        self,
        context: TurnContext,
        wakeable: Wakeable,
        *,
        cooldown_s: int,
        endpoint: str,
        pinned: Callable[[str], ChatGateway],
        has_key: Callable[[], bool],
    ) -> None:
        self._context, self._wakeable, self._cooldown_s = context, wakeable, cooldown_s
        self._endpoint, self._pinned, self._has_key = endpoint, pinned, has_key

    def check(self, tenant: str, mode: WakeMode) -> ChatGateway | PendingWake:
        """The gateway that the whole turn talks to, or that the pod is on its way (`wait` only).

        Raises `WakeFailed` when neither is sure, and storage errors.
        """
        if not self._has_key():
            raise WakeFailed("no gateway key")
        status = self._wakeable.status()
        found = standing(status, now=self._context.now())
        if found == "ready":
            if status.endpoint is None or not safe_endpoint(status.endpoint, configured=self._endpoint):
                raise WakeFailed("unsafe endpoint")
            return self._pinned(status.endpoint)
        if mode == "resume":
            raise WakeFailed("not ready")
        if found == "stopped":
            self._start(tenant)
        return PendingWake(self._wakeable.pod)

    def _start(self, tenant: str) -> None:
        """Asks for a start, unless one was asked for within the cooldown, by whichever process. Raises `WakeFailed`
        when that one failed, or this one does.
        """
        key = Key("turns", f"{tenant}#wake", self._wakeable.pod)
        expires = int(self._context.now()) + self._cooldown_s
        mine = Item(key.table, key.pk, key.sk, dumps({"failed": False}), 1, expires)
        try:
            write_surely(self._context.store, [Put(mine, ABSENT)], token=self._context.new_id())
        except ConditionFailed as taken:
            if taken.item is not None and json.loads(taken.item.body)["failed"]:
                raise WakeFailed("a start failed a moment ago") from None
            return
        try:
            self._wakeable.start()
        except WakeFailed:
            # Remembered and not removed: it may have been a start after all, and that is what the cooldown limits.
            failed = Item(key.table, key.pk, key.sk, dumps({"failed": True}), 2, expires)
            with suppress(ConditionFailed, StorageError):
                self._context.store.write([Put(failed, VersionIs(1))], token=self._context.new_id())
            raise
        logger.info("pod asked to start", extra={"pod": self._wakeable.pod})
