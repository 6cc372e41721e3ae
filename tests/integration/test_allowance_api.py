"""Allowances and usage over events of API Gateway."""

import json
from typing import Any
from unittest.mock import patch

import pytest

from deckhand import bootstrap
from deckhand.agent.chat import Usage
from deckhand.domain.errors import AllowanceUsedUp, GatewayFailed
from deckhand.domain.job import Actor, Job
from deckhand.edge.direct import SERVICE
from deckhand.storage.sqlite_queue import Delivery
from deckhand.turns.start import owner_of
from infra.local.ticker import sqs_event
from tests.api import ANN, Answer, Api, Deploy
from tests.fakes import Gate, asks, call, says

CHAT = "/api/chat"
HI = [{"role": "user", "content": "hi"}]
USED = Usage(input_tokens=90, output_tokens=10)
PRICES = json.dumps({"small-*": {"input": 1, "output": 2.5}})
ROOMY = "1000000"
FULL = "100"


@pytest.fixture
def used_up(deploy: Deploy) -> Api:
    """A deployment on which Ann has used all of her 100 tokens of today."""
    free = deploy(says("hello", usage=USED))
    free.chat(None, "hi")
    return deploy(CHAT_DAILY_TOKENS=FULL)


def refused(answer: Answer) -> dict[str, Any]:
    assert answer.refusal == (429, "allowance_used_up")
    body: dict[str, Any] = answer.body
    return body


def usage(api: Api, **given: Any) -> dict[str, Any]:
    found: dict[str, Any] = api("GET", "/api/usage", **given).body
    return found


# -- refused before it begins


@pytest.mark.parametrize("stream", [False, True])
def test_with_nothing_left_a_turn_is_refused_in_json_and_leaves_no_trace(used_up: Api, stream: bool) -> None:
    conversation = used_up.conversation()
    body = refused(used_up.chat(conversation, "hi", stream=stream))
    assert body["left"] == {"tokens": 0}
    assert body["resetsAt"].endswith("T00:00:00.000Z")
    assert used_up.shown(conversation) == []
    assert used_up("GET", f"/api/chat/turn/{conversation}").status == 204
    assert used_up("GET", "/api/chat/turns").body == {"turns": []}


def test_a_turn_over_the_clients_transcript_is_refused_too(used_up: Api) -> None:
    refused(used_up.chat(None, "hi", stream=True))


def test_the_allowance_is_each_callers_own(used_up: Api) -> None:
    # Bob has all of his left, though too little for a whole prompt.
    assert refused(used_up("POST", CHAT, {"messages": HI}, token="bob"))["left"] == {"tokens": 100}


def test_everything_else_keeps_working(used_up: Api) -> None:
    conversation = used_up.conversation()
    assert used_up("GET", f"/api/conversations/{conversation}").status == 200
    assert used_up("GET", "/api/chat/status").status == 200


def test_other_checks_come_first(deploy: Deploy, used_up: Api) -> None:
    conversation = used_up.conversation()
    assert used_up("POST", CHAT, {"messages": HI}, token="wrong").refusal == (401, "unauthenticated")
    assert used_up("POST", CHAT, {"messages": []}).refusal == (400, "invalid_messages")
    assert used_up.chat("nobody", "hi").refusal == (404, "unknown_conversation")
    unconfigured = deploy(configured=False, CHAT_DAILY_TOKENS=FULL)
    assert unconfigured.chat(conversation, "hi").refusal == (503, "chat_not_configured")


def test_a_running_turn_and_a_known_key_come_first_and_nothing_is_interrupted(deploy: Deploy) -> None:
    gate = Gate()
    free = deploy(says("hello", usage=USED), [gate, *says("hello", usage=USED)])
    free.chat(None, "hi")
    conversation, key = free.conversation(), {"Idempotency-Key": "k1"}
    streaming = free.chat(conversation, "hi", stream=True, headers=key)
    gate.wait_reached()
    limited = deploy(CHAT_DAILY_TOKENS=FULL)
    assert limited.chat(conversation, "more").refusal == (409, "turn_running")
    refused(limited.chat(conversation, "more", onBusy="interrupt"))
    joined = limited.chat(conversation, "hi", stream=True, headers=key)
    gate.open()
    assert streaming.frames[-1].data["status"] == "done"
    assert joined.frames[-1].data["status"] == "done"


