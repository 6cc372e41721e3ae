"""Whatever fails or dies, and wherever: a reminder is told once, and the index is in step at last."""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from deckhand.domain.errors import StorageUnavailable
from deckhand.domain.reminders import Person
from deckhand.storage.cards import Card, Change
from deckhand.storage.due import Due
from deckhand.storage.port import ItemStore, Page, Table
from deckhand.storage.sqlite import SqliteStore
from tests.faults import Killed
from tests.reminder_world import World, at, daily
from tests.stores import Clock, EachCall

AM = "weight#am"
CALLS = 14
"""More than a sweep, or a change, makes here."""


class Broken(EachCall):
    """A store that goes wrong at its `left`th call: before it, or (`late`) behind it."""

    def __init__(self, inner: ItemStore, left: int, error: BaseException, *, late: bool) -> None:
        super().__init__(inner)
        self.left, self._error, self._late = left, error, late

    def at(self, call: Callable[[], Any]) -> Any:
        self.left -= 1
        if self.left == 0 and not self._late:
            raise self._error
        result = call()
        if self.left == 0:
            raise self._error
        return result


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    clock = Clock(at("2026-11-29 12:00"))
    with closing(SqliteStore(":memory:", now=clock)) as store:
        world = World(tmp_path, store, clock)
        world.deck.create()
        world.sweep()
        world.remind("am", daily("09:00"))
        world.go("2026-11-30 08:59")
        yield world


def told(world: World) -> list[str]:
    """The reminders that were pushed, by distinct pushes."""
    jobs = {job.fire: job for job in world.pushed()}
    return [reminder for job in jobs.values() for reminder in job.reminders]


