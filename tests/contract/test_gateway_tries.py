"""When the gateway asks again, waits, gives up, or changes the form of its request (bug cases 17 to 19, 22, 26)."""

import asyncio
import json
import logging
import socket
from typing import Any

import pytest

from deckhand.agent.chat import (
    DeadlineReached,
    Filtered,
    StepIdle,
    StepLimits,
    StepRequest,
)
from deckhand.agent.gateway import Endpoint, HttpGateway
from deckhand.domain.errors import (
    AllowanceUsedUp,
    ContextFull,
    GatewayError,
    GatewayFailed,
    GatewayTimeout,
    GatewayUnreadable,
)
from tests.gateway_asking import QUESTION, Asker, asker
from tests.scripted_gateway import (
    DONE,
    Gate,
    Recorded,
    Reply,
    ScriptedGateway,
    delta,
    error_reply,
    text_reply,
)

SHORT = StepLimits(idle=0.5, deadline=30)
"""Long enough for a request to come through on a machine that has much else to do."""


def limited(headers: dict[str, str] | None = None) -> Reply:
    return error_reply(429, headers=headers)


# -- waiting before another try


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({"Retry-After": "2"}, 2.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:27:55 GMT"}, 5.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, 10.0),
        ({"Retry-After": "soon"}, 0.5),
        ({"Retry-After": "-3"}, 0.5),
        ({"Retry-After": "inf"}, 0.5),
        ({"Retry-After": "nan"}, 0.5),
        ({"retry-after-ms": "350"}, 0.35),
        ({}, 0.5),
    ],
)
async def test_case_17_the_pause_is_the_servers_when_it_can_be_read_and_else_ours(
    scripted_gateway: ScriptedGateway, headers: dict[str, str], pause: float
) -> None:
    scripted_gateway.queue(limited(headers), text_reply("Hi"))

    async with asker(scripted_gateway.url) as asked:
        await asked.ask()

    assert asked.pauses.asked == [pause]


@pytest.mark.parametrize("seconds", ["11", "86400"])
async def test_case_17_a_pause_above_the_cap_fails_at_once(scripted_gateway: ScriptedGateway, seconds: str) -> None:
    scripted_gateway.queue(limited({"Retry-After": seconds}))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(GatewayFailed):
            await asked.ask()

    assert asked.pauses.asked == []


