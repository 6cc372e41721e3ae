"""Once a minute: what is due is claimed, and queued as one push a user and minute.

A push leaves the outbox when the queue has it; what a sweep that died left there is sent by a later one. So a push is
never lost, and may be queued twice under the same `fire`, by which its delivery knows it.

After a time without sweeps the cursor makes up for it, minute by minute; past a day, without a cursor, or when the
deployment's zone is another, everything is looked at once.

How far this goes. A due reminder of a person who has no other costs 9 write units (occurrence, its successor, state
and outbox at 2 each in the transaction, 1 when the outbox is cleared; the largest item has half a KB) and 2 read
units; more of the same person and minute share the push and the reads, at 6 write units each. To deliver it costs 3
more, and 2 for each further device (a claim, its end, and what became of the reminder). A million a day are 12 million
write units. `deckhand bench` claims and queues 1,000 of 1,000 people in about a second on SQLite. What ends it is the
partition: a DynamoDB partition takes 1,000 write units a second, so a minute's items go at 500 a second, and the
desk's outbox at 330.

For millions, split minutes and desks by people: `due#<minute>#<shard>` and `sweep#<shard>`, with the shard a hash of
the user modulo a count that the cursor item keeps; occurrences carry it in their key, so a new count needs no move,
only that both are read for a week. The minute's function then only reads the count and sends one message a shard and
minute through the queue, and each worker runs what is below for its shard, with its own cursor: a message that comes
twice does no harm already. At 3,000 due a shard and minute each is done in 10 s: a million in one minute take 334
shards. With about 20 ms a claim on DynamoDB (two reads and a transaction; an estimate, eight side by side) a million
claims are 2,500 seconds of a 1 GB function, 8 s a shard.
"""

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from deckhand.domain.errors import StorageError
from deckhand.domain.job import Job
from deckhand.domain.occurrence import DAY, MINUTE
from deckhand.reminders.claim import Claimed, Claims
from deckhand.reminders.index import ReminderIndex
from deckhand.storage.due import Cursor, Desk
from deckhand.storage.queue import JobQueue

logger = logging.getLogger(__name__)

OUTBOX_S = 30
"""A push that lies there longer was left behind; before, the sweep that claimed it may be at work."""
CURSOR_EVERY = 60
AHEAD_S = 600
"""A cursor this far ahead was set by a clock that was wrong."""


@dataclass(slots=True)
class Swept:
    """`claimed` turns, and the `pushes` that came of them. `failed`: something is left to the next sweep."""

    claimed: int = 0
    pushes: int = 0
    failed: bool = False


class Sweep:
    """Blocking. `workers`: users that are claimed for side by side."""

    def __init__(
        self,
        index: ReminderIndex,
        claims: Claims,
        jobs: JobQueue,
        *,
        now: Callable[[], float],
        new_id: Callable[[], str],
        workers: int = 8,
    ) -> None:
        self._index, self._claims, self._jobs = index, claims, jobs
        self._now, self._new_id, self._workers = now, new_id, workers
        self._due = index.due

    def run(self, *, time_left: Callable[[], float] | None = None) -> Swept:
        """`time_left` gives the seconds that the process still has. Raises `StorageError` when the store does not
        answer; nothing is passed over then.
        """
        now, swept = self._now(), Swept()
        minute = int(now) // MINUTE * MINUTE
        desk = self._due.desk()
        self._settle(desk)
        self._send([out.job for out in desk.outgoing if now - out.at > OUTBOX_S])
        self._claim({user for at, user in desk.near if at <= now}, swept)
        reached = desk.cursor.minute
        known = desk.cursor.zone == self._index.default_zone.key
        if reached is None or not known or not minute - DAY <= reached <= minute + AHEAD_S:
            self._sweep_all(desk.cursor, minute, swept)
        else:
            self._catch_up(desk.cursor, range(reached + MINUTE, minute + 1, MINUTE), swept, time_left)
        return swept

    def _sweep_all(self, cursor: Cursor, minute: int, swept: Swept) -> None:
        self._index.arm_everybody()
        self._claim([stored.user for stored in self._index.people.all()], swept)
        if not swept.failed:
            self._move(cursor, minute)

    def _catch_up(self, cursor: Cursor, minutes: range, swept: Swept, time_left: Callable[[], float] | None) -> None:
        """The cursor stops before the first minute that could not be done, and is left to whoever moves it beside."""
        at: Cursor | None = cursor
        for number, minute in enumerate(minutes, start=1):
            if time_left is not None and time_left() <= 0:
                return
            self._claim(self._due.users_at(minute), swept)
            due_now = number % CURSOR_EVERY == 0 or number == len(minutes)
            if due_now and at is not None and not swept.failed:
                at = self._move(at, minute)

    def _move(self, cursor: Cursor, minute: int) -> Cursor | None:
        return self._due.move(cursor, minute, zone=self._index.default_zone.key, token=self._new_id())

    def _settle(self, desk: Desk) -> None:
        for marker in desk.markers:
            try:
                self._index.settle(marker)
            except StorageError:
                logger.warning("reminders not brought in step; the next sweep does it", exc_info=True)

    def _claim(self, users: Iterable[str], swept: Swept) -> None:
        waiting = sorted(users)
        if len(waiting) > 1 and self._workers > 1:
            with ThreadPoolExecutor(self._workers) as threads:
                found = list(threads.map(self._claim_one, waiting))
        else:
            found = [self._claim_one(user) for user in waiting]
        claimed = [one for one in found if one is not None]
        jobs = [job for one in claimed for job in one.jobs]
        swept.claimed += sum(one.turns for one in claimed)
        swept.pushes += len(jobs)
        swept.failed |= len(claimed) < len(found)
        self._send(jobs)

    def _claim_one(self, user: str) -> Claimed | None:
        """None when it failed: one user's trouble must not keep the others waiting."""
        try:
            return self._claims.of_user(user)
        except StorageError:
            logger.warning("due reminders not claimed; the next sweep does it", exc_info=True)
        except Exception:
            logger.exception("due reminders cannot be claimed")
        return None

    def _send(self, jobs: list[Job]) -> None:
        """A queue that does not take them leaves them in the outbox."""
        if not jobs:
            return
        try:
            self._jobs.send_many(jobs)
            self._due.sent(jobs)
        except StorageError:
            logger.warning("pushes not queued; a later sweep does it", extra={"pushes": len(jobs)}, exc_info=True)
