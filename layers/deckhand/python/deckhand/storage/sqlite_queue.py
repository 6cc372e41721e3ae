"""The job queue in the SQLite file: what SQS does for the cloud, for the laptop stack."""

import sqlite3
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from deckhand.domain.errors import StorageUnavailable
from deckhand.domain.job import Job
from deckhand.storage.queue import MAX_TRIES

VISIBILITY_S = 960.0
"""Longer than the worker may run, as SQS wants it."""
RETRY_S = 2.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY, body TEXT NOT NULL, visible_at REAL NOT NULL, tries INTEGER NOT NULL, dead INTEGER NOT NULL
)
"""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A job that was taken. `tries` counts this one."""

    id: str
    body: str
    tries: int


class SqliteQueue:
    """`now` gives epoch seconds. Opens a connection a call: jobs are rare, and nothing is carried over a fork."""

    def __init__(self, path: str | Path, *, now: Callable[[], float]) -> None:
        self._path, self._now = str(path), now

    def send(self, job: Job) -> None:
        self.send_many([job])

    def send_many(self, jobs: Sequence[Job]) -> None:
        rows = [(uuid.uuid4().hex, job.to_json(), self._now()) for job in jobs]
        with self._connection() as connection:
            connection.executemany("INSERT INTO jobs VALUES (?, ?, ?, 0, 0)", rows)

    def take(self, limit: int) -> list[Delivery]:
        """At most `limit` jobs that are due, hidden from others until they are done, failed or forgotten by a dead
        worker.
        """
        now = self._now()
        if not self._due(now):
            return []
        with self._connection() as connection:
            connection.execute(
                "UPDATE jobs SET dead = 1 WHERE dead = 0 AND visible_at <= ? AND tries >= ?", (now, MAX_TRIES)
            )
            rows = connection.execute(
                "UPDATE jobs SET visible_at = ?, tries = tries + 1 WHERE id IN "
                "(SELECT id FROM jobs WHERE dead = 0 AND visible_at <= ? ORDER BY visible_at LIMIT ?) "
                "RETURNING id, body, tries",
                (now + VISIBILITY_S, now, limit),
            ).fetchall()
        return [Delivery(*row) for row in rows]

    def done(self, job_id: str) -> None:
        with self._connection() as connection:
            connection.execute("DELETE FROM jobs WHERE id = ?", (job_id,))

    def failed(self, job_id: str, tries: int) -> None:
        """To be tried again, later each time; after the last try it is put aside."""
        with self._connection() as connection:
            connection.execute(
                "UPDATE jobs SET visible_at = ?, dead = ? WHERE id = ?",
                (self._now() + RETRY_S * 2**tries, int(tries >= MAX_TRIES), job_id),
            )

    def delay(self, receipt: str, seconds: float) -> None:
        """Nothing: `failed` says when a job comes again, and soon enough."""

    def release(self) -> None:
        """Makes the jobs that were taken due again, for their workers are known to be gone."""
        now = self._now()
        with self._connection() as connection:
            connection.execute("UPDATE jobs SET visible_at = ? WHERE dead = 0 AND visible_at > ?", (now, now))

    def dead(self) -> list[Delivery]:
        """Jobs that were put aside."""
        with self._connection() as connection:
            rows = connection.execute("SELECT id, body, tries FROM jobs WHERE dead = 1").fetchall()
        return [Delivery(*row) for row in rows]

    def _due(self, now: float) -> bool:
        """Looked at without a lock: whoever waits for work must not hold up those who write."""
        if not Path(self._path).exists():
            return False
        try:
            with closing(sqlite3.connect(self._path, timeout=30)) as connection:
                known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'jobs'").fetchone()
                due = "SELECT 1 FROM jobs WHERE dead = 0 AND visible_at <= ? LIMIT 1"
                return known is not None and connection.execute(due, (now,)).fetchone() is not None
        except sqlite3.Error as failed:
            raise StorageUnavailable() from failed

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=30, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous=FULL")
                connection.execute(_SCHEMA)
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
        except sqlite3.Error as failed:
            raise StorageUnavailable() from failed
