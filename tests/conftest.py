"""Fixtures that every kind of test may use."""

import gc
import signal
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import HealthCheck, settings

from deckhand.storage.port import ItemStore
from deckhand.storage.sqlite import SqliteStore
from tests.answers import Watch
from tests.scripted_gateway import ScriptedGateway
from tests.stores import Clock, DynamoTables, dynamo_client, make_tables, running_ministack

# A run of the suite says the same each time, and nothing in it is timed. Chance is for looking further:
# `python3 infra/dev.py test --hypothesis-profile=explore`.
settings.register_profile(
    "default",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", settings.get_profile("default"), derandomize=False, max_examples=2_000)
settings.load_profile("default")


def pytest_configure() -> None:
    """Where the tests run in the background Ctrl-C is ignored, and programs that they start would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What was imported stays. Looking through it again and again took the collector a third of all time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def watch() -> Iterator[Watch]:
    """Of all operations that are run in this process."""
    made = Watch()
    end = made.begin()
    yield made
    end()


@pytest.fixture(autouse=True)
def as_declared(watch: Watch) -> Iterator[None]:
    """Every result of an operation is what its annotation says."""
    yield
    faults, watch.faults = watch.faults, []
    assert faults == []


@pytest.fixture(scope="session")
def ministack_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One ministack for all tests that need it."""
    with running_ministack(tmp_path_factory.mktemp("ministack")) as url:
        yield url


@pytest.fixture(scope="session")
def ministack_tables(ministack_url: str) -> Iterator[DynamoTables]:
    with dynamo_client(endpoint_url=ministack_url) as client:
        yield make_tables(client)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def clocked_store(clock: Clock) -> Iterator[ItemStore]:
    """In memory, on the test's clock."""
    with closing(SqliteStore(":memory:", now=clock)) as made:
        yield made


@pytest.fixture
def scripted_gateway() -> Iterator[ScriptedGateway]:
    """Fails the test on a request that nothing was queued for, and on a reply that nobody asked for."""
    with ScriptedGateway() as gateway:
        yield gateway
    gateway.verify()
