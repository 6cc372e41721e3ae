"""How often somebody tried to sign in: counters that expire, so that guessing is slow.

identity  <tenant>#attempts#<sha256 of what is limited>  it  count; the item's expiry is the window's end
"""

from collections.abc import Callable

from deckhand.domain.access_token import fingerprint
from deckhand.domain.errors import ConditionFailed, RateLimited
from deckhand.storage.accounts import IT
from deckhand.storage.port import ABSENT, Item, ItemStore, Key, Put, VersionIs

ATTEMPTS = 10
WINDOW_S = 60
TRIES = 10


class Attempts:
    """Blocking; raises storage errors."""

    def __init__(self, store: ItemStore, tenant: str, *, now: Callable[[], float], new_id: Callable[[], str]) -> None:
        self._store, self._tenant, self._now, self._new_id = store, tenant, now, new_id

    def count(self, what: str) -> None:
        """Counts one more try by `what` (an address, an account). Raises `RateLimited` past ten in a minute."""
        key = attempts_key(self._tenant, what)
        for _ in range(TRIES):
            item = self._store.get(key)
            count = 0 if item is None else int(item.body)
            until = int(self._now()) + WINDOW_S if item is None or item.expires is None else item.expires
            if count >= ATTEMPTS:
                raise RateLimited(retry_after=max(1, until - int(self._now())))
            version = 1 if item is None else item.version + 1
            put = Put(
                Item(key.table, key.pk, key.sk, str(count + 1), version, until),
                ABSENT if item is None else VersionIs(item.version),
            )
            try:
                self._store.write([put], token=self._new_id())
            except ConditionFailed:
                continue
            return
        # So many at once are too many.
        raise RateLimited(retry_after=1)


def attempts_key(tenant: str, what: str) -> Key:
    return Key("identity", f"{tenant}#attempts#{fingerprint(what)}", IT)
