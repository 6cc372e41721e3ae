"""The audit on the store: entries are only ever added.

deck  <tenant>#audit  <instant>_<id>  entry
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deckhand.domain.audit import AuditEntry
from deckhand.domain.errors import AlreadyApplied, ConditionFailed, StorageError
from deckhand.storage.port import ABSENT, TRANSACTION_OPS, Item, ItemStore, Key, Op, Page, Put, Table
from deckhand.storage.repeat import write_surely

_PREPARATIONS = ("#card#", "#conv#", "#history#")
"""Partitions that nobody looks into before another write points there: rows, messages. What a write of those alone
prepares has not happened yet.
"""


def audit_key(tenant: str, *, at: str, id: str) -> Key:
    return Key("deck", f"{tenant}#audit", f"{at}_{id}")


def put_entry(tenant: str, entry: AuditEntry) -> Put:
    key = audit_key(tenant, at=entry.at, id=entry.id)
    return Put(Item(key.table, key.pk, key.sk, entry.to_json()), ABSENT)


@dataclass(frozen=True, slots=True)
class AuditPage:
    """`next` is where to go on; None at the end."""

    entries: list[AuditEntry]
    next: str | None


def read_entries(store: ItemStore, tenant: str, *, after: str | None, limit: int, newest_first: bool) -> AuditPage:
    page = store.query(
        "deck",
        f"{tenant}#audit",
        after=None if newest_first else after,
        before=after if newest_first else None,
        backwards=newest_first,
        limit=limit,
    )
    found = [AuditEntry.model_validate_json(item.body) for item in page.items]
    return AuditPage(found, page.items[-1].sk if page.cursor is not None and page.items else None)


class RecordingStore:
    """An `ItemStore` for one operation: its first write that takes effect carries the entry, all or nothing.

    `beside` goes with it, such as the condition under which the operation may run. An entry that is there already says
    that the operation was done before: raises `AlreadyApplied` then, and nothing is written.
    """

    def __init__(self, store: ItemStore, entry: Put, beside: Sequence[Op] = ()) -> None:
        self._store, self._entry, self._beside = store, entry, tuple(beside)
        self.recorded = False

    def get(self, key: Key) -> Item | None:
        return self._store.get(key)

    def query(self, table: Table, pk: str, **bounds: Any) -> Page:
        return self._store.query(table, pk, **bounds)

    def write(self, ops: Sequence[Op], *, token: str) -> None:
        more = () if self.recorded or _prepares(ops) else (self._entry, *self._beside)
        if len(ops) + len(more) > TRANSACTION_OPS:
            raise StorageError("A write that takes effect is too large to be recorded.")
        try:
            write_surely(self._store, [*ops, *more], token=token)
        except ConditionFailed as failed:
            if failed.index >= len(ops):
                raise AlreadyApplied() from failed
            raise
        self.recorded = self.recorded or bool(more)

    def delete_many(self, keys: Sequence[Key]) -> None:
        self._store.delete_many(keys)


def _prepares(ops: Sequence[Op]) -> bool:
    return all(any(mark in op.key.pk for mark in _PREPARATIONS) for op in ops)
