"""Fixtures that every kind of test may use."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.scripted_gateway import ScriptedGateway
from tests.stores import DynamoTables, dynamo_client, make_tables, running_ministack

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
def scripted_gateway() -> Iterator[ScriptedGateway]:
    """Fails the test on a request that nothing was queued for, and on a reply that nobody asked for."""
    with ScriptedGateway() as gateway:
        yield gateway
    gateway.verify()
