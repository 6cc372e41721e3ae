"""Claiming what is due of one user: each claim is one transaction.

The occurrence goes, the next one comes, the state moves on the condition of its version, and the push lies in the
outbox. Of two sweeps one wins, and the other finds nothing left (bug case 61). Of the turns that a reminder missed only
its last one counts, and only within six hours (bug case 60).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from zoneinfo import ZoneInfo

from deckhand.domain.errors import ConditionFailed, StorageUnavailable
from deckhand.domain.job import Actor, Job
from deckhand.domain.occurrence import minute_text
from deckhand.domain.reminders import LATE_S, Fire, Person, Turn, fate, turn_of
from deckhand.reminders.index import ReminderIndex
from deckhand.reminders.open_plans import OpenPlans
from deckhand.reminders.plan import is_near
from deckhand.storage.due import Outgoing
from deckhand.storage.port import ItemStore, Op
from deckhand.storage.reminders import StoredReminder, UserReminders

AT_ONCE = 20
"""At most four ops each, within the hundred of a transaction."""
ATTEMPTS = 8


@dataclass(slots=True)
class Claimed:
    """How many turns were claimed, and the pushes that came of them."""

    turns: int = 0
    jobs: list[Job] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Due:
    stored: StoredReminder
    turn: Turn


@dataclass(frozen=True, slots=True)
class _Now:
    """How things are with a user at the moment of a claim."""

    user: str
    person: Person
    kept: UserReminders
    zone: ZoneInfo
    time: float


class Claims:
    """Blocking. `now` gives epoch seconds."""

    def __init__(
        self,
        index: ReminderIndex,
        store: ItemStore,
        *,
        tenant: str,
        now: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        self._index, self._store, self._tenant = index, store, tenant
        self._now, self._new_id = now, new_id
        self._plans = OpenPlans(index.cards)

    def of_user(self, user: str) -> Claimed:
        """Everything whose turn has come. Raises storage errors; what was claimed by then lies in the outbox."""
        claimed = Claimed()
        for _ in range(ATTEMPTS):
            try:
                for due in self._due(now := self._read(user)):
                    self._claim(now, due, claimed)
            except ConditionFailed:
                continue  # another sweep was quicker, or the reminder changed
            return claimed
        raise StorageUnavailable()

    def _read(self, user: str) -> _Now:
        person = self._index.people.find(user).person
        kept = self._index.reminders.of_user(user)
        return _Now(user, person, kept, self._index.zone_of(person), self._now())

    def _due(self, now: _Now) -> Iterator[list[_Due]]:
        """By the minute that counts, so that one of a user is one push."""
        by_minute: dict[int, list[_Due]] = defaultdict(list)
        for stored in now.kept.states.values():
            pending = stored.reminder.pending
            if pending is not None and pending <= now.time:
                turn = turn_of(stored.reminder, now.zone, now.time)
                by_minute[turn.came.at].append(_Due(stored, turn))
        for _, due in sorted(by_minute.items()):
            yield from (due[start : start + AT_ONCE] for start in range(0, len(due), AT_ONCE))

    def _claim(self, now: _Now, due: Sequence[_Due], claimed: Claimed) -> None:
        ops: list[Op] = []
        pushed = []
        for one in due:
            ops += self._moves(now, one)
            if self._tells(now, one, ops):
                pushed.append(one.stored.reminder.id)
        jobs = [self._job(now, due[0].turn, pushed)] if pushed else []
        ops += [self._index.due.put_outgoing(Outgoing(job=job, at=now.time)) for job in jobs]
        self._store.write(ops, token=self._new_id())
        claimed.turns += len(due)
        claimed.jobs += jobs

    def _moves(self, now: _Now, due: _Due) -> list[Op]:
        """From this occurrence to the next."""
        old, follows = due.stored.reminder, due.turn.follows
        new = old.with_turn(follows, now.zone, near=is_near(follows, now.time))
        new = new.model_copy(update={"last_slot": due.turn.came.slot})
        index = self._index
        return [
            index.due.take(now.user, old, old.pending or 0),
            index.due.put(now.user, new, follows.at),
            index.reminders.put_state(now.user, new, due.stored.version),
        ]

    def _tells(self, now: _Now, due: _Due, ops: list[Op]) -> bool:
        """Whether it is pushed; what was decided against is written down."""
        reminder = due.stored.reminder
        end = fate(
            now.person,
            now.kept.choice(reminder.id),
            now.zone,
            default_on=reminder.default_on,
            missed_by=due.turn.missed_by,
            now=now.time,
        )
        if end == "push":
            left = self._plans.left(reminder.trigger, due.turn.came.day)
            return left is None or bool(left)
        if end != "off":
            ops.append(self._index.reminders.put_fire(now.user, reminder.id, Fire(at=due.turn.came.at, status=end)))
        return False

    def _job(self, now: _Now, turn: Turn, reminders: Sequence[str]) -> Job:
        return push_job(
            self._tenant,
            now.user,
            reminders,
            at=turn.came.at,
            day=turn.came.day,
            late=turn.missed_by >= LATE_S,
            fire=self._new_id(),
        )


def push_job(
    tenant: str,
    user: str,
    reminders: Sequence[str],
    *,
    at: float,
    day: date,
    fire: str,
    late: bool = False,
    asked: bool = False,
) -> Job:
    """`at` is the instant that the push stands for, in epoch seconds; `day` the person's date then; `asked`: the person
    wants it now.
    """
    actor = Actor(kind="schedule", id="reminders", user=user, role="viewer", tenant=tenant)
    return Job(
        kind="push",
        actor=actor,
        due=minute_text(at),
        day=day.isoformat(),
        reminders=tuple(reminders),
        late=late,
        asked=asked,
        fire=fire,
    )
