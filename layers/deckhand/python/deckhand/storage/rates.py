"""The windows of requests on the store.

    deck  <tenant>#rate#<principal>  window  a caller's `Window`

One item a caller, written anew with each request, so nothing piles up and nothing must expire. In `deck`, since every
function that answers requests may write there.
"""

from collections.abc import Callable

from deckhand.domain.errors import ConditionFailed, RateLimited
from deckhand.domain.principal import Principal
from deckhand.domain.rate import Window
from deckhand.storage.port import ABSENT, Item, ItemStore, Key, Put, VersionIs

MAX_KNOWN = 256


class Rates:
    """Blocking; safe to call from several threads. `now` gives epoch seconds.

    Remembers what it wrote last for each caller: as long as no other process writes for the same one, a request costs
    one write and no read, and one that is refused costs nothing.
    """

    def __init__(self, store: ItemStore, *, now: Callable[[], float], new_id: Callable[[], str]) -> None:
        self._store, self._now, self._new_id = store, now, new_id
        self._known: dict[Key, Item] = {}

    def take(self, principal: Principal, limit: int) -> None:
        """Counts one request. Raises `RateLimited` when it would be over `limit` a minute (it is not counted then),
        and storage errors.
        """
        key = Key("deck", f"{principal.tenant}#rate#{principal.name}", "window")
        # Whoever loses a race lost it to a request that was counted: after `limit` of them none is left.
        for _ in range(limit + 1):
            known, now = self._known.get(key), self._now()
            window = (Window.model_validate_json(known.body) if known else Window()).at(now)
            if wait := window.wait(now, limit):
                raise RateLimited(wait)
            version = 1 if known is None else known.version + 1
            item = Item(key.table, key.pk, key.sk, window.taken().to_json(), version)
            try:
                self._store.write([Put(item, VersionIs(version - 1) if known else ABSENT)], token=self._new_id())
            except ConditionFailed as failed:
                self._remember(key, failed.item)
                continue
            self._remember(key, item)
            return
        raise RateLimited(1)

    def _remember(self, key: Key, item: Item | None) -> None:
        if item is None:
            self._known.pop(key, None)
            return
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[key] = item
