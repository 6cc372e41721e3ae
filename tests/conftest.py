"""Fixtures that every kind of test may use."""

from collections.abc import Iterator

import pytest

from tests.scripted_gateway import ScriptedGateway


@pytest.fixture
def scripted_gateway() -> Iterator[ScriptedGateway]:
    """Fails the test on a request that nothing was queued for, and on a reply that nobody asked for."""
    with ScriptedGateway() as gateway:
        yield gateway
    gateway.verify()
