"""The chat routes over events of API Gateway: checks and their order, answers in both forms, stop, reattach."""

import json
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aws_lambda_powertools import Logger, Tracer

from deckhand.agent import wording
from deckhand.agent.chat import StepIdle, Usage
from deckhand.domain.errors import AllowanceUsedUp, ContextFull, GatewayFailed, GatewayTimeout, GatewayUnreadable
from deckhand.edge.chat_request import BODY_BYTES
from deckhand.edge.proxy_answer import joined
from deckhand.storage.port import ItemStore
from deckhand.storage.sqlite import SqliteStore
from tests.api import Api, Deploy
from tests.fakes import Gate, Hang, asks, call, says

CHAT = "/api/chat"
HI = [{"role": "user", "content": "hi"}]


def padded(size: int, **body: Any) -> bytes:
    """A JSON body of exactly so many bytes."""
    text = json.dumps({**body, "pad": ""})
    return json.dumps({**body, "pad": "x" * (size - len(text))}).encode()


# -- checks, each before the ones below it


@pytest.mark.parametrize("stream", [False, True])
def test_every_check_comes_before_the_next_one_and_answers_in_json(
    store: ItemStore, deploy: Deploy, stream: bool
) -> None:
    api, unconfigured = deploy(), deploy(configured=False)
    conversation = api.conversation()
    large = padded(BODY_BYTES + 1, messages=[], stream=stream)
    unknown = {"messages": HI, "conversationId": "nobody", "stream": stream}
    known = {"messages": HI, "conversationId": conversation, "stream": stream}
    refusals = [
        unconfigured("POST", CHAT, raw=b"x" * (BODY_BYTES + 1), token="wrong"),
        unconfigured("POST", CHAT, raw=large + b"{"),
        unconfigured("POST", CHAT, raw=b'{"messages": [], "stream": true'),
        unconfigured("POST", CHAT, {**unknown, "messages": []}),
        unconfigured("POST", CHAT, unknown),
        unconfigured("POST", CHAT, known),
    ]
    assert [answer.refusal for answer in refusals] == [
        (401, "unauthenticated"),
        (413, "body_too_large"),
        (400, "invalid_json"),
        (400, "invalid_messages"),
        (404, "unknown_conversation"),
        (503, "chat_not_configured"),
    ]
    assert api.texts(conversation) == []


def test_a_deployment_without_a_token_answers_nobody(deploy: Deploy) -> None:
    api = deploy(AGENT_API_TOKEN="")
    for method, path in [("POST", CHAT), ("GET", f"{CHAT}/status"), ("GET", "/api/conversations")]:
        assert api(method, path, token="agent").refusal == (503, "not_configured")


@pytest.mark.parametrize("token", [None, "", "wrong", "agen", "agentt"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", CHAT),
        ("GET", f"{CHAT}/status"),
        ("GET", f"{CHAT}/turns"),
        ("GET", f"{CHAT}/turn/c"),
        ("DELETE", f"{CHAT}/turn/c"),
        ("GET", "/api/conversations"),
        ("POST", "/api/conversations"),
        ("DELETE", "/api/conversations/c"),
    ],
)
def test_every_route_wants_a_token(deploy: Deploy, method: str, path: str, token: str | None) -> None:
    assert deploy()(method, path, token=token).refusal == (401, "unauthenticated")


def test_the_largest_body_passes_and_one_byte_more_does_not(deploy: Deploy) -> None:
    api = deploy(says("ok"))
    assert api("POST", CHAT, raw=padded(BODY_BYTES, messages=HI)).status == 200
    assert api("POST", CHAT, raw=padded(BODY_BYTES + 1, messages=HI)).refusal == (413, "body_too_large")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b'"hi"',
        b"null",
        b'{"messages":NaN}',
        b'{"messages":[],"messages":[]}',
        b'{"messages":[{"role":"user","content":"\\ud800"}]}',
        b'{"messages":"\xff"}',
    ],
)
def test_a_body_that_is_no_json_object_is_400(deploy: Deploy, raw: bytes) -> None:
    assert deploy()("POST", CHAT, raw=raw).refusal == (400, "invalid_json")


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [],
        {},
        "hi",
        [1],
        [{}],
        [{"role": "user"}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": " \n"}],
        [{"role": "user", "content": 1}],
        [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        [{"role": "system", "content": "obey"}],
        [{"role": "tool", "content": "x"}],
        [{"role": ["user"], "content": "x"}],
        [*HI, {"role": "assistant", "content": "ho"}],
        HI * 201,
    ],
)
def test_messages_that_cannot_be_used_are_400(deploy: Deploy, messages: Any) -> None:
    api = deploy()
    for conversation in ({}, {"conversationId": api.conversation()}):
        answer = api("POST", CHAT, {"messages": messages, "stream": True, **conversation})
        assert answer.refusal == (400, "invalid_messages")


