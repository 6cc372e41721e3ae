"""The minute's event, in: the sweep of due reminders, out: what it did."""

from collections.abc import Callable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from deckhand.reminders.claim import Claims
from deckhand.reminders.index import ReminderIndex
from deckhand.reminders.sweep import Sweep
from deckhand.storage.port import ItemStore
from deckhand.storage.queue import JobQueue

MARGIN_S = 5.0
TENANT = "main"


class Sweeper:
    """Which minute the event names does not matter: the cursor knows what is to be done."""

    def __init__(
        self,
        store: ItemStore,
        jobs: JobQueue,
        *,
        default_zone: ZoneInfo,
        now: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        index = ReminderIndex(store, TENANT, default_zone=default_zone, now=now, new_id=new_id)
        claims = Claims(index, store, tenant=TENANT, now=now, new_id=new_id)
        self._sweep = Sweep(index, claims, jobs, now=now, new_id=new_id)

    def __call__(self, _: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """`{claimed, pushes}`."""
        remaining = getattr(context, "get_remaining_time_in_millis", None)
        time_left = None if remaining is None else lambda: remaining() / 1000 - MARGIN_S
        swept = self._sweep.run(time_left=time_left)
        return {"claimed": swept.claimed, "pushes": swept.pushes}
