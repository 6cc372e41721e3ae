"""The limit of requests a minute, on every route that asks who is calling."""

from typing import Any

import pytest

from deckhand.domain.errors import StorageUnavailable
from deckhand.storage.port import ItemStore
from tests.api import Api, Deploy
from tests.fakes import says

ROUTES = [
    ("POST", "/api/chat"),
    ("GET", "/api/chat/status"),
    ("GET", "/api/chat/turns"),
    ("GET", "/api/chat/turn/c1"),
    ("DELETE", "/api/chat/turn/c1"),
    ("GET", "/api/conversations"),
    ("GET", "/api/chat/history"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_private_route_counts_and_is_refused_behind_the_limit(deploy: Deploy, method: str, path: str) -> None:
    api = deploy(DECKHAND_RATE_PER_MINUTE="1")
    assert api("GET", "/api/chat/status", token="agent").status == 200
    refused = api(method, path, {"messages": []}, token="agent")
    assert refused.refusal == (429, "rate_limited")
    assert 1 <= int(refused.headers["retry-after"]) <= 120
    assert refused.body["retryAfter"] == int(refused.headers["retry-after"])


def test_a_stream_is_refused_as_plain_json(deploy: Deploy) -> None:
    api = deploy(DECKHAND_RATE_PER_MINUTE="1")
    body = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
    api("GET", "/api/chat/status", token="agent")
    assert api("POST", "/api/chat", body, token="agent").refusal == (429, "rate_limited")


def test_who_is_calling_is_asked_first_and_a_stranger_counts_for_nobody(deploy: Deploy) -> None:
    api = deploy(DECKHAND_RATE_PER_MINUTE="1")
    for _ in range(3):
        assert api("GET", "/api/chat/status", token="wrong").refusal == (401, "unauthenticated")
    assert api("GET", "/api/chat/status", token="agent").status == 200


def test_public_routes_have_no_limit(deploy: Deploy) -> None:
    api = deploy(DECKHAND_RATE_PER_MINUTE="1")
    assert [api("GET", "/healthz", token="agent").status for _ in range(3)] == [200] * 3


def test_the_direct_form_has_a_limit_of_its_own_behind_its_token(deploy: Deploy) -> None:
    api = deploy(says("hello"), DECKHAND_RATE_PER_MINUTE="1", CHAT_API_TOKEN="direct")
    direct = {"X-Chat-Token": "direct"}
    assert api("POST", "/api/chat", {"message": "hi"}, headers={"X-Chat-Token": "no"}).status == 401
    assert api("POST", "/api/chat", {"message": "hi"}, headers=direct).status == 200
    assert api("POST", "/api/chat", {"message": "hi"}, headers=direct).refusal == (429, "rate_limited")
    assert api("GET", "/api/chat/status", token="agent").status == 200


def test_without_a_limit_nothing_is_stored_for_a_request(deploy: Deploy, store: ItemStore) -> None:
    deploy()("GET", "/api/chat/status", token="agent")
    assert store.query("deck", "main#rate#token:agent").items == []


def test_a_store_that_fails_locks_nobody_out(deploy: Deploy, store: ItemStore) -> None:
    class Failing:
        def write(self, *_: Any, **__: Any) -> None:
            raise StorageUnavailable()

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

    api = Api(Failing(), DECKHAND_RATE_PER_MINUTE="1")
    assert [api("GET", "/api/chat/status", token="agent").status for _ in range(3)] == [200] * 3
