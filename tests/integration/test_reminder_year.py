"""A year of reminders: 40 people in 40 zones, 13 reminders each, with sweeps that fail, die, come twice or not at all,
and people who move. Instants are compared with dateutil's.

Every minute is swept on the days when a clock changes; on others, those in which something is due. The profile
`explore` sweeps every minute of the year.
"""

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from dateutil import tz as dateutil_tz  # type: ignore[import-untyped]
from dateutil.zoneinfo import get_zonefile_instance  # type: ignore[import-untyped]
from hypothesis import settings

from deckhand.domain.errors import StorageUnavailable
from deckhand.domain.job import Job
from deckhand.domain.notifications import DAYS
from deckhand.domain.occurrence import DAY, minute_text
from deckhand.domain.reminders import LATEST_S
from deckhand.storage.due import Due
from deckhand.storage.port import ItemStore
from deckhand.storage.sqlite import SqliteStore
from tests.deck import manifest
from tests.faults import Killed
from tests.reminder_world import World, at, daily
from tests.stores import Clock, EachCall

EVERY_MINUTE = settings.get_current_profile_name() == "explore"
BEGIN, END = at("2026-01-01 00:00"), at("2027-01-01 00:00")
ZONES = (
    "Europe/Madrid",
    "Europe/London",
    "Europe/Helsinki",
    "Europe/Chisinau",
    "Europe/Lisbon",
    "Atlantic/Azores",
    "Africa/Cairo",
    "Africa/Lagos",
    "Africa/Casablanca",
    "Asia/Beirut",
    "Asia/Jerusalem",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Asia/Shanghai",
    "Asia/Dubai",
    "Asia/Tehran",
    "Asia/Yangon",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Australia/Adelaide",
    "Australia/Eucla",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Apia",
    "Pacific/Kiritimati",
    "Pacific/Honolulu",
    "Pacific/Marquesas",
    "Pacific/Norfolk",
    "Pacific/Easter",
    "America/New_York",
    "America/Chicago",
    "America/Los_Angeles",
    "America/Anchorage",
    "America/St_Johns",
    "America/Havana",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/Nuuk",
    "Antarctica/Troll",
)
WEEKLY = (
    ("02:30", ["sun"]),
    ("02:15", ["sat"]),
    ("00:30", ["fri", "sun"]),
    ("23:59", ["sat"]),
    ("01:15", ["sun"]),
    ("03:00", ["mon"]),
    ("00:00", ["sun", "mon"]),
    ("12:00", ["wed"]),
    ("23:30", ["sat"]),
    ("09:00", ["tue"]),
    ("00:01", ["sun"]),
    ("21:00", ["thu"]),
)
TRIGGERS: dict[str, dict[str, Any]] = {
    "daily": daily("02:30"),
    **{f"w{n}": {"type": "weekly", "time": clock, "days": days} for n, (clock, days) in enumerate(WEEKLY)},
}


@dataclass(frozen=True)
class Slot:
    at: int
    name: str


def slots(zone: str, trigger: dict[str, Any]) -> list[Slot]:
    """All of the year and some days around it, by dateutil."""
    there, clock = get_zonefile_instance().get(zone), time.fromisoformat(trigger["time"])
    days = trigger.get("days", DAYS)
    found = []
    for n in range(-3, 369):
        day = date(2026, 1, 1) + timedelta(days=n)
        if DAYS[day.weekday()] in days:
            wall = datetime.combine(day, clock)
            real = dateutil_tz.resolve_imaginary(wall.replace(tzinfo=there, fold=0))
            found.append(Slot(int(real.astimezone(UTC).timestamp()), wall.strftime("%Y-%m-%dT%H:%M")))
    return found


