"""A shelf on every engine."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from deckhand.storage.sqlite import SqliteStore
from tests.stores import Clock, DynamoTables, Shelf, dynamo_client, make_tables


@pytest.fixture(scope="session")
def moto_client() -> Iterator[Any]:
    """Answered by moto inside `mock_aws`. Made once, since a client takes long to build."""
    with dynamo_client() as client:
        yield client


@pytest.fixture(params=["sqlite-memory", "sqlite-file", "moto", "ministack"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    """An empty partition on each engine in turn; `engine` tells which."""
    clock = Clock()
    if request.param == "ministack":
        # Asked for only here, so that the other engines are tested where ministack is not installed.
        tables: DynamoTables = request.getfixturevalue("ministack_tables")
        yield Shelf(tables.store(clock), clock)
    elif request.param == "moto":
        client = request.getfixturevalue("moto_client")
        # For one thread only: moto's conditional writes are not atomic.
        with mock_aws():
            yield Shelf(make_tables(client).store(clock), clock)
    else:
        path = ":memory:" if request.param == "sqlite-memory" else tmp_path / "store.db"
        with closing(SqliteStore(path, now=clock)) as store:
            yield Shelf(store, clock)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    """The name of the engine that `shelf` is on."""
    name: str = request.node.callspec.params["shelf"]
    return name
