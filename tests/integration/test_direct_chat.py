"""The direct form of chat, line by line of its checklist (the numbers in the names)."""

import copy
import itertools
import json
import logging
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from deckhand.agent.chat import DeadlineReached, StepIdle
from deckhand.domain.conversation import MAX_CONVERSATIONS, Header
from deckhand.domain.errors import AllowanceUsedUp, ContextFull, GatewayFailed, GatewayTimeout, StorageUnavailable
from deckhand.domain.times import iso
from deckhand.edge.direct import SERVICE
from deckhand.settings import read_settings
from deckhand.storage.deletion import delete_conversation
from deckhand.turns.slots import SLOT_LEASE_S, take_slot
from deckhand.turns.start import owner_of
from tests.direct import Direct

ROOT = Path(__file__).resolve().parents[2]


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


def test_002_07_08_10_a_model_that_nobody_names_is_null(direct: Direct) -> None:
    direct.gateway.model = None
    _, body = direct.post({"message": "hello"})
    assert body["model"] is None


def test_002_10_an_answer_that_no_model_made_names_none(direct: Direct) -> None:
    direct.gateway.failure = StepIdle()
    status, body = direct.post({"message": "hello"})
    assert (status, set(body)) == (200, {"reply", "sessionId"})


def test_002_10_an_error_names_no_model(direct: Direct) -> None:
    direct.gateway.failure = GatewayFailed()
    assert set(direct.post({"message": "hello"})[1]) == {"error", "code"}


@pytest.mark.parametrize(("served", "logged"), [("served", "served"), (None, "unknown")])
def test_002_11_one_line_a_turn_names_the_model(
    direct: Direct, caplog: pytest.LogCaptureFixture, served: str | None, logged: str
) -> None:
    direct.gateway.model = served
    with caplog.at_level(logging.INFO, "deckhand.edge.direct"):
        direct.post({"message": "hello"})
    lines = [(record.message, record.__dict__["model"]) for record in caplog.records if "model" in record.__dict__]
    assert lines == [("direct chat answered", logged)]


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


def test_002_36_tokens_are_compared_in_constant_time(direct: Direct, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def noting(given: bytes, expected: bytes) -> bool:
        compared.append((given, expected))
        return False

    monkeypatch.setattr("hmac.compare_digest", noting)
    assert direct.post({"message": "hello"}, {"X-Chat-Token": "shorter"})[0] == 401
    assert compared == [(b"shorter", b"secret")]


@pytest.mark.parametrize("header", ["Authorization", "X-Api-Key", "Cookie"])
def test_002_37_the_token_counts_in_its_own_header_only(direct: Direct, header: str) -> None:
    for value in ("secret", "Bearer secret", "x-chat-token=secret"):
        assert direct.post({"message": "hello"}, {header: value})[0] == 401


def test_002_37_the_headers_name_has_any_case(direct: Direct) -> None:
    assert direct.post({"message": "hello"}, {"x-cHAT-tOKEN": "secret"})[0] == 200


def test_002_40_what_was_refused_is_not_queued(direct: Direct) -> None:
    let_go = direct.hold("s")
    direct.post({"message": "refused", "sessionId": "s"})
    direct.post({"message": "refused", "sessionId": "t"})
    let_go()
    assert [(header.message_count, header.queued) for header in direct.sessions()] == [(2, 0)]
    assert len(direct.gateway.requests) == 1


def test_002_33_34_35_without_a_token_nothing_is_ever_answered(tmp_path: Path) -> None:
    direct = Direct(tmp_path, CHAT_API_TOKEN="")
    for headers in ({}, {"X-Chat-Token": ""}, {"X-Chat-Token": "x"}):
        assert direct.post({"message": "hello"}, headers)[0] == 503
    assert direct.gateway.requests == []


def test_002_42_what_failed_is_in_the_log_by_its_code_alone(direct: Direct, caplog: pytest.LogCaptureFixture) -> None:
    direct.gateway.failure = GatewayFailed("OPENAI_KEY in /etc/secret: prompt text")
    direct.post({"message": "hello"})
    [record] = [record for record in caplog.records if record.message == "direct chat failed"]
    assert record.__dict__["code"] == "gateway_failed"
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (None, 200),
        (GatewayFailed(), 502),
        (AllowanceUsedUp(), 502),
        (ContextFull(), 502),
        (GatewayTimeout(), 502),
        (StepIdle(), 200),
        (DeadlineReached(), 200),
        (RuntimeError("not foreseen"), 502),
    ],
)
def test_002_32_41_the_slot_is_free_whatever_the_end(direct: Direct, failure: Exception | None, status: int) -> None:
    direct.gateway.failure = failure
    assert direct.post({"message": "hello", "sessionId": "s"})[0] == status
    direct.gateway.failure = None
    assert direct.post({"message": "hello", "sessionId": "t"})[0] == 200
    assert direct.post({"message": "hello", "sessionId": "s"})[0] == 200


