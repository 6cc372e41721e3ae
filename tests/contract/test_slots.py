"""The slots of direct chats on the engines that processes share (checklist 002-31, 002-39 to 002-41, 002-45)."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from deckhand.domain.errors import ConditionFailed, StorageUnavailable, TooManyChats
from deckhand.storage.port import Op
from deckhand.turns import slots
from deckhand.turns.context import TurnContext
from deckhand.turns.slots import SLOT_LEASE_S, Slot, give_back, holding, take_slot
from tests.fakes import FakeQueue, until
from tests.stores import Shelf, new_token

RACERS = 8

pytestmark = pytest.mark.parametrize("shelf", ["sqlite-file", "ministack"], indirect=True)


def context_on(shelf: Shelf) -> TurnContext:
    return TurnContext.on(shelf.store, now=shelf.clock, new_id=new_token, jobs=FakeQueue())


@pytest.fixture
def context(shelf: Shelf) -> TurnContext:
    return context_on(shelf)


@pytest.fixture
def tenant() -> str:
    return f"tenant-{new_token()}"


def renewed(slot: Slot, version: int) -> bool:
    return slot.version >= version


def taken(context: TurnContext, tenant: str, limit: int) -> Slot | None:
    try:
        return take_slot(context, tenant, limit)
    except TooManyChats:
        return None


def test_002_39_of_many_at_once_as_many_as_the_limit_get_a_slot(context: TurnContext, tenant: str) -> None:
    start = threading.Barrier(RACERS)

    def racer(_: int) -> Slot | None:
        start.wait(timeout=30)
        return taken(context, tenant, 3)

    with ThreadPoolExecutor(RACERS) as pool:
        won = [slot for slot in pool.map(racer, range(RACERS)) if slot is not None]
    assert len({slot.key for slot in won}) == len(won) == 3


def test_002_41_a_slot_that_is_given_back_can_be_taken_again(context: TurnContext, tenant: str) -> None:
    give_back(context, take_slot(context, tenant, 1))
    assert taken(context, tenant, 1) is not None


def test_002_45_a_slot_is_free_when_its_lease_is_over_and_no_earlier(
    shelf: Shelf, context: TurnContext, tenant: str
) -> None:
    take_slot(context, tenant, 1)
    shelf.clock.time += SLOT_LEASE_S - 1
    assert taken(context, tenant, 1) is None
    shelf.clock.time += 1
    assert taken(context, tenant, 1) is not None


def test_002_45_who_lost_a_slot_does_not_give_back_anothers(shelf: Shelf, context: TurnContext, tenant: str) -> None:
    lost = take_slot(context, tenant, 1)
    shelf.clock.time += SLOT_LEASE_S
    take_slot(context, tenant, 1)
    give_back(context, lost)
    assert taken(context, tenant, 1) is None


async def test_002_45_a_slot_in_use_outlives_its_first_lease(
    shelf: Shelf, context: TurnContext, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "RENEW_S", 0.005)
    slot = take_slot(context, tenant, 1)
    async with holding(context, slot):
        for _ in range(3):
            shelf.clock.time += SLOT_LEASE_S / 2
            before = slot.version
            # Two renewals: the first may have read the clock before it moved.
            await until(partial(renewed, slot, before + 2))
        assert taken(context, tenant, 1) is None
    assert taken(context, tenant, 1) is not None


async def test_002_45_who_lost_a_slot_does_not_keep_anothers(
    shelf: Shelf, context: TurnContext, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "RENEW_S", 0.005)
    lost = take_slot(context, tenant, 1)
    shelf.clock.time += SLOT_LEASE_S
    theirs = take_slot(context, tenant, 1)
    refused: list[Exception] = []
    write = context.store.write

    def noting(ops: Sequence[Op], *, token: str) -> None:
        try:
            write(ops, token=token)
        except ConditionFailed as failed:
            refused.append(failed)
            raise

    monkeypatch.setattr(context.store, "write", noting)
    async with holding(context, lost):
        await until(lambda: refused)
    item = shelf.store.get(theirs.key)
    assert item is not None
    assert item.version == theirs.version


async def test_002_41_the_slot_is_free_after_an_exception(context: TurnContext, tenant: str) -> None:
    with pytest.raises(RuntimeError):
        async with holding(context, take_slot(context, tenant, 1)):
            raise RuntimeError
    assert taken(context, tenant, 1) is not None


async def test_a_store_that_fails_at_the_end_costs_a_lease_and_no_answer(
    shelf: Shelf, context: TurnContext, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_: object, **__: object) -> None:
        raise StorageUnavailable()

    async with holding(context, take_slot(context, tenant, 1)):
        monkeypatch.setattr(context.store, "write", unavailable)
    monkeypatch.undo()
    assert taken(context, tenant, 1) is None
    shelf.clock.time += SLOT_LEASE_S
    assert taken(context, tenant, 1) is not None
