"""Worlds of processes on the engines that several processes can share."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from deckhand.domain import recovery
from deckhand.storage.port import ItemStore
from deckhand.storage.sqlite import SqliteStore
from tests.api import Api, Deploy
from tests.faults import World
from tests.gated import Gated, Make, gated
from tests.people import Deployment
from tests.stores import Clock, DynamoTables


@pytest.fixture(autouse=True)
def cheap_recovery_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are made to cost time; the unit tests let them."""
    monkeypatch.setattr(recovery, "COST", 2)


@pytest.fixture
def store() -> Iterator[ItemStore]:
    """Of the true time; tests that move the clock take `clocked_store`."""
    with closing(SqliteStore(":memory:", now=time.time)) as made:
        yield made


@pytest.fixture
def deployment(clocked_store: ItemStore, clock: Clock) -> Deployment:
    """One that people sign in to, on the test's clock."""
    return Deployment(clocked_store, clock)


@pytest.fixture
def deploy(store: ItemStore) -> Iterator[Deploy]:
    with ExitStack() as stack:
        yield lambda *scripts, **settings: stack.enter_context(closing(Api(store, *scripts, **settings)))


@pytest.fixture
def make(store: ItemStore) -> Iterator[Make]:
    """Deployments on that store whose model asks for gated writes."""
    with ExitStack() as stack:
        yield lambda *cards, **settings: stack.enter_context(gated(store, *cards, **settings))


@pytest.fixture
def api(make: Make) -> Gated:
    """One of them, with the card `weight`."""
    return make()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """On a SQLite file, with a conversation in it."""
    clock = Clock()
    with closing(SqliteStore(tmp_path / "deckhand.sqlite3", now=clock)) as store:
        made = World(store, clock, tmp_path)
        made.create()
        yield made


@pytest.fixture(params=["sqlite", "ministack"])
def any_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """On each engine in turn; ministack is asked for only here, so that SQLite is tested where it is not installed."""
    if request.param == "sqlite":
        yield request.getfixturevalue("world")
        return
    tables: DynamoTables = request.getfixturevalue("ministack_tables")
    clock = Clock()
    made = World(tables.store(clock), clock, tmp_path)
    made.create()
    yield made