async def test_case_17_a_pause_past_the_turns_time_fails_at_once(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(limited({"Retry-After": "8"}))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(GatewayFailed):
            await asked.ask(limits=StepLimits(idle=5, deadline=6))

    assert asked.pauses.asked == []


async def test_case_17_two_pauses_and_no_more(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(limited(), error_reply(503), error_reply(500))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(GatewayFailed):
            await asked.ask()

    assert asked.pauses.asked == [0.5, 2.0]


async def test_case_17_a_stop_ends_the_pause(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(limited({"Retry-After": "9"}))
    pausing = asyncio.Event()

    async def sleep(_: float) -> None:
        pausing.set()
        await asyncio.Event().wait()

    gateway = HttpGateway(Endpoint(scripted_gateway.url, lambda: "k", "m", True), new_id=str, sleep=sleep)
    asking = asyncio.create_task(anext(gateway.stream(StepRequest(QUESTION, []))))
    await pausing.wait()
    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking
    await gateway.aclose()


# -- what is not tried again


async def test_a_used_up_allowance_is_told_at_once(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(error_reply(429, {"error": {"code": "insufficient_quota", "message": "Budget"}}))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(AllowanceUsedUp):
            await asked.ask()


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_other_refusals_fail_at_once(scripted_gateway: ScriptedGateway, status: int) -> None:
    scripted_gateway.queue(error_reply(status))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(GatewayFailed):
            await asked.ask()


async def test_a_redirect_is_not_followed(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(Reply([], 307, {"location": scripted_gateway.url}))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(GatewayUnreadable):
            await asked.ask()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"code": "context_length_exceeded"}}),
        (400, {"error": {"message": "maximum context length is 8192 tokens", "code": 400}}),
        (400, {"error": {"type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 8192}}),
        (400, {"message": "Input length 9000 exceeds the maximum allowed input length of 8192 tokens", "code": "400"}),
        (400, {"error": {"message": "Prompt contains 9000 tokens, too large for model"}}),
        (413, {}),
    ],
)
async def test_case_18_a_full_context_is_one_class_and_left_to_the_caller(
    scripted_gateway: ScriptedGateway, status: int, body: Any
) -> None:
    scripted_gateway.queue(error_reply(status, body))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(ContextFull):
            await asked.ask()


async def test_case_18_a_schema_that_is_too_long_is_an_ordinary_refusal(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(error_reply(400, {"error": {"message": "tool schema is too long"}}))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(GatewayFailed):
            await asked.ask()


async def test_case_22_a_filtered_request_is_not_asked_again(scripted_gateway: ScriptedGateway) -> None:
    inner = {"code": "ResponsibleAIPolicyViolation"}
    scripted_gateway.queue(error_reply(400, {"error": {"code": "content_filter", "innererror": inner}}))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(Filtered):
            await asked.ask()


# -- silence


async def test_case_19_silence_after_text_ends_the_step_without_a_replay(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(Reply([delta(content="Hel")], end="hold"))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(StepIdle):
            await asked.ask(limits=SHORT)

    assert asked.shown == ["Hel"]
    assert scripted_gateway.requests[0].wait_closed()


@pytest.mark.parametrize("reply", [Reply(before=[Gate()]), Reply(end="hold")], ids=["before the head", "after it"])
async def test_case_19_silence_before_the_first_byte_is_tried_once_more_on_a_new_connection(
    scripted_gateway: ScriptedGateway, reply: Reply
) -> None:
    scripted_gateway.queue(reply, text_reply("Hi"))

    async with asker(scripted_gateway.url) as asked:
        assert (await asked.ask(limits=StepLimits(idle=0.8, deadline=30))).text == "Hi"

    assert scripted_gateway.connections == 2


async def test_case_19_silence_before_the_first_byte_twice_ends_the_step(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(Reply(before=[Gate()]), Reply(before=[Gate()]))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(StepIdle):
            await asked.ask(limits=SHORT)


async def test_case_19_comments_alone_hold_the_step_only_so_long(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(Reply([step for _ in range(200) for step in (b": busy\n\n", 0.03)]))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(StepIdle):
            await asked.ask(limits=SHORT)

    assert scripted_gateway.requests[0].wait_closed()


async def test_case_19_text_that_comes_slower_than_the_idle_limit_in_all_is_no_silence(
    scripted_gateway: ScriptedGateway,
) -> None:
    slow = [step for letter in "abcdefghijkl" for step in (delta(content=letter), 0.1)]
    scripted_gateway.queue(Reply([*slow, delta("stop"), DONE]))

    async with asker(scripted_gateway.url) as asked:
        assert (await asked.ask(limits=StepLimits(idle=1, deadline=30))).text == "abcdefghijkl"


SILENT = [
    Reply([delta(content="Hel")], end="hold"),
    Reply(before=[Gate()]),
    Reply([step for _ in range(500) for step in (b": busy\n\n", 0.02)]),
]


@pytest.mark.parametrize("reply", SILENT, ids=["after text", "before the head", "comments"])
async def test_case_19_a_stop_closes_the_connection(scripted_gateway: ScriptedGateway, reply: Reply) -> None:
    scripted_gateway.queue(reply)

    async with asker(scripted_gateway.url) as asked:
        asking = asyncio.create_task(asked.ask())
        await asyncio.to_thread(scripted_gateway.wait_for_requests, 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await asyncio.to_thread(scripted_gateway.requests[0].wait_closed)


async def test_closing_the_iterator_closes_the_connection(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(Reply([delta(content="Hel")], end="hold"))

    async with asker(scripted_gateway.url) as asked:
        items = asked.gateway.stream(StepRequest(QUESTION, []))
        await anext(items)
        await items.aclose()
        assert await asyncio.to_thread(scripted_gateway.requests[0].wait_closed)


ENDLESS = Reply([step for _ in range(500) for step in (delta(content="a"), 0.02)])


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (StepLimits(idle=30, deadline=0.5), DeadlineReached),
        (StepLimits(idle=30, deadline=None, ceiling=0.5), GatewayTimeout),
        (StepLimits(idle=None, deadline=30, ceiling=0.5), GatewayTimeout),
    ],
)
async def test_a_step_that_writes_for_ever_ends_with_the_turns_time_or_the_ceiling(
    scripted_gateway: ScriptedGateway, limits: StepLimits, expected: type[GatewayError]
) -> None:
    scripted_gateway.queue(ENDLESS)

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(expected):
            await asked.ask(limits=limits)


async def test_a_turn_whose_time_is_over_asks_nothing(scripted_gateway: ScriptedGateway) -> None:
    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(DeadlineReached):
            await asked.ask(limits=StepLimits(deadline=0))


# -- connections


async def test_a_refused_connection_is_tried_three_times(unused_port: int) -> None:
    async with asker(f"http://127.0.0.1:{unused_port}/v1/chat/completions") as asked:
        with pytest.raises(GatewayFailed):
            await asked.ask()

    assert asked.pauses.asked == [0.5, 2.0]


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


async def test_a_connection_is_used_again_for_the_next_step(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(*[text_reply("Hi") for _ in range(3)])

    async with asker(scripted_gateway.url) as asked:
        for _ in range(3):
            await asked.ask()

    assert scripted_gateway.connections == 1


async def test_parallel_steps_each_get_their_own_answer(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.respond = lambda body: text_reply(f"echo {body['messages'][0]['content']}")

    async def one(number: int) -> str:
        async with asker(scripted_gateway.url) as asked:
            return (await asked.ask([{"role": "user", "content": str(number)}])).text

    texts = await asyncio.gather(*(one(number) for number in range(8)))

    assert texts == [f"echo {number}" for number in range(8)]


def test_one_gateway_serves_several_event_loops(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(text_reply("Hi"), text_reply("Hi"))
    gateway = HttpGateway(Endpoint(scripted_gateway.url, lambda: "k", "m", True), new_id=str)

    async def one() -> int:
        items = [item async for item in gateway.stream(StepRequest(QUESTION, []))]
        await gateway.aclose()
        return len(items)

    assert asyncio.run(one()) == asyncio.run(one())


# -- the form of the request

SYSTEM = [
    {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
    {"type": "text", "text": "b"},
]
CALLS = [{"id": "call_PTLP8xhu3u", "type": "function", "function": {"name": "add", "arguments": "{}"}}]
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": SYSTEM},
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": None, "tool_calls": CALLS, "reasoning_content": "r"},
    {"role": "tool", "tool_call_id": "call_PTLP8xhu3u", "content": "{}"},
]


def _refuses_marks(body: Any) -> str | None:
    return "Unknown field: cache_control" if "cache_control" in json.dumps(body) else None


def _refuses_blocks(body: Any) -> str | None:
    blocks = any(isinstance(message.get("content"), list) for message in body["messages"])
    return "messages[0].content: invalid type: sequence, expected a string" if blocks else None


def _refuses_options(body: Any) -> str | None:
    return "Unrecognized request argument supplied: stream_options" if "stream_options" in body else None


def _refuses_null(body: Any) -> str | None:
    null = any(message.get("content", "") is None for message in body["messages"])
    return "messages.2.content: none is not an allowed value" if null else None


def _refuses_reasoning(body: Any) -> str | None:
    said = "reasoning_content" in json.dumps(body)
    return "property 'messages.2.reasoning_content' is unsupported" if said else None


FORMS = [_refuses_marks, _refuses_blocks, _refuses_options, _refuses_null, _refuses_reasoning]


@pytest.mark.parametrize("refuses", FORMS)
async def test_case_26_a_refused_form_is_left_out_once_and_from_then_on(
    scripted_gateway: ScriptedGateway, refuses: Any
) -> None:
    def respond(body: Any) -> Reply:
        message = refuses(body)
        return error_reply(400, {"error": {"message": message}}) if message else text_reply("Hi")

    scripted_gateway.respond = respond

    async with asker(scripted_gateway.url) as asked:
        first = await asked.ask(MESSAGES)
        second = await asked.ask(MESSAGES)

    assert (first.text, second.text) == ("Hi", "Hi")
    assert [refuses(request.body) is None for request in scripted_gateway.requests] == [False, True, True]


@pytest.mark.parametrize(
    ("message", "expected"),
    [("messages.2.content: none is not an allowed value", ""), ("content must be a string", "")],
)
async def test_case_26_null_becomes_an_empty_string(
    scripted_gateway: ScriptedGateway, message: str, expected: str
) -> None:
    scripted_gateway.queue(error_reply(400, {"error": {"message": message}}), text_reply("Hi"))

    async with asker(scripted_gateway.url) as asked:
        await asked.ask(MESSAGES)

    assert scripted_gateway.requests[1].messages[2]["content"] == expected


async def test_case_26_an_empty_string_that_is_refused_too_is_left_out(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(
        error_reply(400, {"error": {"message": "content must not be null"}}),
        text_reply("Hi"),
        error_reply(400, {"error": {"message": "content must not be empty"}}),
        text_reply("Hi"),
    )

    async with asker(scripted_gateway.url) as asked:
        await asked.ask(MESSAGES)
        await asked.ask(MESSAGES)

    assert "content" not in scripted_gateway.requests[3].messages[2]


async def test_case_26_a_form_is_tried_in_plain_only_once(scripted_gateway: ScriptedGateway) -> None:
    for form in ("cache_control", "stream_options"):
        scripted_gateway.queue(error_reply(400, {"error": {"message": f"{form} is not known"}}))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(GatewayFailed):
            await asked.ask(MESSAGES)


async def test_case_26_steps_side_by_side_each_have_their_plain_try(scripted_gateway: ScriptedGateway) -> None:
    refused = error_reply(400, {"error": {"message": "cache_control is not known"}})
    gate = Gate()
    late = Reply(refused.steps, refused.status, refused.headers, before=[gate])
    scripted_gateway.queue(late)

    async with asker(scripted_gateway.url) as asked:
        slow = asyncio.create_task(asked.ask(MESSAGES))
        await asyncio.to_thread(gate.reached.wait, 10)
        scripted_gateway.queue(refused, text_reply("Hi"))
        await Asker(asked.gateway, asked.pauses).ask(MESSAGES)
        scripted_gateway.queue(text_reply("Hello"))
        gate.open()
        assert (await slow).text == "Hello"


async def test_case_26_a_plain_try_that_is_refused_too_teaches_nothing(scripted_gateway: ScriptedGateway) -> None:
    refused = error_reply(400, {"error": {"message": "cache_control is not known"}})
    scripted_gateway.queue(refused, refused, text_reply("Hi"))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(GatewayFailed):
            await asked.ask(MESSAGES)
        await asked.ask(MESSAGES)

    assert scripted_gateway.requests[2].messages[0]["content"] == SYSTEM


async def test_a_key_that_changes_is_used_by_the_next_request(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(*[text_reply("Hi")] * 3)
    keys = iter(["old", "new", None])
    async with asker(scripted_gateway.url, key=lambda: next(keys)) as asked:
        for _ in range(3):
            await asked.ask()
    sent = [request.headers.get("authorization") for request in scripted_gateway.requests]
    assert sent == ["Bearer old", "Bearer new", None]


# -- the longest answer

LIMITS = ("max_tokens", "max_completion_tokens")
NO_MAX_TOKENS = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
TOO_LARGE = [
    "max_tokens is too large: 32768. This model supports at most 16384 completion tokens, whereas you provided 32768.",
    "'max_tokens' or 'max_completion_tokens' is too large: 32768. This model's maximum context length is 8192 tokens",
    "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
    "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` of this model",
    "max_tokens: 32768 > 8192, which is the maximum allowed number of output tokens for this model",
    "input length and `max_tokens` exceed context limit: 188240 + 32768 > 200000, decrease input length",
    "The maximum tokens you requested exceeds the model limit of 4096. Try again with a lower maximum tokens value.",
    "It has a maxOutputTokens value of 32768 but the supported range is from 1 (inclusive) to 8193 (exclusive).",
    "n_predict: the value must be at most 8192",
    "#/max_gen_len: 32768 is above the largest value, 8192",
    "This model's maximum context length is 8192 tokens. However, you requested 33000 tokens (232 in the messages, "
    "32768 in the completion). Please reduce the length of the messages or completion.",
]


def limits_sent(gateway: ScriptedGateway) -> list[dict[str, int]]:
    return [{name: request.body[name] for name in LIMITS if name in request.body} for request in gateway.requests]


async def test_without_an_allowance_no_limit_is_sent(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(text_reply("Hi"))
    async with asker(scripted_gateway.url) as asked:
        await asked.ask()
    assert limits_sent(scripted_gateway) == [{}]


async def test_the_longest_answer_is_sent_as_max_tokens(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(text_reply("Hi"))
    async with asker(scripted_gateway.url) as asked:
        await asked.ask(max_output=5_000)
    assert limits_sent(scripted_gateway) == [{"max_tokens": 5_000}]


async def test_case_26_max_completion_tokens_is_sent_where_it_is_asked_for(scripted_gateway: ScriptedGateway) -> None:
    refusal = {"error": {"message": NO_MAX_TOKENS, "param": "max_tokens", "code": "unsupported_parameter"}}
    scripted_gateway.queue(error_reply(400, refusal), text_reply("Hi"), text_reply("Hi"))
    async with asker(scripted_gateway.url) as asked:
        await asked.ask(max_output=5_000)
        await asked.ask(max_output=6_000)
    assert limits_sent(scripted_gateway) == [
        {"max_tokens": 5_000},
        {"max_completion_tokens": 5_000},
        {"max_completion_tokens": 6_000},
    ]


async def test_case_26_no_limit_is_sent_where_neither_name_is_understood(scripted_gateway: ScriptedGateway) -> None:
    for name in LIMITS:
        scripted_gateway.queue(error_reply(422, {"detail": f"extra fields not permitted: {name}"}))
    scripted_gateway.queue(text_reply("Hi"), text_reply("Hi"))
    async with asker(scripted_gateway.url) as asked:
        await asked.ask(max_output=5_000)
        await asked.ask(max_output=5_000)
    assert limits_sent(scripted_gateway) == [{"max_tokens": 5_000}, {"max_completion_tokens": 5_000}, {}, {}]


@pytest.mark.parametrize("complaint", TOO_LARGE)
async def test_a_limit_above_the_models_own_is_left_out_and_a_lower_one_is_not(
    scripted_gateway: ScriptedGateway, complaint: str
) -> None:
    scripted_gateway.queue(error_reply(400, {"error": {"message": complaint}}), *[text_reply("Hi")] * 3)
    async with asker(scripted_gateway.url) as asked:
        await asked.ask(max_output=32_768)
        await asked.ask(max_output=32_768)
        await asked.ask(max_output=5_000)
    assert limits_sent(scripted_gateway) == [{"max_tokens": 32_768}, {}, {}, {"max_tokens": 5_000}]


async def test_a_context_that_is_full_without_a_limit_too_is_full(scripted_gateway: ScriptedGateway) -> None:
    full = error_reply(400, {"error": {"code": "context_length_exceeded", "message": "x"}})
    scripted_gateway.queue(full, full)
    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(ContextFull):
            await asked.ask(max_output=5_000)


async def test_case_26_a_refused_limit_leaves_the_plain_try_of_other_forms(scripted_gateway: ScriptedGateway) -> None:
    for complaint in (NO_MAX_TOKENS, "cache_control is not known", TOO_LARGE[0]):
        scripted_gateway.queue(error_reply(400, {"error": {"message": complaint}}))
    scripted_gateway.queue(text_reply("Hi"))
    async with asker(scripted_gateway.url) as asked:
        await asked.ask(MESSAGES, max_output=5_000)
    assert limits_sent(scripted_gateway)[1:] == [{"max_completion_tokens": 5_000}] * 2 + [{}]


async def test_case_26_without_prompt_cache_the_request_is_flat(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(text_reply("Hi"))

    async with asker(scripted_gateway.url, prompt_cache=False) as asked:
        await asked.ask(MESSAGES)

    assert scripted_gateway.requests[0].messages[0]["content"] == "a\nb"


async def test_case_25_a_mistral_model_gets_short_ids_for_call_and_result_alike(
    scripted_gateway: ScriptedGateway,
) -> None:
    scripted_gateway.queue(text_reply("Hi"))

    async with asker(scripted_gateway.url, model="mistralai/mistral-small") as asked:
        await asked.ask(MESSAGES)

    sent = scripted_gateway.requests[0].messages
    assert len(sent[3]["tool_call_id"]) == 9
    assert sent[2]["tool_calls"][0]["id"] == sent[3]["tool_call_id"]


# -- what leaves this machine


async def sent_by(scripted_gateway: ScriptedGateway, *, key: str | None, query: str = "") -> Recorded:
    scripted_gateway.queue(text_reply("Hi"))
    async with asker(scripted_gateway.url + query, key=key) as asked:
        await asked.ask()
    return scripted_gateway.requests[0]


async def test_the_address_is_used_as_it_is_with_its_query(scripted_gateway: ScriptedGateway) -> None:
    request = await sent_by(scripted_gateway, key="k", query="?api-version=2026-01&x=%2F")

    assert (request.method, request.path) == ("POST", "/v1/chat/completions?api-version=2026-01&x=%2F")


async def test_the_body_asks_for_a_stream_with_counts_and_leaves_out_empty_tools(
    scripted_gateway: ScriptedGateway,
) -> None:
    request = await sent_by(scripted_gateway, key="k")

    assert request.body == {
        "model": "m",
        "messages": QUESTION,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize("key", [None, ""])
async def test_without_a_key_there_is_no_authorization(scripted_gateway: ScriptedGateway, key: str | None) -> None:
    assert "authorization" not in (await sent_by(scripted_gateway, key=key)).headers


async def test_nothing_of_the_environment_leaks_into_a_request(
    scripted_gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaks = {
        "OPENAI_API_KEY": "leak",
        "OPENAI_ADMIN_KEY": "leak",
        "OPENAI_ORG_ID": "leak",
        "OPENAI_PROJECT_ID": "leak",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/leak",
        "OPENAI_CUSTOM_HEADERS": "X-Leak: leak\nAuthorization: Bearer leak",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
        "ALL_PROXY": "http://127.0.0.1:9",
    }
    for name, value in leaks.items():
        monkeypatch.setenv(name, value)

    request = await sent_by(scripted_gateway, key="mine")

    assert request.headers["authorization"] == "Bearer mine"
    assert set(request.headers) == {
        "host",
        "connection",
        "content-length",
        "accept",
        "accept-encoding",
        "content-type",
        "user-agent",
        "authorization",
    }


async def test_logs_and_errors_hold_no_key_no_prompt_and_no_upstream_text(
    scripted_gateway: ScriptedGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    scripted_gateway.queue(error_reply(400, {"error": {"message": "upstream-secret said no"}}))

    async with asker(scripted_gateway.url + "?key=address-secret", key="key-secret") as asked:
        with pytest.raises(GatewayFailed) as failed:
            await asked.ask([{"role": "user", "content": "prompt-secret"}])

    told = [str(vars(record)) for record in caplog.records if record.name != "asyncio"]
    assert any("'cause': '400'" in line for line in told)
    assert "secret" not in "\n".join(told)
    assert "secret" not in repr((failed.value, failed.value.__cause__, failed.value.__context__))
