"""The direct form of chat, line by line of its checklist (the numbers in the names)."""

import json
from pathlib import Path
from typing import Any

import pytest

from deckhand.domain.errors import GatewayFailed
from deckhand.edge.direct import SERVICE
from deckhand.settings import read_settings
from deckhand.turns.slots import SLOT_LEASE_S
from tests.direct import Direct


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


def test_002_30_31_the_same_session_is_in_flight_and_another_is_one_too_many(direct: Direct) -> None:
    let_go = direct.hold("s")
    same, other = direct.post({"message": "x", "sessionId": "s"}), direct.post({"message": "x", "sessionId": "t"})
    let_go()
    assert (same[0], same[1]["error"]) == (429, "a chat is already in flight")
    assert (other[0], other[1]["error"]) == (429, "too many chats in flight")


def test_002_38_a_wider_limit_never_lets_a_session_talk_over_itself(tmp_path: Path) -> None:
    direct = Direct(tmp_path, CHAT_MAX_CONCURRENT="5")
    let_go = direct.hold("s")
    status, body = direct.post({"message": "x", "sessionId": "s"})
    let_go()
    assert (status, body["error"]) == (429, "a chat is already in flight")


def test_002_39_a_wider_limit_lets_another_session_in(tmp_path: Path) -> None:
    direct = Direct(tmp_path, CHAT_MAX_CONCURRENT="2")
    let_go = direct.hold("s")
    status, _ = direct.post({"message": "x", "sessionId": "t"})
    let_go()
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
    [stored] = direct.sessions()
    assert stored.message_count == 2


def test_a_service_is_offered_nothing_destructive(direct: Direct) -> None:
    direct.post({"message": "hello"})
    names = {tool["function"]["name"] for tool in direct.gateway.requests[0].tools}
    assert "append_row" in names
    assert "delete_manifest" not in names