# -- on the way


def test_a_step_that_may_need_more_than_is_left_ends_its_turn(deploy: Deploy) -> None:
    api = deploy(CHAT_DAILY_TOKENS=FULL)
    conversation = api.conversation()
    body = refused(api.chat(conversation, "hi"))
    assert body["left"] == {"tokens": 100}
    assert body["turnId"]
    assert api.texts(conversation) == ["hi"], "the user's message stays"


def test_a_stream_tells_of_it_and_ends_as_failed(deploy: Deploy) -> None:
    api = deploy(asks(call("list_manifests"), usage=Usage(input_tokens=999_000)), CHAT_DAILY_TOKENS=ROOMY)
    frames = api.chat(api.conversation(), "hi", stream=True).frames
    error, done = frames[-2:]
    assert (error.name, error.data["code"], error.data["left"]) == ("error", "allowance_used_up", {"tokens": 1_000})
    assert error.data["resetsAt"]
    assert (done.name, done.data["status"]) == ("done", "failed")


def test_what_the_gateway_says_of_its_own_allowance_stays_what_it_is(deploy: Deploy) -> None:
    api = deploy([AllowanceUsedUp()], CHAT_DAILY_TOKENS=ROOMY)
    assert "left" not in refused(api.chat(api.conversation(), "hi"))
    assert usage(api)["left"] == {"tokens": 1_000_000}


def test_a_failed_call_gives_back_what_it_reserved(deploy: Deploy) -> None:
    api = deploy([GatewayFailed()], CHAT_DAILY_TOKENS=ROOMY)
    assert api.chat(api.conversation(), "hi").refusal == (502, "gateway_failed")
    assert usage(api) == {"days": [], "left": {"tokens": 1_000_000}, "resetsAt": usage(api)["resetsAt"]}


def test_an_answer_that_is_cut_by_what_is_left_is_capped_by_size(deploy: Deploy) -> None:
    api = deploy(says("as far as it", usage=USED, finish="length"), CHAT_DAILY_TOKENS="30000")
    reply = api.chat(api.conversation(), "hi").body
    assert (reply["capped"], reply["cappedBy"]) == (True, "size")


def test_a_call_in_flight_holds_what_it_may_need(deploy: Deploy) -> None:
    gate = Gate()
    api = deploy([gate, *says("hello", usage=USED)], CHAT_DAILY_TOKENS=ROOMY)
    streaming = api.chat(api.conversation(), "hi", stream=True)
    gate.wait_reached()
    assert usage(api)["left"]["tokens"] < 1_000_000 - 4_096
    assert usage(api)["days"] == []
    gate.open()
    assert streaming.frames
    assert usage(api)["left"] == {"tokens": 999_900}


# -- usage


def test_a_reply_and_the_day_say_what_it_cost(deploy: Deploy) -> None:
    api = deploy(asks(call("list_manifests"), usage=Usage(80, 0, 30, 0)), says("hello", usage=USED), CHAT_PRICES=PRICES)
    reply = api.chat(api.conversation(), "hi").body
    assert reply["usage"] == {
        "inputTokens": 170,
        "outputTokens": 10,
        "cachedTokens": 30,
        "cacheWriteTokens": 0,
        "costUsd": 0.000195,
    }
    (day,) = usage(api)["days"]
    assert day == {"day": day["day"], **reply["usage"]}


def test_without_a_price_there_is_no_cost(deploy: Deploy) -> None:
    api = deploy(says("hello", usage=USED))
    assert "costUsd" not in api.chat(api.conversation(), "hi").body["usage"]
    found = usage(api)
    assert (found["left"], "costUsd" in found["days"][0]) == ({}, False)