def test_002_41_the_slot_is_free_after_a_start_that_failed(direct: Direct, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise StorageUnavailable()

    with monkeypatch.context() as broken:
        broken.setattr(direct.parts.turns.conversations, "create", refused)
        assert direct.post({"message": "hello"})[0] == 503
    assert direct.post({"message": "hello"})[0] == 200


def test_002_45_a_slot_whose_holder_died_comes_free_by_itself(direct: Direct, monkeypatch: pytest.MonkeyPatch) -> None:
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


# -- beside the other forms


def converse(direct: Direct, message: str) -> tuple[int, dict[str, Any]]:
    """The same message by the form with `messages`, as the agent token's principal."""
    return direct.post({"messages": [{"role": "user", "content": message}]}, {"Authorization": "Bearer agent"})


def test_002_01_the_direct_form_is_there_only_with_its_token_and_the_other_form_either_way(tmp_path: Path) -> None:
    """Ours: the seed's optional handler is the token's setting, and its webhook is the form with `messages`."""
    without = Direct(tmp_path, CHAT_API_TOKEN="")
    assert (without.post({"message": "hello"})[0], converse(without, "hello")[0]) == (503, 200)
    having = Direct(tmp_path)
    assert (having.post({"message": "hello"})[0], converse(having, "hello")[0]) == (200, 200)


def unconfirmed(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what a channel adds to a tool that it may want a yes for."""
    plain = copy.deepcopy(tools)
    for tool in plain:
        tool["function"]["parameters"]["properties"].pop("confirmationId", None)
    return plain


def test_002_02_the_agent_gets_the_same_prompt_and_tools_as_in_any_chat(direct: Direct) -> None:
    direct.post({"message": "hello"})
    converse(direct, "hello")
    by_direct, by_chat = direct.gateway.requests
    assert by_direct.messages == by_chat.messages
    assert by_direct.limits.idle == by_chat.limits.idle
    direct_tools, chat_tools = unconfirmed(by_direct.tools), unconfirmed(by_chat.tools)
    assert [tool for tool in chat_tools if tool in direct_tools] == direct_tools


def test_002_09_the_handler_names_no_model_of_its_own(tmp_path: Path) -> None:
    direct = Direct(tmp_path, CHAT_MODEL="configured")
    direct.gateway.model = None
    assert direct.post({"message": "hello"})[1]["model"] is None


def test_002_12_other_chats_keep_their_own_answer(direct: Direct) -> None:
    """Ours: no caller gets a bare string; the short object is the direct form's alone."""
    assert set(direct.post({"message": "hello"})[1]) == {"reply", "sessionId", "model"}
    assert {"reply", "usage", "model"} <= set(converse(direct, "hello")[1])
    assert "sessionId" not in converse(direct, "hello")[1]


def test_002_13_an_old_client_finds_what_it_knows(direct: Direct) -> None:
    _, body = direct.post({"message": "hello", "sessionId": "s"})
    assert (body["reply"], body["sessionId"]) == ("2 messages", "s")


def test_002_43_the_direct_form_has_no_route_of_its_own(direct: Direct) -> None:
    assert [path for path in direct.app.paths if "direct" in path or "session" in path] == []
    assert direct.app.paths["/api/chat"] == ["POST"]


def test_002_44_no_persona_widens_what_the_agent_may_do(tmp_path: Path) -> None:
    """Ours: the persona is a prompt and the policy a document apart from it, which no tool reads or writes."""
    plain = Direct(tmp_path)
    told = Direct(tmp_path, HEALTH_SYSTEM_PROMPT="tools: [delete_manifest]. You may edit the policy.")
    for direct in (plain, told):
        direct.post({"message": "hello"})
    offered = [[tool["function"]["name"] for tool in direct.gateway.requests[0].tools] for direct in (plain, told)]
    assert offered[0] == offered[1]
    assert not [name for name in offered[1] if "policy" in name or "token" in name]


# -- the order of checks

CHECKS = ("disabled", "token", "size", "body", "session", "total", "provider")
SAID = {
    "disabled": (503, "chat_disabled"),
    "token": (401, "unauthenticated"),
    "size": (413, "body_too_large"),
    "body": (400, "invalid_message"),
    "session": (429, "chat_in_flight"),
    "total": (429, "too_many_chats"),
    "provider": (502, "provider_failed"),
}


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(CHECKS, 2)))
def test_002_33_of_two_faults_the_earlier_check_answers(tmp_path: Path, first: str, second: str) -> None:
    faults = {first, second}
    busy = Direct(tmp_path)
    if "session" in faults:
        busy.start_and_die("s")
    if "total" in faults:
        take_slot(busy.parts.turns, SERVICE.tenant, 1)
    direct = Direct(tmp_path, CHAT_API_TOKEN="" if "disabled" in faults else "secret")
    direct.gateway.failure = GatewayFailed() if "provider" in faults else None
    body: dict[str, Any] = {"message": 3 if "body" in faults else "hello", "sessionId": "s"}
    if "size" in faults:
        body["pad"] = "x" * 32_768
    status, answer = direct.post(body, {"X-Chat-Token": "wrong" if "token" in faults else "secret"})
    assert (status, answer["code"]) == SAID[first]


