"""Several at once at one push, or at one person's devices, on the engines that several processes can share."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

from deckhand.domain.subscription import MAX_SUBSCRIPTIONS
from deckhand.storage.port import ItemStore
from deckhand.storage.push_claims import KEPT_S, LEASE_S, Claim, PushClaims
from deckhand.storage.sqlite import SqliteStore
from deckhand.storage.subscriptions import Subscriptions
from tests.push_service import Device
from tests.stores import Clock, DynamoTables, new_token

AT_ONCE = 8
T = TypeVar("T")


@pytest.fixture(params=["sqlite", "ministack"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[ItemStore]:
    if request.param == "ministack":
        tables: DynamoTables = request.getfixturevalue("ministack_tables")
        yield tables.store(clock)
        return
    with closing(SqliteStore(tmp_path / "deckhand.sqlite3", now=clock)) as made:
        yield made


@pytest.fixture
def tenant() -> str:
    """A partition of the test's own."""
    return new_token()


def at_once(act: Callable[[int], T]) -> list[T]:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(act, range(AT_ONCE)))


def test_of_many_workers_at_one_push_one_sends(store: ItemStore, tenant: str, clock: Clock) -> None:
    claims = PushClaims(store, tenant, "ann", fire="f1")
    taken = at_once(lambda _: claims.take("phone", now=clock(), token=new_token()))
    (mine,) = [one for one in taken if isinstance(one, Claim)]
    assert taken.count(None) == AT_ONCE - 1
    claims.settle(mine, "sent", now=clock(), token=new_token())
    assert at_once(lambda _: claims.take("phone", now=clock(), token=new_token())) == ["sent"] * AT_ONCE


def test_of_many_that_follow_a_dead_worker_one_sends(store: ItemStore, tenant: str, clock: Clock) -> None:
    claims = PushClaims(store, tenant, "ann", fire="f1")
    dead = claims.take("phone", now=clock(), token=new_token())
    assert claims.take("phone", now=clock() + LEASE_S - 1, token=new_token()) is None
    clock.time += LEASE_S
    taken = at_once(lambda _: claims.take("phone", now=clock(), token=new_token()))
    (mine,) = [one for one in taken if isinstance(one, Claim)]
    assert isinstance(dead, Claim)
    claims.settle(dead, "failed", now=clock(), token=new_token())
    claims.settle(mine, "sent", now=clock(), token=new_token())
    assert claims.take("phone", now=clock(), token=new_token()) == "sent", "whoever came back late changed nothing"


def test_a_push_that_was_given_back_is_taken_at_once(store: ItemStore, tenant: str, clock: Clock) -> None:
    claims = PushClaims(store, tenant, "ann", fire="f1")
    for _ in range(3):
        claim = claims.take("phone", now=clock(), token=new_token())
        assert isinstance(claim, Claim)
        claims.give_back(claim, now=clock(), token=new_token())
    clock.time += LEASE_S + KEPT_S
    assert isinstance(claims.take("phone", now=clock(), token=new_token()), Claim)


def test_however_many_subscribe_at_once_20_devices_are_left(store: ItemStore, tenant: str) -> None:
    subscriptions, template = Subscriptions(store, tenant), Device("https://push.test/x").subscription

    def subscribe(number: int) -> None:
        for part in range(4):
            one = template.model_copy(update={"endpoint": f"https://push.test/{number}-{part}"})
            subscriptions.put("ann", one, token=new_token())

    at_once(subscribe)
    assert len(subscriptions.all("ann")) == MAX_SUBSCRIPTIONS


def test_of_many_people_on_one_device_at_once_one_has_it(store: ItemStore, tenant: str) -> None:
    subscriptions, device = Subscriptions(store, tenant), Device("https://push.test/x").subscription
    people = [f"p{number}" for number in range(3)]
    at_once(lambda number: subscriptions.put(people[number % 3], device, token=new_token()) if number < 3 else None)
    assert [len(subscriptions.all(person)) for person in people].count(1) == 1
