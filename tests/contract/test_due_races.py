"""Sweeps that come at once, and changes that meet a sweep, on every engine with atomic conditions."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from deckhand.domain.job import Job
from deckhand.domain.reminders import Person
from deckhand.reminders.claim import Claims
from deckhand.reminders.index import ReminderIndex
from deckhand.reminders.sweep import Sweep
from deckhand.storage.cards import Cards, CardState, Change
from deckhand.storage.due import Due
from tests.fakes import FakeQueue
from tests.reminder_world import at, daily
from tests.stores import Shelf, new_token

RACERS, USERS, ITEMS = 6, 4, 3

pytestmark = pytest.mark.parametrize("shelf", ["sqlite-file", "ministack"], indirect=True)


def manifest(times: dict[str, str]) -> dict[str, Any]:
    items = [
        {"id": item, "label": "a", "title": "a", "body": "a", "trigger": daily(clock)} for item, clock in times.items()
    ]
    return {"meta": {"id": "weight", "label": "Weight", "notifications": {"items": items}}}


class Place:
    """A deck of a tenant of its own, with people whose reminders are due at nine."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf, self.tenant, self.queue = shelf, shelf.pk, FakeQueue()
        shelf.clock.time = at("2027-01-15 07:00")
        self.cards = Cards(shelf.store, self.tenant)
        times = {f"r{n}": "09:00" for n in range(ITEMS)}
        self.cards.create("weight", manifest(times), CardState(generation="g"), None, token=new_token())
        self.sweep().run()
        for n in range(1, USERS):
            self.index().set_person(f"u{n}", lambda _: Person(zone="UTC"))
        shelf.clock.time = at("2027-01-15 08:59")
        self.sweep().run()

    def index(self) -> ReminderIndex:
        return ReminderIndex(
            self.shelf.store, self.tenant, default_zone=ZoneInfo("UTC"), now=self.shelf.clock, new_id=new_token
        )

    def sweep(self) -> Sweep:
        index = self.index()
        claims = Claims(index, self.shelf.store, tenant=self.tenant, now=self.shelf.clock, new_id=new_token)
        return Sweep(index, claims, self.queue, now=self.shelf.clock, new_id=new_token, workers=2)

    def told(self) -> Counter[tuple[str, str]]:
        """How often each reminder was pushed, by distinct pushes."""
        jobs: dict[str, Job] = {job.fire: job for job in self.queue.jobs}
        return Counter((job.actor.user, reminder) for job in jobs.values() for reminder in job.reminders)

    def pending(self) -> list[int | None]:
        users = [stored.user for stored in self.index().people.all()]
        kept = [self.index().reminders.of_user(user) for user in users]
        return [stored.reminder.pending for one in kept for stored in one.states.values()]


def at_once(racers: list[Callable[[], object]]) -> None:
    start = threading.Barrier(len(racers))

    def run(racer: Callable[[], object]) -> None:
        start.wait(timeout=30)
        racer()

    with ThreadPoolExecutor(len(racers)) as pool:
        list(pool.map(run, racers))


def test_case_61_of_sweeps_that_come_at_once_each_reminder_is_pushed_by_one(shelf: Shelf) -> None:
    place = Place(shelf)
    shelf.clock.time = at("2027-01-15 09:00")
    at_once([place.sweep().run for _ in range(RACERS)])
    assert len(place.queue.jobs) == USERS
    assert set(place.told().values()) == {1}
    assert len(place.told()) == USERS * ITEMS
    assert place.pending() == [at("2027-01-16 09:00")] * USERS * ITEMS
    assert Due(shelf.store, place.tenant).desk().outgoing == []


def test_a_change_that_meets_a_sweep_leaves_one_turn_for_each_reminder(shelf: Shelf) -> None:
    place = Place(shelf)
    shelf.clock.time = at("2027-01-15 09:00")

    def change(clock: str) -> None:
        new = manifest({f"r{n}": clock for n in range(ITEMS)})
        place.cards.change("weight", lambda card: Change(card.state, new), token=new_token())
        place.index().card_changed("weight")

    def move() -> None:
        place.index().set_person("u1", lambda _: Person(zone="Asia/Tokyo"))

    at_once([place.sweep().run, lambda: change("10:00"), place.sweep().run, lambda: change("11:00"), move])
    shelf.clock.time = at("2027-01-15 09:01")
    place.sweep().run()
    assert set(place.told().values()) <= {1}
    final = place.cards.find("weight").manifest["meta"]["notifications"]["items"][0]["trigger"]["time"]
    here, tokyo = at(f"2027-01-15 {final}"), at(f"2027-01-16 {final}") - 9 * 3_600
    assert Counter(place.pending()) == {here: (USERS - 1) * ITEMS, tokyo: ITEMS}
    for moment, users in ((tokyo, {"u1"}), (here, {"owner", "u2", "u3"})):
        assert Due(shelf.store, place.tenant).users_at(int(moment)) == users