def test_with_a_conversation_only_messages_of_the_person_are_taken(deploy: Deploy) -> None:
    api = deploy()
    given = [{"role": "assistant", "content": "I said so"}, *HI]
    body = {"messages": given, "conversationId": api.conversation()}
    assert api("POST", CHAT, body).refusal == (400, "invalid_messages")


@pytest.mark.parametrize(
    ("field", "value"),
    [("stream", "yes"), ("voiceMode", 1), ("onBusy", "wait"), ("context", "here"), ("conversationId", 5)],
)
def test_other_fields_that_cannot_be_used_are_422_and_named(deploy: Deploy, field: str, value: Any) -> None:
    answer = deploy()("POST", CHAT, {"messages": HI, field: value})
    assert answer.refusal == (422, "invalid")
    assert [error["path"] for error in answer.body["errors"]] == [field]


@pytest.mark.parametrize("conversation", ["nobody", "", "a%2Fb", "caf%C3%A9", "../x", "x" * 300])
def test_an_unknown_conversation_is_404(deploy: Deploy, conversation: str) -> None:
    body = {"messages": HI, "conversationId": conversation, "stream": True}
    assert deploy()("POST", CHAT, body).refusal == (404, "unknown_conversation")


def test_a_conversation_of_somebody_else_is_unknown(deploy: Deploy) -> None:
    api = deploy()
    body = {"messages": HI, "conversationId": api.conversation()}
    assert api("POST", CHAT, body, token="bob").refusal == (404, "unknown_conversation")


def test_case_51_a_start_while_a_turn_runs_is_409_with_its_id_and_leaves_no_trace(deploy: Deploy) -> None:
    gate = Gate()
    api = deploy([gate, *says("Hello")])
    conversation = api.conversation()
    first = api.chat(conversation, "hi", stream=True).stream
    gate.wait_reached()
    refused = api.chat(conversation, "me too", stream=True)
    assert refused.refusal == (409, "turn_running")
    gate.open()
    done = first.until("done")
    assert refused.body["turnId"] == done.data["turnId"]
    assert api.texts(conversation) == ["hi", "Hello"]


def test_case_31_of_sixteen_starters_one_runs_and_fifteen_are_refused_without_a_trace(
    tmp_path: Path, deploy: Deploy
) -> None:
    gate = Gate()
    with (
        closing(SqliteStore(tmp_path / "deckhand.sqlite3", now=time.time)) as store,
        closing(Api(store, [gate, *says("Hello")])) as api,
    ):
        conversation = api.conversation()
        together = threading.Barrier(16)

        def start(n: int) -> Any:
            together.wait()
            return api.chat(conversation, f"message {n}", stream=True)

        with ThreadPoolExecutor(16) as threads:
            answers = list(threads.map(start, range(16)))
        gate.open()
        started = [answer for answer in answers if answer.status == 200]
        assert [answer.refusal for answer in answers if answer.status != 200] == [(409, "turn_running")] * 15
        done = started[0].stream.until("done")
        assert {a.body["turnId"] for a in answers if a.status != 200} == {done.data["turnId"]}
        assert api.texts(conversation) == [f"message {answers.index(started[0])}", "Hello"]


# -- keys


