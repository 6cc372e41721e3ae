"""The direct form of chat, line by line of its checklist (the numbers in the names)."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from deckhand.agent.chat import Answer, StepRequest, TextDelta
from deckhand.bootstrap import Parts
from deckhand.domain.errors import GatewayFailed
from deckhand.edge.app import App
from deckhand.edge.direct import SERVICE
from deckhand.settings import read_settings
from deckhand.turns.slots import SLOT_LEASE_S
from deckhand.turns.start import owner_of

TOKEN = {"X-Chat-Token": "secret"}


class Gateway:
    """Answers with the number of messages it got; `gate` holds it up, `failure` is raised instead."""

    def __init__(self) -> None:
        self.requests: list[StepRequest] = []
        self.failure: Exception | None = None
        self.gate: threading.Event | None = None
        self.model: str | None = "served"

    async def stream(self, request: StepRequest) -> AsyncIterator[TextDelta | Answer]:
        self.requests.append(request)
        if self.gate is not None:
            await asyncio.to_thread(self.gate.wait, 10)
        if self.failure is not None:
            raise self.failure
        text = f"{len(request.messages)} messages"
        yield TextDelta(text)
        yield Answer(text=text, finish="stop", model=self.model)


class Direct:
    """A deployment and its gateway."""

    def __init__(self, folder: Path, **settings: str) -> None:
        environment = {
            "AGENT_API_TOKEN": "agent",
            "CHAT_ENDPOINT_URL": "http://gateway.invalid/v1",
            "DECKHAND_SQLITE": str(folder / "deckhand.sqlite3"),
            "DECKHAND_REPORTS": str(folder / "reports"),
            "CHAT_API_TOKEN": "secret",
            **settings,
        }
        self.parts = Parts(read_settings(environment))
        self.gateway = Gateway()
        self.parts.__dict__["gateway"] = self.gateway
        self.app: App = self.parts.chat_app()

    def post(self, body: Any, headers: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        raw = body if isinstance(body, str) else json.dumps(body)
        event = {
            "httpMethod": "POST",
            "path": "/api/chat",
            "headers": TOKEN if headers is None else headers,
            "body": raw,
            "requestContext": {"requestId": "r"},
        }
        answer = self.app(event, None)
        return answer["statusCode"], json.loads(answer["body"])


@pytest.fixture
def direct(tmp_path: Path) -> Direct:
    return Direct(tmp_path)


def test_002_03_04_a_message_gets_a_reply_with_its_session_and_model(direct: Direct) -> None:
    status, body = direct.post({"message": "hello", "sessionId": "s"})
    assert (status, body) == (200, {"reply": "2 messages", "sessionId": "s", "model": "served"})


def test_002_05_an_omitted_session_is_made_and_a_supplied_one_continues(direct: Direct) -> None:
    _, first = direct.post({"message": "hello"})
    _, second = direct.post({"message": "again", "sessionId": first["sessionId"]})
    assert second["sessionId"] == first["sessionId"]
    assert second["reply"] == "4 messages"


def test_002_10_an_answer_that_no_model_made_names_none(direct: Direct) -> None:
    direct.gateway.model = None
    _, body = direct.post({"message": "hello"})
    assert "model" not in body


def test_002_14_an_unknown_wake_mode_is_refused(direct: Direct) -> None:
    assert direct.post({"message": "hello", "wakeMode": "now"})[0] == 400


@pytest.mark.parametrize("body", ["{", [], {"message": ""}, {"message": 3}, {}, {"message": "a", "messages": []}])
def test_002_27_a_body_that_cannot_be_used_is_400(direct: Direct, body: Any) -> None:
    assert direct.post(body)[0] == 400
    assert direct.gateway.requests == []


@pytest.mark.parametrize("token", ["", "x", "secretsecret", "sécret"])
def test_002_28_36_a_wrong_token_of_any_length_is_401(direct: Direct, token: str) -> None:
    assert direct.post({"message": "hello"}, {"X-Chat-Token": token})[0] == 401


def test_002_28_a_missing_token_is_401(direct: Direct) -> None:
    assert direct.post({"message": "hello"}, {})[0] == 401


def test_002_29_32_kb_pass_and_one_byte_more_does_not(direct: Direct) -> None:
    frame = len(json.dumps({"message": ""}))
    assert direct.post({"message": "a" * (32 * 1024 - frame)})[0] == 200
    assert direct.post({"message": "a" * (32 * 1024 - frame + 1)})[0] == 413


def held(direct: Direct, session: str) -> threading.Thread:
    """A chat that is in flight until the gate opens."""
    direct.gateway.gate = threading.Event()
    before = len(direct.gateway.requests)
    thread = threading.Thread(target=direct.post, args=({"message": "hold", "sessionId": session},))
    thread.start()
    for _ in range(1000):
        if len(direct.gateway.requests) > before:
            return thread
        threading.Event().wait(0.01)
    raise AssertionError("the chat did not reach the gateway")


def test_002_30_31_the_same_session_is_in_flight_and_another_is_one_too_many(direct: Direct) -> None:
    thread = held(direct, "s")
    same, other = direct.post({"message": "x", "sessionId": "s"}), direct.post({"message": "x", "sessionId": "t"})
    assert direct.gateway.gate is not None
    direct.gateway.gate.set()
    thread.join()
    assert (same[0], same[1]["error"]) == (429, "a chat is already in flight")
    assert (other[0], other[1]["error"]) == (429, "too many chats in flight")


def test_002_39_a_wider_limit_lets_another_session_in(tmp_path: Path) -> None:
    direct = Direct(tmp_path, CHAT_MAX_CONCURRENT="2")
    thread = held(direct, "s")
    assert direct.gateway.gate is not None
    gate, direct.gateway.gate = direct.gateway.gate, None
    status, _ = direct.post({"message": "x", "sessionId": "t"})
    gate.set()
    thread.join()
    assert status == 200


@pytest.mark.parametrize("value", ["0", "-3", "many", "1.5"])
def test_002_39_a_limit_that_cannot_be_used_is_one(value: str) -> None:
    assert read_settings({"CHAT_MAX_CONCURRENT": value}).chat_max_concurrent == 1


def test_002_32_42_a_failing_provider_is_502_and_says_nothing_else(direct: Direct) -> None:
    direct.gateway.failure = GatewayFailed("OPENAI_KEY in /etc/secret: prompt text")
    status, body = direct.post({"message": "hello"})
    assert status == 502
    assert "secret" not in json.dumps(body)


def test_002_33_34_35_without_a_token_nothing_is_ever_answered(tmp_path: Path) -> None:
    direct = Direct(tmp_path, CHAT_API_TOKEN="")
    for headers in ({}, {"X-Chat-Token": ""}, {"X-Chat-Token": "x"}):
        assert direct.post({"message": "hello"}, headers)[0] == 503
    assert direct.gateway.requests == []


def test_002_41_the_slot_is_free_after_a_reply_and_after_a_failure(direct: Direct) -> None:
    direct.gateway.failure = GatewayFailed()
    assert direct.post({"message": "hello", "sessionId": "s"})[0] == 502
    direct.gateway.failure = None
    assert direct.post({"message": "hello", "sessionId": "t"})[0] == 200
    assert direct.post({"message": "hello", "sessionId": "u"})[0] == 200


def test_002_45_a_slot_whose_holder_died_comes_free_by_itself(direct: Direct, monkeypatch: pytest.MonkeyPatch) -> None:
    from deckhand.turns.slots import take_slot

    take_slot(direct.parts.turns, SERVICE.tenant, 1)
    assert direct.post({"message": "hello"})[0] == 429
    now = direct.parts.turns.now()
    monkeypatch.setattr("time.time", lambda: now + SLOT_LEASE_S + 1)
    later = Direct(Path(direct.parts.settings.deckhand_sqlite or "").parent)
    assert later.post({"message": "hello"})[0] == 200


def test_sessions_are_the_services_own_conversations(direct: Direct) -> None:
    direct.post({"message": "hello", "sessionId": "s"})
    [stored] = direct.parts.turns.conversations.headers(owner_of(SERVICE))
    assert stored.header.message_count == 2


def test_a_service_is_offered_nothing_destructive(direct: Direct) -> None:
    direct.post({"message": "hello"})
    names = {tool["function"]["name"] for tool in direct.gateway.requests[0].tools}
    assert "append_row" in names
    assert "delete_manifest" not in names
