"""The template and the functions' routers name the same routes: neither knows of the other."""

from pathlib import Path

import pytest

from deckhand.bootstrap import Parts
from deckhand.settings import read_settings
from infra.local.template import Function, read_template
from tests.sam import TEMPLATE

APPS = {
    "ChatFunction": Parts.chat_app,
    "ConversationsFunction": Parts.conversations_app,
    "ManifestsFunction": Parts.manifests_app,
    "IdentityFunction": Parts.identity_app,
}


@pytest.mark.parametrize("function", [f for f in read_template(TEMPLATE) if f.routes], ids=lambda f: f.name)
def test_the_template_sends_a_function_what_its_router_knows(function: Function, tmp_path: Path) -> None:
    parts = Parts(read_settings({"DECKHAND_SQLITE": str(tmp_path / "deckhand.sqlite3")}))
    known = {(method, path) for path, methods in APPS[function.name](parts).paths.items() for method in methods}
    assert {(route.method, route.resource) for route in function.routes} == known