def test_the_same_key_joins_the_turn_instead_of_a_409(deploy: Deploy) -> None:
    gate = Gate()
    api = deploy([gate, *says("Hello")])
    conversation = api.conversation()
    first = api.chat(conversation, "hi", stream=True, headers={"Idempotency-Key": "k"}).stream
    gate.wait_reached()
    again = api.chat(conversation, "hi", stream=True, headers={"idempotency-key": "k"}).stream
    other = api.chat(conversation, "ho", stream=True, headers={"Idempotency-Key": "k"})
    assert other.refusal == (422, "idempotency_mismatch")
    gate.open()
    assert list(first) == list(again)
    assert api.texts(conversation) == ["hi", "Hello"]
    assert api.chat(conversation, "hi", stream=True, headers={"Idempotency-Key": "k"}).frames[-1].name == "done"


# -- answers


def test_a_buffered_answer_holds_the_reply(deploy: Deploy) -> None:
    api = deploy(says("Hello", usage=Usage(10, 2, 4, 6)))
    conversation = api.conversation()
    answer = api.chat(conversation, "hi")
    stored = api.shown(conversation)[-1]
    assert answer.status == 200
    assert answer.body == {
        "reply": "Hello",
        "conversationId": conversation,
        "messageId": stored["id"],
        "turnId": answer.body["turnId"],
        "model": "small-1",
        "usage": {"inputTokens": 10, "outputTokens": 2, "cachedTokens": 4, "cacheWriteTokens": 6},
    }
    assert answer.headers["cache-control"] == "no-store"


def test_a_streamed_answer_tells_every_event_with_its_id_and_ends_with_done(deploy: Deploy) -> None:
    api = deploy(says("Hel", "lo"))
    conversation = api.conversation()
    answer = api.chat(conversation, "hi", stream=True)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-cache, no-transform"
    assert answer.headers["x-accel-buffering"] == "no"
    frames = answer.frames
    assert [(frame.id, frame.name) for frame in frames] == [
        (1, "status"),
        (2, "token"),
        (3, "token"),
        (4, "reply"),
        (5, "done"),
    ]
    assert frames[3].data["reply"] == "Hello"
    assert frames[4].data["status"] == "done"


def test_the_first_bytes_go_out_before_the_model_is_asked(deploy: Deploy) -> None:
    gate = Gate()
    api = deploy([gate, *says("Hello")])
    chunks = iter(api.chat(api.conversation(), "hi", stream=True).content)
    assert next(chunks) == b": deckhand\n\n"
    gate.open()
    assert b"event: done" in b"".join(chunks)  # type: ignore[arg-type]


def test_case_41_a_quiet_stream_is_kept_alive_by_comments_without_ids(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deckhand.edge.live.HEARTBEAT_S", 0.01)
    gate = Gate()
    api = deploy([gate, *says("Hello")])
    chunks = iter(api.chat(api.conversation(), "hi", stream=True).content)
    while next(chunks) != b": ping\n\n":
        pass
    gate.open()
    assert b"event: done" in b"".join(chunks)  # type: ignore[arg-type]


@pytest.mark.parametrize(("left_ms", "seconds"), [(1_500, 1.0), (61_500, 51.5)])
@pytest.mark.parametrize("stored", [True, False])
def test_case_52_a_a_turn_ends_before_its_process_does(
    deploy: Deploy, left_ms: int, seconds: float, stored: bool
) -> None:
    """What the model may still take; what a turn does when that is over is the loop's."""
    api = deploy(says("Hello"))
    api.context = SimpleNamespace(get_remaining_time_in_millis=lambda: left_ms)
    conversation = api.conversation() if stored else None
    assert api.chat(conversation, "hi").body["reply"] == "Hello"
    assert 0 < (api.gateway.requests[0].limits.deadline or 720) <= seconds


def test_case_52_a_a_tool_loop_whose_process_has_a_moment_left_says_so(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, late = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: real() + late[0])
    api = deploy([lambda: late.append(late.pop() + 2.0), *asks(call("list_manifests"), text="Let me see.")])
    api.context = SimpleNamespace(get_remaining_time_in_millis=lambda: 1_500)
    conversation = api.conversation()
    answer = api.chat(conversation, "hi").body
    assert (answer["capped"], answer["cappedBy"]) == (True, "deadline")
    assert api.shown(conversation)[-1]["content"] == wording.capped("Let me see.", "deadline")


def test_a_clients_own_transcript_is_answered_and_not_stored_and_has_no_ids(deploy: Deploy) -> None:
    api = deploy(says("Hello"), says("Hello"))
    given = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, *HI]
    frames = api("POST", CHAT, {"messages": given, "stream": True}).frames
    assert [(frame.id, frame.name) for frame in frames] == [(None, n) for n in ("status", "token", "reply", "done")]
    assert frames[-1].data == {"status": "done"}
    assert api("POST", CHAT, {"messages": given}).body == {"reply": "Hello", "model": "small-1", "usage": None}
    assert api("GET", "/api/conversations").body == {"conversations": []}


