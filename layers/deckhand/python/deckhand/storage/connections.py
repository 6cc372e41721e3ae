"""SQLite connections that threads borrow and that never cross a fork."""

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUSY_S = 30
"""How long a writer waits for its turn."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS items (
    tbl TEXT NOT NULL, pk TEXT NOT NULL, sk TEXT NOT NULL, version INTEGER NOT NULL, expires INTEGER,
    body TEXT NOT NULL, token TEXT NOT NULL, PRIMARY KEY (tbl, pk, sk)
);
CREATE INDEX IF NOT EXISTS items_by_expiry ON items (expires) WHERE expires IS NOT NULL;
CREATE TABLE IF NOT EXISTS tokens (token TEXT PRIMARY KEY, digest TEXT NOT NULL, expires INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS tokens_by_expiry ON tokens (expires);
"""


class Connections:
    """Idle connections by process: a child that was forked finds none of its parent's, and leaves those untouched,
    for it may neither use nor close them (sqlite.org/howtocorrupt.html, section 2.6).
    """

    def __init__(self, path: str | Path) -> None:
        self._path = str(path)
        self._pools: dict[int, _Pool] = {}
        weakref.finalize(self, _close_own, self._pools)

    @contextmanager
    def lend(self) -> Iterator[sqlite3.Connection]:
        # setdefault is atomic, so two first threads share one pool.
        pool = self._pools.setdefault(os.getpid(), _Pool(self._path))
        with pool.lend() as connection:
            yield connection

    def close(self) -> None:
        _close_own(self._pools)


class _Pool:
    """As many connections as threads that work at once; for `:memory:` a single one that they take in turn."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._idle: list[sqlite3.Connection] = []
        self._turn = threading.Lock() if path == ":memory:" else None

    @contextmanager
    def lend(self) -> Iterator[sqlite3.Connection]:
        if self._turn is None:
            yield from self._lend()
        else:
            with self._turn:
                yield from self._lend()

    def _lend(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = _connect(self._path)
        try:
            yield connection
        finally:
            self._idle.append(connection)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


def _close_own(pools: dict[int, _Pool]) -> None:
    pool = pools.pop(os.getpid(), None)
    if pool is not None:
        pool.close()


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = 1; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """Processes that make the file at once collide here (one in thirty when six did), and SQLite's busy timeout does
    not cover that.
    """
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