def test_a_day_on_which_a_price_was_unknown_has_no_cost(deploy: Deploy) -> None:
    api, unpriced = deploy(says("hello", usage=USED), CHAT_PRICES=PRICES), deploy(says("hello", usage=USED))
    api.chat(None, "hi")
    assert usage(api)["days"][0]["costUsd"] == 0.000115
    unpriced.chat(None, "hi")
    assert "costUsd" not in usage(api)["days"][0]


def test_money_is_limited_by_prices(deploy: Deploy) -> None:
    settings = {"CHAT_PRICES": json.dumps({"*": {"input": 1, "output": 100}}), "CHAT_DAILY_COST_USD": "0.5"}
    api = deploy(says("hello", usage=Usage(0, 2_000)), CHAT_MODEL="small-1", **settings)
    api.chat(None, "hi")
    assert usage(api)["left"] == {"costUsd": 0.3}
    assert refused(api.chat(None, "hi"))["left"] == {"costUsd": 0.3}


def test_what_a_gateway_does_not_report_is_estimated_in_the_day_and_null_in_the_reply(deploy: Deploy) -> None:
    api = deploy(says("hello"))
    assert api.chat(api.conversation(), "hi").body["usage"] is None
    (day,) = usage(api)["days"]
    assert day["estimated"] is True
    assert day["inputTokens"] > 100


def test_usage_is_the_callers_own_and_private(deploy: Deploy) -> None:
    api = deploy(says("hello", usage=USED))
    api.chat(api.conversation(), "hi")
    assert usage(api, token="bob")["days"] == []
    assert api("GET", "/api/usage", token=None).refusal == (401, "unauthenticated")


# -- jobs and the direct form


def title_job(api: Api, conversation: str) -> dict[str, Any]:
    with patch.object(bootstrap, "EventLoopThread", return_value=api._thread):
        worker = api.parts.job_worker()
    body = Job(kind="title", actor=Actor.of(ANN), conversation=conversation).to_json()
    failures: dict[str, Any] = worker(sqs_event(Delivery("1", body, 1)), None)
    return failures


def test_a_title_counts_too(deploy: Deploy) -> None:
    api = deploy(says("hello"), says("A fine title", usage=Usage(20, 4)), CHAT_DAILY_TOKENS=ROOMY)
    conversation = api.conversation()
    api.chat(conversation, "hi")
    before = usage(api)["left"]["tokens"]
    assert title_job(api, conversation) == {"batchItemFailures": []}
    assert usage(api)["left"]["tokens"] == before - 24


def test_a_title_that_there_is_nothing_left_for_is_not_made_and_not_asked_for_again(used_up: Api) -> None:
    conversation = used_up.conversation(messages=[*HI, {"role": "assistant", "content": "hello"}])
    assert title_job(used_up, conversation) == {"batchItemFailures": []}


DIRECT = {"X-Chat-Token": "direct"}


def test_the_direct_form_has_an_allowance_of_its_own(deploy: Deploy) -> None:
    free = deploy(says("hello", usage=USED), CHAT_API_TOKEN="direct")
    assert free("POST", CHAT, {"message": "hi"}, headers=DIRECT).status == 200
    limited = deploy(CHAT_API_TOKEN="direct", CHAT_DAILY_TOKENS=FULL)
    refusals = [refused(limited("POST", CHAT, {"message": "hi"}, headers=DIRECT)) for _ in range(2)]
    assert [body["left"] for body in refusals] == [{"tokens": 0}] * 2, "the second finds the slot free"
    sessions = limited.parts.turns.conversations.headers(owner_of(SERVICE))
    assert len(sessions) == 1, "no session was opened"


def test_the_direct_form_tells_of_ours_and_hides_the_gateways(deploy: Deploy) -> None:
    limited = deploy(CHAT_API_TOKEN="direct", CHAT_DAILY_TOKENS=FULL)
    assert refused(limited("POST", CHAT, {"message": "hi"}, headers=DIRECT))["left"] == {"tokens": 100}
    upstream = deploy([AllowanceUsedUp()], CHAT_API_TOKEN="direct")
    assert upstream("POST", CHAT, {"message": "hi"}, headers=DIRECT).refusal == (502, "provider_failed")