def test_a_voice_answer_has_both_texts_and_no_tokens(deploy: Deploy) -> None:
    api = deploy(says('{"speak":"Hi","display":"**Hi**"}'))
    conversation = api.conversation()
    frames = api.chat(conversation, "hi", stream=True, voiceMode=True).frames
    assert [frame.name for frame in frames] == ["status", "reply", "done"]
    assert (frames[1].data["reply"], frames[1].data["speak"]) == ("**Hi**", "Hi")
    assert api.shown(conversation)[-1]["hasVoice"] is True


@pytest.mark.parametrize(
    ("script", "status", "code"),
    [
        ([AllowanceUsedUp()], 429, "allowance_used_up"),
        ([GatewayFailed()], 502, "gateway_failed"),
        ([GatewayUnreadable()], 500, "gateway_unreadable"),
        ([GatewayTimeout()], 504, "gateway_timeout"),
        ([ZeroDivisionError("secret")], 500, "internal"),
    ],
)
def test_an_error_of_a_turn_is_the_same_in_both_forms(
    deploy: Deploy, script: list[Any], status: int, code: str
) -> None:
    api = deploy(script, script)
    conversation = api.conversation()
    buffered = api.chat(conversation, "hi")
    assert buffered.refusal == (status, code)
    assert buffered.headers["x-request-id"] == "request-1"
    frames = api.chat(conversation, "hi", stream=True).frames
    assert [frame.name for frame in frames][-2:] == ["error", "done"]
    assert (frames[-2].data["code"], frames[-2].data["status"], frames[-2].data["error"]) == (
        code,
        status,
        buffered.body["error"],
    )
    assert frames[-1].data["status"] == "failed"
    assert "secret" not in str(buffered.body) + str(frames)
    assert api.texts(conversation) == ["hi", "hi"]


def test_a_context_that_stays_full_is_422(deploy: Deploy) -> None:
    api = deploy([ContextFull()], [ContextFull()])
    assert api.chat(api.conversation(), "hi").refusal == (422, "context_full")


def test_case_51_b_a_failure_after_two_events_is_told_within_the_stream_and_the_text_is_kept(
    deploy: Deploy,
) -> None:
    api = deploy(["Half of ", GatewayFailed()])
    conversation = api.conversation()
    frames = api.chat(conversation, "hi", stream=True).frames
    assert [frame.name for frame in frames] == ["status", "token", "error", "done"]
    stored = api.shown(conversation)[-1]
    assert (stored["content"], stored["interrupted"]) == ("Half of ", True)


def test_idle_after_text_is_a_200_with_the_text_and_a_notice(deploy: Deploy) -> None:
    api = deploy(["Half of it", StepIdle()])
    answer = api.chat(api.conversation(), "hi")
    assert (answer.status, answer.body["interrupted"]) == (200, True)
    assert answer.body["reply"] == f"Half of it\n\n{wording.STEP_IDLE_AFTER_TEXT}"


def test_a_capped_answer_names_its_cause_and_what_is_stored_is_what_was_told(deploy: Deploy) -> None:
    api = deploy(says("Once upon", finish="length"))
    conversation = api.conversation()
    answer = api.chat(conversation, "hi").body
    assert (answer["capped"], answer["cappedBy"]) == (True, "size")
    stored = api.shown(conversation)[-1]
    assert (stored["content"], stored["capped"]) == (answer["reply"], True)


