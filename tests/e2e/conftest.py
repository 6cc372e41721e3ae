"""What several end-to-end modules talk to."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from selenium.webdriver import Chrome

from tests.chromium import running_chromium
from tests.scripted_gateway import Reply, ScriptedGateway


@pytest.fixture(scope="module")
def gateway(model: Callable[[Any], Reply]) -> Iterator[ScriptedGateway]:
    """Answers as the module's own `model` does."""
    with ScriptedGateway() as gateway:
        gateway.respond = model
        yield gateway


@pytest.fixture(scope="session")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """One browser for all tests that need it, with a fresh profile."""
    with running_chromium(tmp_path_factory.mktemp("chromium")) as made:
        yield made