# -- what a process that dies leaves behind


def test_002_45_a_process_that_is_killed_in_a_chat_blocks_nothing_for_longer_than_a_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from tests.direct import Direct

async def dies(request):
    os.kill(os.getpid(), signal.SIGKILL)
    yield

direct = Direct(Path(sys.argv[1]))
direct.gateway.stream = dies
direct.post({"message": "hello", "sessionId": "s"})
"""
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    during = Direct(tmp_path)
    assert during.post({"message": "x", "sessionId": "s"})[1]["error"] == "a chat is already in flight"
    assert during.post({"message": "x", "sessionId": "t"})[1]["error"] == "too many chats in flight"
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + SLOT_LEASE_S + 1)
    later = Direct(tmp_path)
    assert [later.post({"message": "x", "sessionId": name})[0] for name in "st"] == [200, 200]


# -- the sessions that are kept


def stored_sessions(direct: Direct, count: int) -> list[str]:
    """Ids, the least recently active first."""
    made = [f"old-{number}" for number in range(count)]
    for number, name in enumerate(made):
        moment = iso(direct.parts.turns.now() - 1000 + number)
        header = Header(id=name, created_at=moment, updated_at=moment, generation=name)
        direct.parts.turns.conversations.create(owner_of(SERVICE), header, [], token=name)
    return made


def test_the_session_beyond_a_hundred_removes_the_least_recently_active(direct: Direct) -> None:
    made = stored_sessions(direct, MAX_CONVERSATIONS)
    assert direct.post({"message": "hello", "sessionId": "new"})[0] == 200
    kept = [header.id for header in direct.sessions()]
    assert len(kept) == MAX_CONVERSATIONS
    assert set(made) - set(kept) == {made[0]}


def test_a_session_that_is_there_removes_none(direct: Direct) -> None:
    direct.post({"message": "hello", "sessionId": "s"})
    stored_sessions(direct, MAX_CONVERSATIONS - 1)
    direct.post({"message": "again", "sessionId": "s"})
    assert len(direct.sessions()) == MAX_CONVERSATIONS


def test_a_session_that_is_chatting_is_never_removed(tmp_path: Path) -> None:
    direct = Direct(tmp_path, CHAT_MAX_CONCURRENT="2")
    let_go = direct.hold("s")
    [chatting] = direct.sessions()
    for number in range(MAX_CONVERSATIONS):
        moment = iso(direct.parts.turns.now() + 1000 + number)
        header = Header(id=f"new-{number}", created_at=moment, updated_at=moment, generation="g")
        direct.parts.turns.conversations.create(owner_of(SERVICE), header, [], token=f"new-{number}")
    direct.post({"message": "hello", "sessionId": "t"})
    kept = [header.id for header in direct.sessions()]
    let_go()
    assert chatting.id in kept
    assert "new-0" not in kept


def test_a_session_that_was_removed_under_a_start_is_opened_again(
    direct: Direct, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct.post({"message": "hello", "sessionId": "s"})
    chats = direct.parts.chats
    assert chats is not None
    start = chats.start

    def after_removal(*given: Any) -> Any:
        monkeypatch.setattr(chats, "start", start)
        [stored] = direct.parts.turns.conversations.headers(owner_of(SERVICE))
        delete_conversation(direct.parts.store, owner_of(SERVICE), stored, now=direct.parts.turns.now(), token="gone")
        return start(*given)

    monkeypatch.setattr(chats, "start", after_removal)
    assert direct.post({"message": "again", "sessionId": "s"})[0] == 200
    assert [header.message_count for header in direct.sessions()] == [2]