def test_a_filtered_answer_is_a_200_that_says_so(deploy: Deploy) -> None:
    answer = deploy(says("", finish="content_filter")).chat(None, "hi")
    assert (answer.status, answer.body["filtered"], answer.body["reply"]) == (200, True, wording.FILTERED)


def test_a_turn_makes_a_card_and_says_so(deploy: Deploy) -> None:
    manifest = {"$schema": "klebb.datafile.v1", "meta": {"id": "mood", "label": "Mood"}, "data": []}
    api = deploy(asks(call("create_manifest", {"manifest": manifest}), text="Let me see."), says("Done."))
    answer = api.chat(api.conversation(), "make a card").body
    assert answer["cards"] == [{"id": "mood", "change": "created"}]


# -- stop


def test_a_stop_ends_the_turn_and_keeps_what_was_visible(deploy: Deploy) -> None:
    gate = Gate()
    api = deploy(["Half of ", gate, Hang()])
    conversation = api.conversation()
    stream = api.chat(conversation, "hi", stream=True).stream
    gate.wait_reached()
    answer = api("DELETE", f"{CHAT}/turn/{conversation}")
    assert answer.status == 200
    assert [frame.name for frame in stream][-2:] == ["stopped", "done"]
    assert answer.body == {"ok": True, "turnId": answer.body["turnId"]}
    stored = api.shown(conversation)[-1]
    assert (stored["content"], stored["stopped"]) == ("Half of ", True)


@pytest.mark.parametrize("conversation", ["nobody", None])
def test_a_stop_without_a_running_turn_is_404(deploy: Deploy, conversation: str | None) -> None:
    api = deploy()
    found = conversation or api.conversation()
    assert api("DELETE", f"{CHAT}/turn/{found}").status == 404


def test_where_no_turn_runs_the_code_says_so(deploy: Deploy) -> None:
    api = deploy()
    assert api("DELETE", f"{CHAT}/turn/{api.conversation()}").refusal == (404, "no_turn_running")


def test_a_stop_of_another_turn_or_another_person_stops_nothing(deploy: Deploy) -> None:
    gate = Gate()
    api = deploy([gate, *says("Hello")])
    conversation = api.conversation()
    stream = api.chat(conversation, "hi", stream=True).stream
    gate.wait_reached()
    path = f"{CHAT}/turn/{conversation}"
    assert api("DELETE", f"{path}?turnId=other").refusal == (404, "no_turn_running")
    assert api("DELETE", path, token="eve").status == 404
    gate.open()
    assert stream.until("reply").data["reply"] == "Hello"


def test_an_owner_sees_and_stops_anybodys_turn_but_does_not_read_it(deploy: Deploy) -> None:
    gate = Gate()
    api = deploy([*says("Hel"), gate, *says("lo")])
    conversation = api.conversation()
    stream = api.chat(conversation, "A secret.", stream=True).stream
    gate.wait_reached()
    [shown] = api("GET", f"{CHAT}/turns", token="bob").body["turns"]
    assert (shown["conversationId"], shown["principal"]) == (conversation, "user:ann")
    assert "secret" not in str(shown)
    assert api("GET", f"/api/conversations/{conversation}", token="bob").status == 404
    assert api("GET", f"{CHAT}/turns", token="eve").body == {"turns": []}
    assert api("DELETE", f"{CHAT}/turn/{conversation}", token="bob").status == 200
    gate.open()
    assert stream.until("done").data["status"] == "stopped"


def test_all_turns_are_stopped_at_once_each_by_whom_it_is_allowed_to(deploy: Deploy) -> None:
    gates = [Gate(), Gate()]
    api = deploy([gates[0], *says("One")], [gates[1], *says("Two")], DECKHAND_ADMIN_TOKEN="adm1n")
    streams = []
    for gate in gates:
        streams.append(api.chat(api.conversation(), "hi", stream=True).stream)
        gate.wait_reached()
    assert api("DELETE", f"{CHAT}/turns", token="eve").body == {"ok": True, "turnIds": []}
    assert len(api("DELETE", f"{CHAT}/turns", token="adm1n").body["turnIds"]) == 2
    for gate, stream in zip(gates, streams, strict=True):
        gate.open()
        assert stream.until("done").data["status"] == "stopped"


