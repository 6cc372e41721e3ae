"""What principals used, on the store: one item a principal and day.

    turns  <tenant>#usage#<principal>  <day>  a `DayUsage`

In `turns`, for its TTL: a day is of interest for a month and then goes by itself, and it is written too often to be
worth a point-in-time copy. With up to seven steps in flight an item stays below a KB, one unit a write.
"""

from collections.abc import Callable
from dataclasses import dataclass

from deckhand.domain.allowance import DayUsage
from deckhand.domain.errors import ConditionFailed, DailyAllowanceUsedUp, StorageUnavailable
from deckhand.domain.principal import Principal
from deckhand.storage.port import ABSENT, Item, ItemStore, Key, Put, VersionIs
from deckhand.storage.repeat import write_surely

KEEP_S = 40 * 24 * 3600
# Whoever is refused lost to one who was not: more than so many at once is no honest use.
ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class _Stored:
    usage: DayUsage
    version: int | None = None

    @classmethod
    def of(cls, item: Item | None) -> "_Stored":
        return cls(DayUsage()) if item is None else cls(DayUsage.model_validate_json(item.body), item.version)


class UsageBook:
    """One principal's days. Blocking; raises storage errors. For one thread at a time: it remembers what it saw last,
    so that a change mostly costs no read.
    """

    def __init__(
        self, store: ItemStore, principal: Principal, *, now: Callable[[], float], new_id: Callable[[], str]
    ) -> None:
        self._store, self._now, self._new_id = store, now, new_id
        self._pk = f"{principal.tenant}#usage#{principal.name}"
        self._seen: dict[str, _Stored] = {}

    def read(self, day: str) -> DayUsage:
        return self._read(day).usage

    def days(self, *, after: str) -> list[tuple[str, DayUsage]]:
        """The days later than one, newest first, those without any use left out."""
        found = self._store.query("turns", self._pk, after=after, backwards=True).items
        return [(item.sk, DayUsage.model_validate_json(item.body)) for item in found]

    def change(self, day: str, change: Callable[[DayUsage], DayUsage]) -> None:
        """Applies `change` to what is stored, anew whenever another was quicker. What it raises comes through, but an
        `DailyAllowanceUsedUp` only when what is stored now deserves it.
        """
        stored = self._seen.get(day)
        fresh = stored is None
        stored = stored or self._read(day)
        for _ in range(ATTEMPTS):
            try:
                changed = change(stored.usage)
            except DailyAllowanceUsedUp:
                if fresh:
                    raise
                stored, fresh = self._read(day), True
                continue
            if changed == stored.usage:
                return
            try:
                stored = self._write(day, changed, after=stored)
            except ConditionFailed as failed:
                stored, fresh = _Stored.of(failed.item), True
                continue
            self._seen[day] = stored
            return
        raise StorageUnavailable()

    def _read(self, day: str) -> _Stored:
        self._seen[day] = _Stored.of(self._store.get(Key("turns", self._pk, day)))
        return self._seen[day]

    def _write(self, day: str, usage: DayUsage, *, after: _Stored) -> _Stored:
        version = 1 if after.version is None else after.version + 1
        item = Item("turns", self._pk, day, usage.to_json(), version, int(self._now()) + KEEP_S)
        condition = ABSENT if after.version is None else VersionIs(after.version)
        write_surely(self._store, [Put(item, condition)], token=self._new_id())
        return _Stored(usage, version)
