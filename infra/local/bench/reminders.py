"""What reminders cost: a sweep with nothing due, a minute in which a thousand are due, and finding the next time."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from deckhand.domain.occurrence import next_occurrence, rule_of
from deckhand.domain.reminders import Person
from deckhand.reminders.claim import Claims
from deckhand.reminders.index import ReminderIndex
from deckhand.reminders.sweep import Sweep
from deckhand.storage.cards import CardState
from deckhand.storage.sqlite import SqliteStore
from deckhand.storage.sqlite_queue import SqliteQueue
from infra.local.bench.numbers import Measure, at_most, measure
from infra.local.bench.processes import CannotMeasureError
from infra.local.bench.storage_cost import CountingStore

DUE = 1_000
EVERY_DAY = {"type": "daily", "time": "09:00"}
NINE = 1_800_003_600.0
"""2027-01-15T09:00Z."""


def reminder_measures(folder: Path) -> Iterator[Measure]:
    yield measure("next time of a reminder", "µs", _next_times(), at_most(50))
    world = _World(folder)
    world.sweep(NINE - 3_600)
    world.add_people()
    world.sweep(NINE - 120)
    reads, _ = world.sweep(NINE - 60)
    yield measure("sweep with nothing due: reads", "", [reads], at_most(2))
    began = time.perf_counter()
    _, written = world.sweep(NINE)
    elapsed = time.perf_counter() - began
    if len(world.queue.take(DUE + 1)) != DUE:
        raise CannotMeasureError("Not every reminder that was due was queued.")
    yield measure("1,000 due of 1,000 people, claimed and queued", "s", [elapsed], at_most(10))
    yield measure("a due reminder: write units", "WU", [written / DUE])
    world.store.close()


class _World:
    """A deck with one daily reminder, on a SQLite file with its queue."""

    def __init__(self, folder: Path) -> None:
        self.time = NINE - 7_200
        self.store = SqliteStore(folder / "deckhand.sqlite3", now=self._now)
        self.counting = CountingStore(self.store)
        self.queue = SqliteQueue(folder / "deckhand.sqlite3", now=self._now)
        self.index = ReminderIndex(
            self.counting, "main", default_zone=ZoneInfo("UTC"), now=self._now, new_id=self._new_id
        )
        claims = Claims(self.index, self.counting, tenant="main", now=self._now, new_id=self._new_id)
        self._sweep = Sweep(self.index, claims, self.queue, now=self._now, new_id=self._new_id)
        item = {"id": "am", "label": "Weigh in", "title": "Weigh in", "body": "Before breakfast", "trigger": EVERY_DAY}
        meta: dict[str, Any] = {"id": "weight", "label": "Weight", "notifications": {"items": [item]}}
        self.index.cards.create("weight", {"meta": meta}, CardState(generation="g"), None, token=self._new_id())

    def add_people(self) -> None:
        """The owner is one already."""
        for number in range(DUE - 1):
            self.index.set_person(f"user-{number:04d}", lambda _: Person(zone="UTC"))

    def sweep(self, moment: float) -> tuple[int, float]:
        """Reads and write units of a sweep at that moment."""
        self.time = moment
        self.counting.reads, self.counting.write_units = 0, 0
        self._sweep.run()
        return self.counting.reads, self.counting.write_units

    def _now(self) -> float:
        return self.time

    def _new_id(self) -> str:
        return uuid.uuid4().hex


def _next_times() -> list[float]:
    """In microseconds, over a year of days in a zone with summer time."""
    rule, zone = rule_of({"type": "weekly", "time": "02:30", "days": ["sun"]}), ZoneInfo("Europe/Madrid")
    samples = []
    for day in range(365):
        began = time.perf_counter()
        next_occurrence(rule, zone, NINE + day * 86_400)
        samples.append((time.perf_counter() - began) * 1e6)
    return samples
