"""Bearer tokens: made, used, listed, narrowed, expired, revoked, over the API and with the store below it."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any
from unittest.mock import patch

import pytest

from deckhand.domain.access_token import AccessToken, fingerprint
from deckhand.domain.errors import NotConfigured, StorageUnavailable, Unauthenticated
from deckhand.domain.principal import AGENT, Principal
from deckhand.edge.auth import Authenticator
from deckhand.edge.request import Request
from deckhand.storage.port import Key
from deckhand.storage.sqlite import SqliteStore
from deckhand.storage.tokens import Tokens
from tests.api import Answer, Api
from tests.stores import Clock, new_token

OWNER = Principal(kind="user", id="owner", user="owner", role="owner")


@pytest.fixture
def store(clock: Clock) -> SqliteStore:
    return SqliteStore(":memory:", now=clock)


@pytest.fixture
def tokens(store: SqliteStore, clock: Clock) -> Tokens:
    return Tokens(store, now=clock, new_id=new_token)


def token(**given: Any) -> AccessToken:
    return AccessToken.model_validate(
        {"id": "t1", "name": "n", "role": "agent", "user": "owner", "tenant": "main", "created_at": "now", **given}
    )


def request(bearer: str, method: str = "GET") -> Request:
    return Request(method, "/", {"authorization": f"Bearer {bearer}"}, {}, b"", "r1")


def test_a_token_opens_as_its_principal_with_what_narrows_it(tokens: Tokens) -> None:
    tokens.add(token(operations=["list_rows"], cards=["weight"]), secret="s3cret", expires=None)
    found = Authenticator(None, tokens=tokens).principal(request("s3cret"))
    assert (found.kind, found.id, found.user, found.role) == ("token", "t1", "owner", "agent")
    assert (found.operations, found.cards) == (frozenset({"list_rows"}), frozenset({"weight"}))


def test_of_a_secret_only_the_hash_is_stored(tokens: Tokens, store: SqliteStore) -> None:
    tokens.add(token(), secret="s3cret", expires=None)
    dumped = str(store.query("identity", "main#tokens").items) + str(
        store.query("identity", f"token#{fingerprint('s3cret')}").items
    )
    assert "s3cret" not in dumped
    assert fingerprint("s3cret") in dumped


def test_a_token_that_has_expired_opens_nothing(tokens: Tokens, clock: Clock) -> None:
    tokens.add(token(), secret="s3cret", expires=int(clock.time) + 60)
    authenticator = Authenticator(None, tokens=tokens)
    assert authenticator.principal(request("s3cret")).id == "t1"
    clock.time += 61
    with pytest.raises(Unauthenticated):
        authenticator.principal(request("s3cret"))
    assert tokens.all("main") == []


def test_a_revoked_token_opens_nothing_at_once(tokens: Tokens) -> None:
    tokens.add(token(), secret="s3cret", expires=None)
    tokens.revoke("main", "t1")
    with pytest.raises(Unauthenticated):
        Authenticator(None, tokens=tokens).principal(request("s3cret"))


def test_the_token_of_the_environment_needs_no_read(clock: Clock) -> None:
    class NoStore(SqliteStore):
        def get(self, key: Key) -> Any:
            raise AssertionError(key)

    tokens = Tokens(NoStore(":memory:", now=clock), now=clock, new_id=new_token)
    assert Authenticator("environment", tokens=tokens).principal(request("environment")) == AGENT


def test_a_lookup_is_one_read(tokens: Tokens, store: SqliteStore) -> None:
    tokens.add(token(), secret="s3cret", expires=None)
    with patch.object(store, "get", wraps=store.get) as get:
        Authenticator(None, tokens=tokens).principal(request("s3cret"))
    assert get.call_count == 1


def test_a_store_that_fails_lets_nobody_in(tokens: Tokens, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(key: Key) -> Any:
        raise StorageUnavailable()

    monkeypatch.setattr(store, "get", fail)
    with pytest.raises(StorageUnavailable):
        Authenticator("environment", tokens=tokens).principal(request("s3cret"))


def test_before_any_credential_exists_everybody_hears_that_nothing_is_configured(tokens: Tokens) -> None:
    authenticator = Authenticator(None, tokens=tokens)
    with pytest.raises(NotConfigured):
        authenticator.principal(request("s3cret"))
    tokens.add(token(), secret="s3cret", expires=None)
    with pytest.raises(Unauthenticated):
        authenticator.principal(request("other"))


def test_a_use_is_noted_at_most_once_an_hour_by_however_many_processes(
    tokens: Tokens, store: SqliteStore, clock: Clock
) -> None:
    made = token()
    tokens.add(made, secret="s3cret", expires=None)
    clock.time = 1_800_000_000
    tokens.note_use(made)
    first = tokens.all("main")[0].last_used_at
    assert first == "2027-01-15T08:00:00.000Z"
    clock.time += 3599
    Tokens(store, now=clock, new_id=new_token).note_use(made)
    assert tokens.all("main")[0].last_used_at == first
    clock.time += 1
    Tokens(store, now=clock, new_id=new_token).note_use(made)
    assert tokens.all("main")[0].last_used_at == "2027-01-15T09:00:00.000Z"


# -- over the API


@pytest.fixture
def api(store: SqliteStore) -> Iterator[Api]:
    with closing(Api(store)) as api:
        yield api


def make(api: Api, *, who: str = "ann", **given: Any) -> Answer:
    return api("POST", "/api/tokens", {"name": "scales", "role": "agent", **given}, token=who)


def listed(api: Api, who: str = "ann") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api("GET", "/api/tokens", token=who).body["tokens"]
    return found


def test_the_secret_is_shown_once_and_works(api: Api) -> None:
    made = make(api)
    assert made.status == 201
    assert made.headers["cache-control"] == "no-store"
    assert api("GET", "/api/conversations", token=made.body["secret"]).status == 200
    [shown] = listed(api)
    assert shown["name"] == "scales"
    assert shown["lastUsedAt"]
    assert "secret" not in shown


def test_a_token_sees_the_conversations_of_the_person_it_acts_for(api: Api) -> None:
    conversation = api.conversation(title="Ann's")
    secret = make(api).body["secret"]
    assert api("GET", f"/api/conversations/{conversation}", token=secret).status == 200
    assert api("GET", f"/api/conversations/{conversation}", token=make(api, who="bob").body["secret"]).status == 404


@pytest.mark.parametrize(("who", "role"), [("vic", "agent"), ("vic", "editor"), ("eve", "owner")])
def test_nobody_makes_a_token_with_more_rights_than_their_own(api: Api, who: str, role: str) -> None:
    assert make(api, who=who, role=role).refusal == (403, "forbidden")
    assert listed(api) == []


@pytest.mark.parametrize(("who", "role"), [("vic", "viewer"), ("eve", "editor"), ("eve", "agent"), ("ann", "owner")])
def test_everybody_may_make_one_of_their_own_rank(api: Api, who: str, role: str) -> None:
    assert make(api, who=who, role=role).status == 201


def test_an_agent_makes_no_tokens(api: Api) -> None:
    assert make(api, who="agent").refusal == (403, "forbidden")
    assert make(api, who=make(api).body["secret"], role="viewer").refusal == (403, "forbidden")


def test_a_narrow_token_makes_only_narrower_ones(api: Api) -> None:
    narrow = make(api, role="owner", operations=["create_token", "list_rows"]).body["secret"]
    assert make(api, who=narrow).refusal == (403, "forbidden")
    assert make(api, who=narrow, operations=["list_rows", "append_row"]).refusal == (403, "forbidden")
    assert make(api, who=narrow, operations=["list_rows"]).status == 201


def test_a_token_that_ends_makes_none_that_outlives_it(api: Api) -> None:
    short = make(api, role="owner", expiresAt="2099-01-01T00:00:00Z").body["secret"]
    assert make(api, who=short).refusal == (403, "forbidden")
    assert make(api, who=short, expiresAt="2099-01-01T00:00:01Z").refusal == (403, "forbidden")
    assert make(api, who=short, expiresAt="2098-12-31T00:00:00+00:00").status == 201


def test_a_token_for_a_tool_may_use_its_route_and_hand_that_on(api: Api) -> None:
    meta = {"id": "mood", "label": "Mood", "writeable": {"fromWebapp": True}}
    api("POST", "/api/manifests", {"$schema": "klebb.datafile.v1", "meta": meta, "data": []})
    narrow = make(api, role="owner", operations=["append_row", "create_token"]).body["secret"]
    assert api("POST", "/api/manifests/mood/rows", {"value": {"mood": 3}}, token=narrow).status == 201
    assert api("GET", "/api/manifests/mood/rows", token=narrow).refusal == (403, "forbidden")
    assert make(api, who=narrow, operations=["add_row"]).status == 201


def test_a_token_for_templates_makes_no_other_cards_and_one_for_cards_makes_both(api: Api) -> None:
    other = {"$schema": "klebb.datafile.v1", "meta": {"id": "mine", "label": "Mine"}}
    wish = {"templateId": api("GET", "/api/templates").body["templates"][0]["id"]}
    narrow = make(api, role="owner", operations=["create_from_template", "create_token"]).body["secret"]
    assert api("POST", "/api/manifests", {"manifest": other}, token=narrow).refusal == (403, "forbidden")
    assert make(api, who=narrow, operations=["create_manifest"]).refusal == (403, "forbidden")
    assert api("POST", "/api/settings/cards/from-template", wish, token=narrow).status == 201
    wide = make(api, operations=["create_manifest"]).body["secret"]
    assert api("POST", "/api/settings/cards/from-template", wish, token=wide).refusal == (409, "duplicate_id")


def test_names_of_no_operation_are_told_with_those_that_are_close(api: Api) -> None:
    answer = make(api, operations=["apend_row", "list_rows", "zzz"])
    assert answer.refusal == (422, "invalid")
    first, second = answer.body["errors"]
    assert first["message"].startswith("there is no operation apend_row; close to it: append_row")
    assert second == {"path": "operations", "message": "there is no operation zzz"}


def test_others_see_and_revoke_only_their_own_tokens(api: Api) -> None:
    anns, eves = make(api).body["id"], make(api, who="eve").body["id"]
    assert {one["id"] for one in listed(api)} == {anns, eves}
    assert [one["id"] for one in listed(api, "eve")] == [eves]
    assert api("DELETE", f"/api/tokens/{anns}", token="eve").refusal == (404, "unknown_token")
    assert api("DELETE", f"/api/tokens/{eves}").body == {"ok": True}
    assert [one["id"] for one in listed(api)] == [anns]


def test_a_revoked_token_is_401_from_the_next_request_on(api: Api) -> None:
    made = make(api).body
    assert api("GET", "/api/conversations", token=made["secret"]).status == 200
    api("DELETE", f"/api/tokens/{made['id']}")
    assert api("GET", "/api/conversations", token=made["secret"]).refusal == (401, "unauthenticated")


@pytest.mark.parametrize(
    "given",
    [
        {"name": ""},
        {"name": "   "},
        {"name": "x" * 81},
        {"role": "operator"},
        {"role": "king"},
        {"operations": ["no_such_operation"]},
        {"operations": []},
        {"cards": "weight"},
        {"unknown": 1},
    ],
)
def test_what_cannot_be_used_is_refused_and_makes_nothing(api: Api, given: dict[str, Any]) -> None:
    assert make(api, **given).refusal == (422, "invalid")
    assert listed(api) == []


@pytest.mark.parametrize(
    "instant",
    ["yesterday", "2001-01-01T00:00:00Z", "2027-13-01", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-12:00"],
)
def test_an_end_that_is_no_instant_to_come_is_refused(api: Api, instant: str) -> None:
    assert make(api, expiresAt=instant).refusal == (422, "invalid")
    assert listed(api) == []


def test_an_id_that_no_token_has_is_404(api: Api) -> None:
    assert api("DELETE", "/api/tokens/nothing").refusal == (404, "unknown_token")
    assert api("DELETE", f"/api/tokens/{'x' * 900}").refusal == (404, "unknown_token")