# -- reattach


@pytest.mark.parametrize(
    ("query", "header", "expected"),
    [
        ("", None, [1, 2, 3, 4, 5]),
        ("?after=3", None, [4, 5]),
        ("", "2", [3, 4, 5]),
        ("?after=4", "1", [2, 3, 4, 5]),
        ("?after=x", None, [1, 2, 3, 4, 5]),
        ("?after=-3", None, [1, 2, 3, 4, 5]),
        ("?after=4", "", [1, 2, 3, 4, 5]),
        ("?after=3.0", None, [1, 2, 3, 4, 5]),
        ("", "٣", [1, 2, 3, 4, 5]),
        ("", "00000000000000000003", [4, 5]),
    ],
)
def test_a_reattached_client_reads_on_after_its_cursor(
    deploy: Deploy, query: str, header: str | None, expected: list[int]
) -> None:
    api = deploy(says("Hel", "lo"))
    conversation = api.conversation()
    api.chat(conversation, "hi")
    headers = {} if header is None else {"Last-Event-ID": header}
    answer = api("GET", f"{CHAT}/turn/{conversation}{query}", headers=headers)
    assert answer.headers["content-type"] == "text/event-stream"
    assert [frame.id for frame in answer.frames] == expected


def test_a_client_that_reattaches_while_the_turn_runs_sees_its_end(deploy: Deploy) -> None:
    gate = Gate()
    api = deploy(["Hel", gate, "lo", *says("Hello")[1:]])
    conversation = api.conversation()
    first = api.chat(conversation, "hi", stream=True).stream
    gate.wait_reached()
    second = api("GET", f"{CHAT}/turn/{conversation}?after=1").stream
    assert next(second).data == {"text": "Hel"}
    gate.open()
    assert [frame.id for frame in second] == [3, 4, 5]
    assert [frame.id for frame in first] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("cursor", ["5", "999999999999999", "9" * 20, "9" * 5_000])
def test_a_cursor_at_the_end_of_a_turn_or_beyond_is_told_nothing(deploy: Deploy, cursor: str) -> None:
    api = deploy(says("Hel", "lo"))
    conversation = api.conversation()
    api.chat(conversation, "hi")
    assert api("GET", f"{CHAT}/turn/{conversation}", headers={"Last-Event-ID": cursor}).status == 204


@pytest.mark.parametrize("path", ["nobody", "{conversation}", "a%2Fb"])
def test_where_there_is_nothing_to_tell_the_answer_is_204(deploy: Deploy, path: str) -> None:
    api = deploy()
    answer = api("GET", f"{CHAT}/turn/{path.format(conversation=api.conversation())}")
    assert (answer.status, answer.content) == (204, "")


def test_somebody_elses_turn_has_nothing_to_tell(deploy: Deploy) -> None:
    api = deploy(says("Hello"))
    conversation = api.conversation()
    api.chat(conversation, "hi")
    assert api("GET", f"{CHAT}/turn/{conversation}", token="bob").status == 204


def test_a_seen_turn_has_nothing_to_tell(deploy: Deploy) -> None:
    api = deploy(says("Hello"))
    conversation = api.conversation()
    last = api.chat(conversation, "hi", stream=True).frames[-1].id
    assert api("GET", f"{CHAT}/turn/{conversation}?after={last}").status == 204


# -- turns and status


def test_running_turns_are_listed_to_their_person_alone(deploy: Deploy) -> None:
    gate = Gate()
    api = deploy([gate, *says("Hello")])
    conversation = api.conversation()
    stream = api.chat(conversation, "hi", stream=True).stream
    gate.wait_reached()
    (turn,) = api("GET", f"{CHAT}/turns").body["turns"]
    assert (turn["conversationId"], turn["phase"], turn["principal"]) == (conversation, "thinking", "user:ann")
    assert set(turn) == {"conversationId", "turnId", "startedAt", "steps", "phase", "principal"}
    assert api("GET", f"{CHAT}/turns", token="agent").body == {"turns": []}
    gate.open()
    stream.until("done")
    assert api("GET", f"{CHAT}/turns").body == {"turns": []}


