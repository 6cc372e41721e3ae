"""Fixtures that every kind of test may use."""

import signal
from collections.abc import Iterator

import pytest

from tests.scripted_gateway import ScriptedGateway
from tests.stores import DynamoTables, dynamo_client, make_tables, running_ministack


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
