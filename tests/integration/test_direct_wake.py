"""A direct message to a model that may be asleep, line by line of the checklist (the numbers in the names)."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deckhand.edge.direct import SERVICE
from deckhand.storage.port import Put
from deckhand.turns.slots import take_slot
from tests.conductor import PAST, Conductor, Told
from tests.direct import Direct
from tests.scripted_gateway import (
    DONE,
    Reply,
    ScriptedGateway,
    call,
    call_reply,
    delta,
    error_reply,
    page_reply,
    text_reply,
)

MODES = ("wait", "resume")


@pytest.fixture
def conductor() -> Iterator[Conductor]:
    with Conductor() as conductor:
        yield conductor


class Sleeper(Direct):
    """A deployment whose model is behind a conductor's pod. `address` is the gateway's own."""

    def __init__(self, folder: Path, gateway: ScriptedGateway, conductor: Conductor, **settings: str) -> None:
        self.scripted = gateway
        given = {"CHAT_ENDPOINT_URL": gateway.url, "CHAT_API_KEY": "gateway-key", "CHAT_MODEL": "asked-for"}
        super().__init__(folder, real=True, **{**given, **conductor.settings(), **settings})

    def say(self, mode: str | None = None, message: str = "hello", session: str = "s") -> tuple[int, dict[str, Any]]:
        chosen = {} if mode is None else {"wakeMode": mode}
        return self.post({"message": message, "sessionId": session, **chosen})


Deploy = Callable[..., Sleeper]


@pytest.fixture
def deploy(tmp_path: Path, scripted_gateway: ScriptedGateway, conductor: Conductor) -> Iterator[Deploy]:
    """Makes processes with settings of their own, all on one store."""
    with ExitStack() as open_ones:

        def made(**settings: str) -> Sleeper:
            sleeper = Sleeper(tmp_path, scripted_gateway, conductor, **settings)
            open_ones.callback(sleeper.close)
            return sleeper

        yield made


@pytest.fixture
def sleeper(deploy: Deploy) -> Sleeper:
    return deploy()


# -- the model's name

NAMELESS = Reply([delta(content="Hi").replace(b'"model": "scripted-1", ', b""), DONE])


@pytest.mark.parametrize("mode", [None, *MODES])
@pytest.mark.parametrize(("said", "name"), [(text_reply("Hi"), "scripted-1"), (NAMELESS, "asked-for")])
def test_002_06_26_the_model_is_the_one_that_the_gateway_named_or_else_was_asked_for(
    sleeper: Sleeper, conductor: Conductor, mode: str | None, said: Reply, name: str
) -> None:
    conductor.ready(sleeper.scripted.url)
    sleeper.scripted.queue(said)
    assert sleeper.say(mode) == (200, {"reply": "Hi", "sessionId": "s", "model": name})


# -- the body


@pytest.mark.parametrize("mode", ["", "now", "WAIT", True, 1, None, [], {}, ["wait"]])
def test_002_14_any_other_supplied_mode_is_refused(sleeper: Sleeper, conductor: Conductor, mode: Any) -> None:
    assert sleeper.post({"message": "hello", "wakeMode": mode})[0] == 400
    assert conductor.asked == []


def test_002_14_without_a_mode_the_conductor_is_not_asked(sleeper: Sleeper, conductor: Conductor) -> None:
    sleeper.scripted.queue(text_reply("Hi"))
    assert sleeper.say() == (200, {"reply": "Hi", "sessionId": "s", "model": "scripted-1"})
    assert conductor.asked == []


def test_002_14_without_a_mode_a_failed_call_is_tried_again_as_ever(sleeper: Sleeper) -> None:
    sleeper.scripted.queue(error_reply(503, headers={"Retry-After": "0"}), text_reply("Hi"))
    assert sleeper.say()[1]["reply"] == "Hi"


@pytest.mark.parametrize("mode", MODES)
def test_002_14_a_model_that_is_awake_answers_in_either_mode(sleeper: Sleeper, conductor: Conductor, mode: str) -> None:
    conductor.ready(sleeper.scripted.url)
    sleeper.scripted.queue(text_reply("Hi"))
    assert sleeper.say(mode) == (200, {"reply": "Hi", "sessionId": "s", "model": "scripted-1"})
    assert (conductor.looks, conductor.starts) == (1, 0)


# -- the provider is checked first, and pinned


@pytest.mark.parametrize("mode", MODES)
def test_002_15_the_pod_is_looked_at_before_the_model_is_asked(
    sleeper: Sleeper, conductor: Conductor, mode: str
) -> None:
    asked_before: list[int] = []
    conductor.before_status = lambda: asked_before.append(len(sleeper.scripted.requests))
    conductor.ready(sleeper.scripted.url)
    sleeper.scripted.queue(text_reply("Hi"))
    sleeper.say(mode)
    assert asked_before == [0]


@pytest.mark.parametrize("mode", MODES)
def test_002_15_a_turn_stays_with_the_endpoint_it_began_with(sleeper: Sleeper, conductor: Conductor, mode: str) -> None:
    pinned = sleeper.scripted.url.replace("/v1/", "/pinned/")
    conductor.ready(pinned)

    def moved() -> None:
        conductor.ready(sleeper.scripted.url.replace("/v1/", "/another/"))

    def first(body: Any) -> Reply:
        moved()
        sleeper.scripted.respond = lambda _: text_reply("Done")
        return call_reply(call("list_cards", {}))

    sleeper.scripted.respond = first
    assert sleeper.say(mode)[1]["reply"] == "Done"
    assert [request.path for request in sleeper.scripted.requests] == ["/pinned/chat/completions"] * 2
    assert {request.body["model"] for request in sleeper.scripted.requests} == {"asked-for"}
    assert {request.headers["authorization"] for request in sleeper.scripted.requests} == {"Bearer gateway-key"}


def test_002_15_a_pinned_turn_moves_no_other(sleeper: Sleeper, conductor: Conductor) -> None:
    conductor.ready(sleeper.scripted.url.replace("/v1/", "/pinned/"))
    sleeper.scripted.queue(text_reply("one"), text_reply("two"))
    sleeper.say("wait")
    sleeper.say()
    assert [request.path for request in sleeper.scripted.requests] == [
        "/pinned/chat/completions",
        "/v1/chat/completions",
    ]


def test_002_16_each_turn_looks_anew(sleeper: Sleeper, conductor: Conductor) -> None:
    conductor.ready(sleeper.scripted.url)
    sleeper.scripted.queue(text_reply("Hi"))
    assert sleeper.say("wait")[0] == 200
    conductor.stop()
    assert sleeper.say("resume")[0] == 502
    assert conductor.looks == 2


def ahead(**more: float) -> str:
    return (datetime.now(UTC) + timedelta(**more)).isoformat()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("since", [ahead(hours=1), "yesterday"])
def test_002_16_an_instant_that_cannot_be_is_not_ready(
    sleeper: Sleeper, conductor: Conductor, mode: str, since: str
) -> None:
    conductor.ready(sleeper.scripted.url, since)
    status, body = sleeper.say(mode)
    assert (status, "pendingWake" in body, conductor.starts) == (502, False, 0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "endpoint", [None, "http://pods.test/v1/chat/completions", "https://key@pods.test/v1", "https://10.0.0.7/v1"]
)
def test_002_16_an_unsafe_endpoint_is_never_asked(
    sleeper: Sleeper, conductor: Conductor, mode: str, endpoint: str | None
) -> None:
    conductor.pod = {"state": "running", "endpoint": endpoint, "readySince": PAST}
    status, body = sleeper.say(mode)
    assert (status, "pendingWake" in body, conductor.starts) == (502, False, 0)


@pytest.mark.parametrize("mode", MODES)
def test_002_16_an_unsafe_endpoint_is_not_asked_even_where_it_would_answer(
    sleeper: Sleeper, conductor: Conductor, mode: str
) -> None:
    conductor.ready(sleeper.scripted.url.replace("127.0.0.1", "localhost"))
    assert sleeper.say(mode)[0] == 502
    assert sleeper.scripted.requests == []


@pytest.mark.parametrize("mode", MODES)
def test_002_17_without_the_gateways_key_not_even_the_status_is_asked(
    deploy: Deploy, scripted_gateway: ScriptedGateway, conductor: Conductor, mode: str
) -> None:
    sleeper = deploy(CHAT_API_KEY="")
    assert sleeper.say(mode)[0] == 502
    assert conductor.asked == []


@pytest.mark.parametrize("mode", MODES)
def test_002_17_without_a_gateway_nothing_is_asked(
    deploy: Deploy, scripted_gateway: ScriptedGateway, conductor: Conductor, mode: str
) -> None:
    sleeper = deploy(CHAT_ENDPOINT_URL="")
    assert sleeper.say(mode)[0] == 502
    assert conductor.asked == []


# -- nothing is asked twice

ABOUT_A_FORM = {"error": {"message": "stream_options is not supported"}}
FULL = {"error": {"message": "context_length_exceeded", "code": "context_length_exceeded"}}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "failure",
    [
        error_reply(500),
        error_reply(503, headers={"Retry-After": "0"}),
        error_reply(429, headers={"Retry-After": "0"}),
        error_reply(400, ABOUT_A_FORM),
        error_reply(400, FULL),
        Reply(end="cut"),
        Reply(end="reset"),
        page_reply(),
    ],
    ids=["500", "503", "429", "form", "context", "cut", "reset", "page"],
)
def test_002_18_20_a_completion_that_fails_is_never_asked_for_again_and_wakes_nothing(
    sleeper: Sleeper, conductor: Conductor, mode: str, failure: Reply
) -> None:
    conductor.ready(sleeper.scripted.url)
    sleeper.scripted.queue(failure)
    status, body = sleeper.say(mode)
    assert (status, set(body)) == (502, {"error", "code"})
    assert (len(sleeper.scripted.requests), conductor.starts) == (1, 0)


def test_002_18_silence_is_no_reason_to_ask_again(
    deploy: Deploy, scripted_gateway: ScriptedGateway, conductor: Conductor
) -> None:
    sleeper = deploy(CHAT_ITER_TIMEOUT_MS="500")
    conductor.ready(scripted_gateway.url)
    scripted_gateway.queue(Reply(end="hold"))
    _, body = sleeper.say("wait")
    assert len(scripted_gateway.requests) == 1
    assert not {"pendingWake", "model"} & set(body)


def test_002_18_what_a_refusal_of_the_form_taught_is_used_by_the_next_message(
    sleeper: Sleeper, conductor: Conductor
) -> None:
    conductor.ready(sleeper.scripted.url)
    sleeper.scripted.queue(error_reply(400, ABOUT_A_FORM), text_reply("Hi"))
    assert [sleeper.say("resume")[0], sleeper.say("resume")[0]] == [502, 200]
    assert ["stream_options" in request.body for request in sleeper.scripted.requests] == [True, False]


# -- wait


def test_002_19_a_sleeping_pod_is_started_and_the_turn_has_not_begun(sleeper: Sleeper, conductor: Conductor) -> None:
    written: list[str] = []
    write = sleeper.parts.store.write

    def noting(ops: Any, *, token: str) -> None:
        written.extend(op.key.pk for op in ops if isinstance(op, Put))
        write(ops, token=token)

    sleeper.parts.store.write = noting  # type: ignore[method-assign]
    status, body = sleeper.say("wait")
    assert (status, body["sessionId"], body["pendingWake"]) == (200, "s", {"pod": "qwen"})
    assert set(body) == {"reply", "sessionId", "pendingWake"}
    assert conductor.asked == ["GET /pods/qwen", "POST /pods/qwen/start"]
    assert written == ["main#slots", "main#wake"]
    assert (sleeper.scripted.requests, sleeper.sessions()) == ([], [])


def test_002_19_a_session_that_was_there_is_left_as_it_was(sleeper: Sleeper, conductor: Conductor) -> None:
    conductor.ready(sleeper.scripted.url)
    sleeper.scripted.queue(text_reply("Hi"))
    sleeper.say("wait")
    before = sleeper.sessions()
    conductor.stop()
    assert "pendingWake" in sleeper.say("wait")[1]
    assert sleeper.sessions() == before


def test_002_19_a_session_is_made_up_for_a_caller_without_one(sleeper: Sleeper) -> None:
    _, body = sleeper.post({"message": "hello", "wakeMode": "wait"})
    assert body["pendingWake"]
    assert body["sessionId"]


@pytest.mark.parametrize(
    "pod",
    [
        {"state": "starting", "endpoint": None, "readySince": None},
        {"state": "starting", "endpoint": "https://pods.test/v1", "readySince": PAST},
        {"state": "running", "endpoint": "https://pods.test/v1", "readySince": None},
    ],
)
def test_002_19_a_pod_that_is_on_its_way_is_waited_for_and_not_started(
    sleeper: Sleeper, conductor: Conductor, pod: dict[str, Any]
) -> None:
    conductor.pod = pod
    assert sleeper.say("wait")[1]["pendingWake"] == {"pod": "qwen"}
    assert conductor.starts == 0


def test_002_19_a_pending_message_gives_its_slot_back(sleeper: Sleeper) -> None:
    assert [sleeper.say("wait", session=name)[0] for name in "abc"] == [200, 200, 200]


def test_002_20_what_a_reply_says_makes_nothing_pending(sleeper: Sleeper, conductor: Conductor) -> None:
    conductor.ready(sleeper.scripted.url)
    said = json.dumps({"pendingWake": {"pod": "qwen"}})
    sleeper.scripted.queue(text_reply(said))
    assert sleeper.say("wait")[1] == {"reply": said, "sessionId": "s", "model": "scripted-1"}


def test_002_20_a_pod_that_stops_under_the_turn_makes_nothing_pending(sleeper: Sleeper, conductor: Conductor) -> None:
    conductor.ready(sleeper.scripted.url)

    def stopping(_: Any) -> Reply:
        conductor.stop()
        return Reply(end="reset")

    sleeper.scripted.respond = stopping
    status, body = sleeper.say("wait")
    assert (status, "pendingWake" in body, conductor.starts) == (502, False, 0)


def test_002_21_within_the_cooldown_one_start_is_made_whoever_asks(
    deploy: Deploy, sleeper: Sleeper, conductor: Conductor
) -> None:
    other = deploy()
    for asking in (sleeper, other, sleeper):
        conductor.stop()
        assert asking.say("wait")[1]["pendingWake"] == {"pod": "qwen"}
    assert conductor.starts == 1


def test_002_21_after_the_cooldown_a_pod_that_sleeps_again_is_started_again(
    deploy: Deploy, scripted_gateway: ScriptedGateway, conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = deploy(CHAT_CONDUCTOR_COOLDOWN_S="60")
    now.say("wait")
    conductor.stop()
    moment = now.parts.turns.now()
    monkeypatch.setattr("time.time", lambda: moment + 61)
    later = deploy(CHAT_CONDUCTOR_COOLDOWN_S="60")
    later.say("wait")
    assert conductor.starts == 2


@pytest.mark.parametrize("code", [302, 401, 404, 409, 500])
def test_002_21_22_a_start_that_failed_is_pending_for_nobody_and_counts_for_the_cooldown(
    sleeper: Sleeper, conductor: Conductor, code: int
) -> None:
    conductor.start_told = Told(code, b"{}")
    answers = [sleeper.say("wait"), sleeper.say("wait")]
    assert [(status, "pendingWake" in body) for status, body in answers] == [(502, False)] * 2
    assert conductor.starts == 1
    conductor.ready(sleeper.scripted.url)
    sleeper.scripted.queue(text_reply("Hi"))
    assert sleeper.say("wait")[0] == 200


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "told",
    [
        Told(200, b"<html>"),
        Told(200, b""),
        Told(200, b"[]"),
        Told(200, b'{"endpoint": null}'),
        Told(200, b'{"state": "melting"}'),
        Told(200, b'{"state": 3}'),
        Told(200, b'{"state": "stopped", "pad": "' + b"x" * 70_000 + b'"}'),
        Told(302, b'{"state": "stopped"}'),
        Told(401, b'{"state": "stopped"}'),
        Told(404, b'{"state": "stopped"}'),
        Told(500, b'{"state": "stopped"}'),
    ],
    ids=lambda told: f"{told.status}-{len(told.body)}" if isinstance(told, Told) else None,
)
def test_002_22_a_status_that_cannot_be_read_is_pending_for_nobody(
    sleeper: Sleeper, conductor: Conductor, mode: str, told: Told
) -> None:
    conductor.told = told
    status, body = sleeper.say(mode)
    assert (status, "pendingWake" in body, conductor.starts) == (502, False, 0)


@pytest.mark.parametrize("mode", MODES)
def test_002_22_a_conductor_that_cannot_be_reached_is_pending_for_nobody(
    deploy: Deploy, scripted_gateway: ScriptedGateway, conductor: Conductor, mode: str
) -> None:
    with Conductor() as gone:
        settings = gone.settings()
    sleeper = deploy(**settings)
    status, body = sleeper.say(mode)
    assert (status, "pendingWake" in body) == (502, False)


@pytest.mark.parametrize("mode", MODES)
def test_002_22_without_a_conductor_either_mode_is_an_ordinary_turn(
    deploy: Deploy, scripted_gateway: ScriptedGateway, conductor: Conductor, mode: str
) -> None:
    unset = dict.fromkeys(conductor.settings(), "")
    sleeper = deploy(**unset)
    scripted_gateway.queue(error_reply(503, headers={"Retry-After": "0"}), text_reply("Hi"))
    assert sleeper.say(mode) == (200, {"reply": "Hi", "sessionId": "s", "model": "scripted-1"})
    assert conductor.asked == []


# -- resume


@pytest.mark.parametrize(
    "pod",
    [
        {"state": "stopped", "endpoint": None, "readySince": None},
        {"state": "starting", "endpoint": None, "readySince": None},
        {"state": "running", "endpoint": "https://pods.test/v1", "readySince": None},
    ],
)
def test_002_23_a_resume_that_finds_the_pod_down_ends_without_a_start(
    sleeper: Sleeper, conductor: Conductor, pod: dict[str, Any]
) -> None:
    conductor.pod = pod
    status, body = sleeper.say("resume")
    assert (status, body["code"], set(body)) == (502, "provider_failed", {"error", "code"})
    assert (conductor.starts, sleeper.sessions()) == (0, [])


def test_002_23_a_stop_between_the_two_is_no_second_paid_start(sleeper: Sleeper, conductor: Conductor) -> None:
    assert "pendingWake" in sleeper.say("wait")[1]
    conductor.ready(sleeper.scripted.url)
    conductor.stop()
    assert sleeper.say("resume")[0] == 502
    assert conductor.starts == 1


def test_002_24_a_message_that_waited_is_answered_by_its_resume_and_stored_once(
    sleeper: Sleeper, conductor: Conductor
) -> None:
    assert "pendingWake" in sleeper.say("wait")[1]
    conductor.ready(sleeper.scripted.url)
    sleeper.scripted.queue(text_reply("Hi"))
    assert sleeper.say("resume")[1]["reply"] == "Hi"
    assert [header.message_count for header in sleeper.sessions()] == [2]


def test_002_25_43_no_queue_no_replay_and_no_route_is_added(sleeper: Sleeper, conductor: Conductor) -> None:
    assert set(sleeper.app.paths) == {
        "/api/chat",
        "/api/chat/status",
        "/api/chat/turns",
        "/api/chat/turn/{conversationId}",
        "/api/chat/proposals",
        "/api/chat/proposals/decisions",
        "/api/chat/proposals/{id}/confirm",
        "/api/chat/proposals/{id}/reject",
    }
    sleeper.say("wait")
    conductor.ready(sleeper.scripted.url)
    assert sleeper.parts.jobs.take(1) == []  # type: ignore[attr-defined]
    assert sleeper.scripted.requests == []


# -- the order of checks goes on


def test_002_31_a_message_that_is_one_too_many_wakes_nothing(sleeper: Sleeper, conductor: Conductor) -> None:
    take_slot(sleeper.parts.turns, SERVICE.tenant, 1)
    assert sleeper.say("wait")[0] == 429
    assert conductor.asked == []


@pytest.mark.parametrize("headers", [{}, {"X-Chat-Token": "wrong"}])
def test_002_28_a_caller_without_the_token_wakes_nothing(
    sleeper: Sleeper, conductor: Conductor, headers: dict[str, str]
) -> None:
    assert sleeper.post({"message": "hello", "wakeMode": "wait"}, headers)[0] == 401
    assert conductor.asked == []


def test_002_42_nothing_of_the_conductor_reaches_the_caller(sleeper: Sleeper, conductor: Conductor) -> None:
    conductor.told = Told(500, b'{"error": "RUNPOD_KEY in /etc/secret"}')
    _, body = sleeper.say("wait")
    assert body == {"error": "The AI service failed.", "code": "provider_failed"}