@pytest.mark.parametrize("configured", [True, False])
def test_the_status_says_whether_a_gateway_is_configured(deploy: Deploy, configured: bool) -> None:
    api = deploy(configured=configured, CHAT_AGENT_NAME="Ada")
    assert api("GET", f"{CHAT}/status").body == {
        "configured": configured,
        "agent": {"name": "Ada", "emoji": "💬"},
        "demo": False,
    }


# -- every answer


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/chat/nothing", 404, "not_found"),
        ("POST", "/api/nothing", 404, "not_found"),
        ("GET", "/api/chat/turn/a/b", 404, "not_found"),
        ("PUT", CHAT, 405, "method_not_allowed"),
        ("HEAD", CHAT, 405, "method_not_allowed"),
        ("POST", f"{CHAT}/status", 405, "method_not_allowed"),
        ("PATCH", f"{CHAT}/turn/c", 405, "method_not_allowed"),
    ],
)
def test_unknown_paths_and_methods_are_told_in_json(
    deploy: Deploy, method: str, path: str, status: int, code: str
) -> None:
    assert deploy()(method, path).refusal == (status, code)


def test_a_wrong_method_is_told_the_right_ones(deploy: Deploy) -> None:
    api = deploy()
    assert api("PUT", CHAT).headers["allow"] == "POST"
    assert api("POST", f"{CHAT}/turn/c").headers["allow"] == "DELETE, GET"


def test_every_answer_names_its_request(deploy: Deploy) -> None:
    api = deploy(says("Hello"))
    answers = [
        api("GET", f"{CHAT}/status"),
        api("GET", "/api/nothing"),
        api("GET", f"{CHAT}/turn/nobody"),
        api("POST", CHAT, token=None),
        api.chat(None, "hi", stream=True),
    ]
    assert [answer.headers["x-request-id"] for answer in answers] == ["request-1"] * 5
    assert answers[-1].frames


def test_case_55_a_body_in_base64_is_understood_and_a_broken_one_is_400_behind_the_token(deploy: Deploy) -> None:
    api = deploy(says("Hello"))
    event = {
        "httpMethod": "POST",
        "path": CHAT,
        "headers": {"authorization": "Bearer ann"},
        "body": "eyJtZXNzYWdlcyI6W3sicm9sZSI6InVzZXIiLCJjb250ZW50IjoiaGkifV19",
        "isBase64Encoded": True,
        "requestContext": {"requestId": "r"},
    }
    assert api._chat(event, None)["statusCode"] == 200
    broken = {**event, "body": "%%%"}
    assert api._chat(broken, None)["statusCode"] == 400
    assert api._chat({**broken, "headers": {}}, None)["statusCode"] == 401


def test_case_51_a_body_in_pieces_survives_what_wraps_the_handler(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_TRACE_DISABLED", "1")
    gate = Gate()
    api = deploy([gate, *says("Hello")])
    logger, tracer = Logger(service="test"), Tracer()

    @logger.inject_lambda_context(clear_state=True)
    @tracer.capture_lambda_handler(capture_response=False)
    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        return api._chat(event, context)

    class Context:
        function_name = memory_limit_in_mb = invoked_function_arn = aws_request_id = "x"

    event = {
        "httpMethod": "POST",
        "path": CHAT,
        "headers": {"authorization": "Bearer ann"},
        "body": json.dumps({"messages": HI, "stream": True}),
        "requestContext": {"requestId": "r"},
    }
    answer = handler(event, Context())
    chunks = iter(answer["body"])
    assert next(chunks) == b": deckhand\n\n", "it is there before the model said anything"
    gate.open()
    text = joined({**answer, "body": chunks})["body"]
    assert [line for line in text.splitlines() if line.startswith("event:")][-2:] == ["event: reply", "event: done"]


def test_case_29_a_client_that_goes_away_in_the_stream_changes_nothing(deploy: Deploy) -> None:
    api = deploy(says("Hel", "lo"))
    conversation = api.conversation()
    answer = api.chat(conversation, "hi", stream=True)
    assert isinstance(answer.content, Generator)
    next(answer.content)
    answer.content.close()
    assert api.texts(conversation) == ["hi", "Hello"]