def change_days(zone: str) -> Iterator[int]:
    """The days of UTC, counted from the epoch, in which the zone's clock changes, by dateutil."""
    there, first = get_zonefile_instance().get(zone), datetime.fromtimestamp(BEGIN, UTC)
    offsets = [(first + timedelta(days=n)).astimezone(there).utcoffset() for n in range(366)]
    return (int(BEGIN) // DAY + n for n, (old, new) in enumerate(pairwise(offsets)) if old != new)


@dataclass
class Story:
    """What happens, drawn before it does: who is where from when, and when no sweeps come."""

    dice: random.Random
    homes: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    outages: list[tuple[float, float]] = field(default_factory=list)
    change_days: frozenset[int] = frozenset(day for zone in ZONES for day in change_days(zone))

    def __post_init__(self) -> None:
        draw = self.dice
        self.homes = {f"u{n:02d}": [(BEGIN, zone)] for n, zone in enumerate(ZONES)}
        for user in draw.sample(sorted(self.homes), 25):
            moments = sorted(draw.uniform(BEGIN + 60, END - 60) for _ in range(draw.randint(1, 4)))
            self.homes[user] += [(moment // 1 + 0.5, draw.choice(ZONES)) for moment in moments]
        lengths = (180, 1_200, 4_000, 5 * 3_600, 8 * 3_600, 30 * 3_600, 76 * 3_600)
        for moment in sorted(draw.uniform(BEGIN, END) for _ in range(30)):
            begin = max(moment, self.outages[-1][1] + 60 if self.outages else 0)
            self.outages.append((begin, begin + draw.choice(lengths)))

    def expected(
        self, user: str, trigger: dict[str, Any], table: dict[tuple[str, str], list[Slot]], name: str
    ) -> list[Slot]:
        """The slots that come up for a user, each local time once, in the order of their coming."""
        found: list[Slot] = []
        homes = [*self.homes[user], (END, "")]
        for (begin, zone), (end, _) in pairwise(homes):
            for slot in table[zone, name]:
                if begin < slot.at <= end and (not found or slot.name > found[-1].name):
                    found.append(slot)
        return found

    def up(self, moment: float) -> bool:
        return not any(begin <= moment < end for begin, end in self.outages)


class Mortal(EachCall):
    """One sweep's way to the store: at a call it fails, dies, or is met by another sweep."""

    def __init__(self, inner: ItemStore, left: int, what: str, other: Any) -> None:
        super().__init__(inner)
        self._left, self._what, self._other = left, what, other

    def at(self, call: Callable[[], Any]) -> Any:
        self._left -= 1
        if self._left != 0:
            return call()
        if self._what == "another sweep":
            self._other()
            return call()
        if self._what in ("fails", "dies"):
            raise StorageUnavailable() if self._what == "fails" else Killed()
        result = call()
        if self._what in ("fails late", "dies late"):
            raise StorageUnavailable() if self._what == "fails late" else Killed()
        return result


WHAT = ("fails", "fails late", "dies", "dies late", "another sweep", "another sweep", "the queue fails")


@dataclass
class Run:
    """The year as it goes: sweeps that ended, sweeps that were begun, and jobs by fire."""

    world: World
    story: Story
    ended: list[float] = field(default_factory=list)
    begun: list[float] = field(default_factory=list)
    jobs: dict[str, Job] = field(default_factory=dict)
    troubles: Counter[str] = field(default_factory=Counter)
    idled: float = BEGIN
    minutes: int = 0

    def sweep(self, moment: float) -> None:
        """One that may go wrong; then a minute later, and another minute later, one that does not."""
        world, dice = self.world, self.story.dice
        world.clock.time = moment
        self.begun.append(moment)
        if dice.random() < 0.97:
            world.sweep()
            self.ended.append(moment)
        else:
            what = dice.choice(WHAT)
            self.troubles[what] += 1
            self._troubled(what)
            for later in (60, 120):
                world.clock.time = moment + later
                self.begun.append(world.clock.time)
                world.sweep()
                self.ended.append(world.clock.time)
        for job in world.pushed():
            assert self.jobs.setdefault(job.fire, job) == job

    def _troubled(self, what: str) -> None:
        world = self.world
        if what == "the queue fails":
            world.queue.failure = StorageUnavailable()
        mortal = Mortal(world.store, self.story.dice.randint(1, 9), what, world.sweep)
        with suppress(Killed, StorageUnavailable):
            world.sweeper(mortal).run()
        world.queue.failure = None

    def idle_until(self, moment: float) -> None:
        """The minutes between, in which nothing is due."""
        last = max(self.begun[-1] if self.begun else BEGIN, self.idled)
        self.idled = moment
        for minute in range(int(last) // 60 * 60 + 60, int(moment) // 60 * 60, 60):
            if self.story.up(minute) and (EVERY_MINUTE or minute // DAY in self.story.change_days):
                self.world.clock.time = minute
                self.begun.append(minute)
                assert self.world.sweep().failed is False
                self.ended.append(minute)
                self.minutes += 1

    def skip_to(self, moment: float) -> None:
        """As if every minute before had been swept, with nothing due."""
        due = Due(self.world.store, "main")
        cursor = due.desk().cursor
        minute = int(moment) // 60 * 60 - 60
        if cursor.minute is not None and cursor.minute < minute:
            due.move(cursor, minute, zone=cursor.zone, token=self.world.ids())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    clock = Clock(BEGIN)
    with closing(SqliteStore(":memory:", now=clock)) as store:
        yield World(tmp_path, store, clock)


def begin(world: World, story: Story) -> None:
    for user, ((_, zone), *_) in story.homes.items():
        world.index().set_person(user, lambda person, zone=zone: person.model_copy(update={"zone": zone}))  # type: ignore[misc]
    text = {"label": "a", "title": "a", "body": "a"}
    items = [{"id": name, **text, "trigger": trigger} for name, trigger in TRIGGERS.items()]
    for n, some in enumerate((items[:7], items[7:])):
        answer = world.deck("POST", "/api/manifests", manifest(f"c{n}", notifications={"items": some}))
        assert answer.status == 201, answer
    world.deck("POST", "/api/notifications/global-state", {"paused_until": "2040-01-01T00:00:00Z"})  # the owner's
    world.sweep()


@pytest.mark.timeout(1_800 if EVERY_MINUTE else 600)
def test_a_year_of_outages_deaths_and_moves_tells_each_local_time_once(world: World) -> None:
    story = Story(random.Random(7))  # noqa: S311
    table = {(zone, name): slots(zone, trigger) for zone in ZONES for name, trigger in TRIGGERS.items()}
    begin(world, story)
    expected = {
        (user, name): story.expected(user, trigger, table, name)
        for user in story.homes
        for name, trigger in TRIGGERS.items()
    }
    run = Run(world, story)
    run.ended.append(BEGIN)
    live(run, expected)
    check(run, expected)


def live(run: Run, expected: dict[tuple[str, str], list[Slot]]) -> None:
    """All that happens, in its order."""
    story, dice = run.story, run.story.dice
    minutes = {slot.at for due in expected.values() for slot in due}
    happens: list[tuple[float, str, str]] = [(minute + dice.uniform(0, 20), "sweep", "") for minute in minutes]
    happens += [(moment, zone, user) for user, homes in story.homes.items() for moment, zone in homes[1:]]
    happens += [(end, "sweep", "") for _, end in story.outages] + [(END + 5, "sweep", "")]
    missed = False
    for moment, what, user in sorted(happens):
        run.idle_until(moment)
        if what != "sweep":
            run.world.clock.time = moment
            run.world.index().set_person(user, lambda person, zone=what: person.model_copy(update={"zone": zone}))  # type: ignore[misc]
        elif story.up(moment):
            if not missed and not EVERY_MINUTE:
                run.skip_to(moment)
            run.sweep(moment)
            missed = False
        else:
            missed = True
    run.sweep(END + 125)


def check(run: Run, expected: dict[tuple[str, str], list[Slot]]) -> None:
    told: dict[tuple[str, str], list[str]] = {}
    for job in run.jobs.values():
        for reminder in job.reminders:
            told.setdefault((job.actor.user, reminder.partition("#")[2]), []).append(job.due)
    owed = allowed = 0
    for pair, due in expected.items():
        dues = told.get(pair, [])
        assert len(set(dues)) == len(dues), f"{pair} was told twice"
        must, may = set(), set()
        for slot, after in zip(due, [*due[1:], Slot(int(END) + 10**6, "")], strict=True):
            first_end = run.ended[bisect_left(run.ended, slot.at)]
            first_try = run.begun[bisect_left(run.begun, slot.at)]
            if first_end - slot.at <= LATEST_S and after.at > first_end:
                must.add(minute_text(slot.at))
            if first_try - slot.at <= LATEST_S:
                may.add(minute_text(slot.at))
        assert must <= set(dues) <= may, pair
        owed, allowed = owed + len(must), allowed + len(may)
    assert owed > 40_000
    assert allowed - owed < 0.01 * owed
    assert set(run.troubles) == set(WHAT)
    assert run.minutes > (400_000 if EVERY_MINUTE else 15_000)