@pytest.mark.parametrize("late", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("kind", [StorageUnavailable, Killed])
@pytest.mark.parametrize("left", range(1, CALLS))
def test_a_sweep_that_goes_wrong_anywhere_costs_no_push_and_makes_no_second(
    world: World, left: int, kind: type[BaseException], late: bool
) -> None:
    world.clock.time = at("2026-11-30 09:00")
    broken = Broken(world.store, left, kind(), late=late)
    with suppress(kind):
        world.sweeper(broken).run()
    world.clock.time += 60
    world.sweep()
    assert told(world) == [AM]
    assert world.listed()[AM]["next_due"] == "2026-12-01T09:00:00.000Z"
    assert Due(world.store, "main").desk().outgoing == []


def test_a_worker_that_dies_between_claim_and_queue_leaves_the_push_to_the_next_minute(world: World) -> None:
    class DeadlyQueue:
        def send_many(self, _: object) -> None:
            raise Killed()

    world.clock.time = at("2026-11-30 09:00")
    sweeper = world.sweeper()
    sweeper._jobs = DeadlyQueue()  # type: ignore[assignment]
    with pytest.raises(Killed):
        sweeper.run()
    assert world.listed()[AM]["next_due"] == "2026-12-01T09:00:00.000Z", "it is claimed"
    assert world.pushed() == []
    assert world.fired("2026-11-30 09:00:20") == [], "whoever claimed it may still be at work"
    assert world.fired("2026-11-30 09:01") == [AM]
    assert world.fired("2026-11-30 09:02") == []


@pytest.mark.parametrize("kind", [StorageUnavailable, Killed])
@pytest.mark.parametrize("left", range(1, CALLS))
def test_a_change_that_goes_wrong_anywhere_is_in_the_index_after_the_next_sweep(
    world: World, left: int, kind: type[BaseException]
) -> None:
    manifest = world.index().card("weight")
    assert manifest is not None
    items = [{"id": "pm", "label": "a", "title": "a", "body": "a", "trigger": daily("21:00")}]
    wanted = {**manifest.manifest, "meta": {**manifest.manifest["meta"], "notifications": {"items": items}}}
    index = world.index(Broken(world.store, left, kind(), late=False))
    with suppress(kind):
        index.cards.change("weight", lambda card: Change(card.state, wanted), token="change")
        index.card_changed("weight")
    changed = "weight#pm" in world.listed()
    assert world.fired("2026-11-30 09:00") == ([] if changed else [AM])
    assert world.fired("2026-11-30 21:00") == (["weight#pm"] if changed else [])


@pytest.mark.parametrize("kind", [StorageUnavailable, Killed])
@pytest.mark.parametrize("left", range(1, CALLS))
def test_a_move_that_goes_wrong_anywhere_is_in_the_index_after_the_next_sweep(
    world: World, left: int, kind: type[BaseException]
) -> None:
    index = world.index(Broken(world.store, left, kind(), late=False))
    with suppress(kind):
        index.set_person("owner", lambda _: Person(zone="America/New_York"))
    moved = world.index().people.find("owner").person.zone is not None
    assert world.fired("2026-11-30 08:59:30") == []
    assert world.fired("2026-11-30 09:00") == ([] if moved else [AM])
    assert world.fired("2026-11-30 14:00") == ([AM] if moved else [])


class Overtaken(EachCall):
    """A store at whose `left`th call somebody else is quicker."""

    def __init__(self, inner: ItemStore, left: int, quicker: Callable[[], object]) -> None:
        super().__init__(inner)
        self._left, self._quicker = left, quicker

    def at(self, call: Callable[[], Any]) -> Any:
        self._left -= 1
        if self._left == 0:
            self._quicker()
        return call()


@pytest.mark.parametrize("left", range(1, CALLS))
def test_an_older_view_of_a_card_never_wins(world: World, left: int) -> None:
    def evening(card: Card) -> Change:
        items = [{"id": "am", "label": "a", "title": "a", "body": "a", "trigger": daily("21:00")}]
        meta = {**card.manifest["meta"], "notifications": {"items": items}}
        return Change(card.state, {**card.manifest, "meta": meta})

    world.index().cards.change("weight", evening, token="change")
    world.index(Overtaken(world.store, left, lambda: world.remind("am", daily("10:00")))).card_changed("weight")
    if left < CALLS // 2:
        assert world.listed()[AM]["next_due"] == "2026-11-30T10:00:00.000Z"


@pytest.mark.parametrize("left", range(1, CALLS))
def test_an_older_view_of_a_person_never_wins(world: World, left: int) -> None:
    slow = world.index(Overtaken(world.store, left, lambda: world.moves_to("America/New_York")))
    slow.set_person("owner", lambda person: person.model_copy(update={"quiet_hours": None}))
    if left < CALLS // 2:
        assert world.listed()[AM]["next_due"] == "2026-11-30T14:00:00.000Z"


def test_a_turn_that_is_written_behind_the_sweep_of_its_minute_is_found_by_the_next(world: World) -> None:
    """By a process whose clock is a little slow, or that took its time."""
    world.go("2026-11-30 08:59")
    assert world.go("2026-11-30 09:00:01")
    world.clock.time = at("2026-11-30 08:59:59")
    world.remind("pm", daily("09:00"))
    assert world.fired("2026-11-30 09:00:30") == ["weight#pm"]


def test_one_users_trouble_keeps_no_other_waiting(world: World) -> None:
    world.sign_in("ann")
    world.moves_to("UTC")

    class NotForAnn:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.store, name)

        def query(self, table: Table, pk: str, **options: Any) -> Page:
            if pk.endswith("#ann"):
                raise StorageUnavailable()
            return world.store.query(table, pk, **options)

    world.clock.time = at("2026-11-30 09:00")
    swept = world.sweeper(NotForAnn()).run()
    assert (swept.pushes, swept.failed) == (1, True)
    assert [job.actor.user for job in world.pushed()] == ["owner"]
    world.clock.time += 60
    world.sweep()
    assert [job.actor.user for job in world.pushed()] == ["ann"]


def test_a_sweep_that_runs_out_of_time_goes_on_at_the_next_minute(world: World) -> None:
    world.clock.time = at("2026-11-30 10:00")
    left = iter([1.0] * 30 + [0.0] * 100)
    assert world.sweeper().run(time_left=lambda: next(left)).claimed == 1
    assert Due(world.store, "main").desk().cursor.minute == at("2026-11-30 08:59")
    world.go("2026-11-30 10:01")
    assert Due(world.store, "main").desk().cursor.minute == at("2026-11-30 10:01")


def test_a_clock_that_ran_a_year_ahead_stops_no_sweep_for_a_year(world: World) -> None:
    world.go("2027-11-30 08:00")
    assert world.fired("2026-11-30 08:59") == []
    assert world.fired("2026-11-30 09:00") == [AM]
