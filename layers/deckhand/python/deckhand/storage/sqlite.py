"""The embedded engine: one SQLite file that threads and processes share, or `:memory:` for unit tests.

WAL with `synchronous=FULL` costs one fsync a write and loses nothing on kill -9. `BEGIN IMMEDIATE` takes the write
lock before anything is read, so that a condition still holds when its write is applied.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deckhand.domain.errors import ConditionFailed, StorageError, StorageUnavailable
from deckhand.storage.connections import Connections
from deckhand.storage.port import Delete, Item, Key, Op, Page, Presence, Put, Table, VersionIs, check_key, check_ops
from deckhand.storage.ranges import key_range

TOKEN_LIFE_S = 600
"""As long as DynamoDB remembers a ClientRequestToken."""
SWEEP_EVERY = 64
SWEEP_ROWS = 256
"""More rows a sweep than writes between two, so that expired items never pile up."""
DELETE_ROWS = 100

_COLUMNS = "sk, body, version, expires"
_AT_KEY = "tbl = ? AND pk = ? AND sk = ?"
_LIVE = "(expires IS NULL OR expires > ?)"


class SqliteStore:
    """An `ItemStore`. Nothing is opened before the first call, and a forked child opens its own connections; with
    `:memory:` it therefore starts empty.
    """

    def __init__(self, path: str | Path, *, now: Callable[[], float]) -> None:
        """`now` gives epoch seconds."""
        self._connections = Connections(path)
        self._now = now
        self._writes = 0

    def close(self) -> None:
        """Closes what this process opened; the next call opens anew (and empty, with `:memory:`)."""
        self._connections.close()

    def get(self, key: Key) -> Item | None:
        check_key(key)
        with self._connection() as connection:
            return self._read(connection, key)

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
        # There is one file: every read is consistent.
        check_key(Key(table, pk, "any"))
        if limit is not None and limit < 1:
            raise StorageError("A page has at least one item.")
        keys = key_range(prefix, after, before, backwards=backwards, cursor=cursor)
        if keys.is_empty:
            return Page([])
        where, values = [f"tbl = ? AND pk = ? AND {_LIVE}"], [table, pk, self._now()]
        if keys.low is not None:
            where.append("sk > ?" if keys.low == keys.after else "sk >= ?")
            values.append(keys.low)
        if keys.end is not None:
            where.append("sk < ?")
            values.append(keys.end)
        # One more than asked for tells whether more follows.
        values.append(-1 if limit is None else limit + 1)
        order = "DESC" if backwards else "ASC"
        statement = f"SELECT {_COLUMNS} FROM items WHERE {' AND '.join(where)} ORDER BY sk {order} LIMIT ?"  # noqa: S608
        with self._connection() as connection:
            rows = connection.execute(statement, values).fetchall()
        items = [Item(table, pk, *row) for row in rows[:limit]]
        return Page(items, items[-1].sk if len(rows) > len(items) else None)

    def write(self, ops: Sequence[Op], *, token: str) -> None:
        check_ops(ops)
        # A single put carries its token in its item, and a delete without a condition can be repeated.
        remembered = len(ops) > 1 or (isinstance(ops[0], Delete) and ops[0].condition is not None)
        with self._transaction() as connection:
            if remembered and self._applied_before(connection, ops, token):
                return
            if not self._conditions_hold(connection, ops, token):
                return
            for op in ops:
                self._apply(connection, op, token)
            self._sweep(connection)

    def delete_many(self, keys: Sequence[Key]) -> None:
        for key in keys:
            check_key(key)
        rows = [(key.table, key.pk, key.sk) for key in keys]
        # Short transactions let the writes of others in between.
        for start in range(0, len(rows), DELETE_ROWS):
            with self._transaction() as connection:
                connection.executemany(f"DELETE FROM items WHERE {_AT_KEY}", rows[start : start + DELETE_ROWS])  # noqa: S608

    def _applied_before(self, connection: sqlite3.Connection, ops: Sequence[Op], token: str) -> bool:
        """Remembers the token of a write that its items cannot carry. Raises `StorageError` when it named another
        write, as DynamoDB does.
        """
        digest, now = hashlib.sha256(repr(ops).encode()).hexdigest(), self._now()
        found = connection.execute("SELECT digest FROM tokens WHERE token = ? AND expires > ?", (token, now)).fetchone()
        if found is None:
            row = (token, digest, int(now) + TOKEN_LIFE_S)
            connection.execute("INSERT OR REPLACE INTO tokens (token, digest, expires) VALUES (?, ?, ?)", row)
        elif found[0] != digest:
            raise StorageError("This token names another write.")
        return found is not None

    def _conditions_hold(self, connection: sqlite3.Connection, ops: Sequence[Op], token: str) -> bool:
        """False when this very write was applied before. Raises `ConditionFailed`."""
        failed: int | None = None
        for index, op in enumerate(ops):
            if op.condition is None:
                continue
            key = (op.key.table, op.key.pk, op.key.sk)
            row = connection.execute(f"SELECT version, expires, token FROM items WHERE {_AT_KEY}", key).fetchone()  # noqa: S608
            live = row is not None and (row[1] is None or row[1] > self._now())
            if _holds(op.condition, row[0] if live else None):
                continue
            if isinstance(op, Put) and row is not None and row[2] == token:
                return False
            failed = index if failed is None else failed
        if failed is not None:
            raise ConditionFailed(failed, self._read(connection, ops[failed].key))
        return True

    def _apply(self, connection: sqlite3.Connection, op: Op, token: str) -> None:
        if isinstance(op, Put):
            item = op.item
            connection.execute(
                "INSERT INTO items (tbl, pk, sk, version, expires, body, token) VALUES (?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (tbl, pk, sk) DO UPDATE SET version = excluded.version, expires = excluded.expires,"
                " body = excluded.body, token = excluded.token",
                (item.table, item.pk, item.sk, item.version, item.expires, item.body, token),
            )
        elif isinstance(op, Delete):
            connection.execute(f"DELETE FROM items WHERE {_AT_KEY}", (op.key.table, op.key.pk, op.key.sk))  # noqa: S608

    def _read(self, connection: sqlite3.Connection, key: Key) -> Item | None:
        statement = f"SELECT {_COLUMNS} FROM items WHERE {_AT_KEY} AND {_LIVE}"  # noqa: S608
        row = connection.execute(statement, (key.table, key.pk, key.sk, self._now())).fetchone()
        return None if row is None else Item(key.table, key.pk, *row)

    def _sweep(self, connection: sqlite3.Connection) -> None:
        """Removes some expired rows now and then, within a write that pays for the fsync anyway."""
        self._writes += 1
        if self._writes % SWEEP_EVERY:
            return
        for table in ("items", "tokens"):
            expired = f"SELECT rowid FROM {table} WHERE expires <= ? LIMIT {SWEEP_ROWS}"  # noqa: S608
            connection.execute(f"DELETE FROM {table} WHERE rowid IN ({expired})", (self._now(),))  # noqa: S608

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._connections.lend() as connection:
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise StorageUnavailable() from error
        except (UnicodeError, OverflowError) as error:
            raise StorageError("A value cannot be stored.") from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


def _holds(condition: Presence | VersionIs, version: int | None) -> bool:
    """`version` of the live item; None when there is none."""
    if isinstance(condition, Presence):
        return (version is None) == (condition is Presence.ABSENT)
    return version == condition.version
