"""The policy where operations are run: at the routes, and at the tools of a turn."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from deckhand.agent.chat import ToolCall
from deckhand.domain.principal import Principal, Role
from deckhand.storage.sqlite import SqliteStore
from tests.deck import Deck, event_of, manifest
from tests.fakes import FakeGateway, asks, call, says
from tests.policies import engine
from tests.stores import Clock

ROWS = "/api/manifests/mood/rows"


class House:
    """A deck with the card `mood`, and a chat; `become` says who asks from then on."""

    def __init__(self, folder: Path, store: SqliteStore) -> None:
        self.gateway = FakeGateway()
        self.deck = Deck(folder, store, {"CHAT_ENDPOINT_URL": "http://gateway.invalid/v1"})
        self.deck.parts.__dict__["gateway"] = self.gateway
        self.deck.create("mood", data=[{"date": "2026-04-20", "mood": 3}])
        self.deck.create("diary", data=[])

    def become(self, role: Role, **narrowed: Any) -> None:
        self.deck.sign_in(Principal("token" if narrowed else "user", "ann", "ann", role, **narrowed))

    def follow(self, policy: str) -> None:
        """Puts a document in force."""
        self.deck.parts.__dict__["policy"] = engine(policy)

    def ask(self, *calls: ToolCall) -> list[dict[str, Any]]:
        """One turn in which the model makes the calls; what each told it."""
        self.gateway.script(asks(*calls), says("Done."))
        event = event_of("POST", "/api/chat", {"messages": [{"role": "user", "content": "go on"}]})
        answer = self.deck.parts.chat_app()(event, None)
        assert answer["statusCode"] == 200, answer
        list(answer["body"])
        return [json.loads(message["content"]) for message in self.gateway.messages() if message["role"] == "tool"]

    def tools(self) -> set[str]:
        """What the model was offered last."""
        return {tool["function"]["name"] for tool in self.gateway.requests[-1].tools}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with closing(SqliteStore(":memory:", now=Clock())) as store:
        yield House(tmp_path, store)


def test_a_viewer_reads_and_is_refused_every_change(house: House) -> None:
    house.become("viewer")
    before = house.deck.everything()
    for method, path, body in (
        ("POST", "/api/manifests", manifest("weight")),
        ("POST", ROWS, {"value": {"mood": 5}}),
        ("DELETE", "/api/manifests/mood", None),
        ("POST", "/api/manifests/mood/data", {"data": []}),
        ("POST", "/api/manifests/reorder", {"order": ["diary"]}),
    ):
        answer = house.deck(method, path, body)
        assert (answer.status, answer.code) == (403, "forbidden")
    assert house.deck.everything() == before


def test_on_the_api_a_call_counts_as_confirmed(house: House) -> None:
    house.become("editor")
    assert house.deck("DELETE", "/api/manifests/diary").status == 200


def test_a_token_for_one_card_reaches_no_other_by_any_route(house: House) -> None:
    house.become("agent", cards=frozenset({"mood"}))
    assert house.deck("POST", ROWS, {"value": {"mood": 5}}).status == 201
    diary = "/api/manifests/diary"
    for method, path, body in (
        ("GET", diary, None),
        ("GET", f"{diary}/data", None),
        ("GET", f"{diary}/rows", None),
        ("GET", f"{diary}/orphans", None),
        ("POST", f"{diary}/rows", {"value": {}}),
        ("PATCH", f"{diary}/rows/0.1", {"changes": {}}),
        ("DELETE", f"{diary}/rows/0.1", None),
        ("POST", f"{diary}/rows/reorder", {"order": []}),
        ("POST", f"{diary}/data", {"data": []}),
        ("PATCH", diary, {"meta": {"label": "D"}}),
        ("POST", "/api/settings/cards/diary/disable", None),
        ("DELETE", f"{diary}/notifications/n1", None),
        ("DELETE", diary, None),
    ):
        assert house.deck(method, path, body).status == 403, (method, path)


def test_004_14_a_viewer_chats_with_the_tools_that_read_and_is_refused_the_others(house: House) -> None:
    house.become("viewer")
    read, written = house.ask(
        call("read_manifest_rows", {"id": "mood"}, id="c1"),
        call("append_row", {"id": "mood", "value": {"mood": 5}}, id="c2"),
    )
    assert read["rows"]
    assert written["code"] == "unknown_tool"
    assert "read_manifest" in house.tools()
    assert not house.tools() & {"append_row", "delete_manifest", "set_notification", "note_feedback"}
    assert len(house.deck.data("mood")) == 1


def test_004_14_a_forbidden_card_is_refused_to_a_tool_that_others_may_use(house: House) -> None:
    house.follow('forbid (principal, action, resource == Card::"diary");')
    house.become("editor")
    diary, mood = house.ask(
        call("append_row", {"id": "diary", "value": {"text": "x"}}, id="c1"),
        call("append_row", {"id": "mood", "value": {"mood": 5}}, id="c2"),
    )
    assert diary == {"error": "This is not allowed.", "code": "forbidden"}
    assert mood["ok"]
    assert house.deck("POST", "/api/manifests/diary/rows", {"value": {"text": "x"}}).code == "forbidden"


def test_004_15_page_context_and_the_card_in_focus_widen_nothing(house: House) -> None:
    house.become("agent", cards=frozenset({"mood"}))
    house.gateway.script(asks(call("read_manifest", {"id": "diary"})), says("Done."))
    body = {
        "messages": [{"role": "user", "content": "go on"}],
        "viewedCardId": "diary",
        "context": {"route": "/cards/diary", "record": "diary"},
    }
    list(house.deck.parts.chat_app()(event_of("POST", "/api/chat", body), None)["body"])
    told = [json.loads(message["content"]) for message in house.gateway.messages() if message["role"] == "tool"]
    assert [result["code"] for result in told] == ["forbidden"]
