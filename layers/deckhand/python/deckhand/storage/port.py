"""The storage port: few verbs on small items, and every limit of DynamoDB as a rule of its own.

An item is `(table, pk, sk, version, expires, body)`. `body` is JSON text that is handed back byte for byte. Limits
are checked here, before an engine is called, so that no engine can hide them. Sizes and quotas: DynamoDB developer
guide, "Service, account, and table quotas".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol

from deckhand.domain.errors import ItemTooLarge, StorageError

Table = Literal["deck", "turns", "identity"]
TABLES: tuple[Table, ...] = ("deck", "turns", "identity")

ITEM_BYTES = 400 * 1024
KEY_BYTES = {"pk": 2048, "sk": 1024}
TRANSACTION_OPS = 100
TRANSACTION_BYTES = 4 * 1024 * 1024
# Attribute names and the numbers beside the body: pk, sk, version, expires, write token.
OVERHEAD_BYTES = 128


@dataclass(frozen=True, slots=True)
class Item:
    """One stored thing. `expires` is epoch seconds; from then on the item counts as absent, in reads and in
    conditions (bug case 49).
    """

    table: Table
    pk: str
    sk: str
    body: str
    version: int = 1
    expires: int | None = None


@dataclass(frozen=True, slots=True)
class Key:
    table: Table
    pk: str
    sk: str


class Presence(Enum):
    ABSENT = "absent"
    EXISTS = "exists"


@dataclass(frozen=True, slots=True)
class VersionIs:
    """The item exists with exactly this version."""

    version: int


Condition = Presence | VersionIs | None
ABSENT, EXISTS = Presence.ABSENT, Presence.EXISTS


@dataclass(frozen=True, slots=True)
class Put:
    item: Item
    condition: Condition = None

    @property
    def key(self) -> Key:
        return Key(self.item.table, self.item.pk, self.item.sk)


@dataclass(frozen=True, slots=True)
class Delete:
    key: Key
    condition: Condition = None


@dataclass(frozen=True, slots=True)
class Check:
    """Only in a transaction: nothing is written, the condition must hold."""

    key: Key
    condition: Presence | VersionIs


Op = Put | Delete | Check


@dataclass(frozen=True, slots=True)
class Page:
    """`cursor` is opaque; None when the range was read to its end."""

    items: list[Item]
    cursor: str | None = None


class ItemStore(Protocol):
    """Blocking; safe to call from several threads. Reads are strongly consistent unless they ask for less. Errors:
    `StorageUnavailable` when the engine failed.
    """

    def get(self, key: Key) -> Item | None:
        """The item, or None when it is absent or expired."""
        ...

    def query(
        self,
        table: Table,
        pk: str,
        *,
        prefix: str = "",
        after: str | None = None,
        before: str | None = None,
        backwards: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
        consistent: bool = True,
    ) -> Page:
        """Items of one partition in the byte order of `sk`.

        `prefix` and the exclusive bounds `after` and `before` combine. Without `limit` all pages are read to the end
        and `cursor` is None.
        With `limit` at most that many live items come back; `cursor` is set exactly when more may follow. Expired
        items are left out and don't count.
        Not `consistent`, it costs half, and may for a moment miss what was just written and show what was just
        replaced or deleted: for readers who can tell, or don't mind.
        """
        ...

    def write(self, ops: Sequence[Op], *, token: str) -> None:
        """One put or delete, or 1 to 100 ops on different keys as one transaction, all or nothing.

        `token` names this write (unique a write, the same when it is repeated): a repeat whose first try was applied
        succeeds and changes nothing (bug case 47). A transaction or a conditional delete is known for ten minutes; a
        single put as long as no other write replaced its item; a delete without a condition is just made again. A
        new attempt after `ConditionFailed` is another write and takes a new token.

        Raises `ConditionFailed` (index of the op, the item that is there), `ItemTooLarge`, `StorageUnavailable`, and
        `StorageError` for keys, counts or texts that no engine takes.
        """
        ...

    def delete_many(self, keys: Sequence[Key]) -> None:
        """Deletes any number of items without conditions, in batches, leftovers repeated until none is left. Not
        atomic.
        """
        ...


def item_bytes(item: Item) -> int:
    """What an item counts against the item limit, a little more than DynamoDB would count."""
    return OVERHEAD_BYTES + text_bytes(item.pk) + text_bytes(item.sk) + text_bytes(item.body)


def text_bytes(text: str) -> int:
    """Raises `StorageError` on a lone surrogate, which has no bytes in UTF-8."""
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise StorageError("A lone surrogate cannot be stored.") from error


def check_key(key: Key) -> None:
    """Raises `StorageError` on a key that no engine takes."""
    for name, limit in KEY_BYTES.items():
        if not 0 < text_bytes(getattr(key, name)) <= limit:
            raise StorageError(f"The {name} must have 1 to {limit} bytes.")


def check_ops(ops: Sequence[Op]) -> None:
    """The rules that every engine shares. Raises `ItemTooLarge`, or `StorageError` where the caller is at fault."""
    if not 1 <= len(ops) <= TRANSACTION_OPS:
        raise StorageError(f"A write takes 1 to {TRANSACTION_OPS} ops.")
    if len({op.key for op in ops}) != len(ops):
        raise StorageError("A write names a key once.")
    if len(ops) == 1 and isinstance(ops[0], Check):
        raise StorageError("A check alone writes nothing.")
    total = 0
    for op in ops:
        check_key(op.key)
        if isinstance(op, Put):
            size = item_bytes(op.item)
            if size > ITEM_BYTES:
                raise ItemTooLarge()
            total += size
    if len(ops) > 1 and total > TRANSACTION_BYTES:
        raise ItemTooLarge()
