"""What the gateway makes of answers, over HTTP: tool calls and stream shapes (bug cases 1 to 7, 9 to 16, 20 to 22)."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from deckhand.agent.chat import Answer, StepLimits, StepRequest, TextDelta, ToolCall, Usage
from deckhand.agent.stream import looks_like_call
from deckhand.domain.errors import AllowanceUsedUp, ContextFull, GatewayFailed, GatewayUnreadable
from tests.gateway_asking import asker
from tests.scripted_gateway import (
    DONE,
    Gate,
    Reply,
    ScriptedGateway,
    call,
    call_reply,
    delta,
    event,
    json_reply,
    page_reply,
    text_reply,
    usage,
)


async def answer_to(scripted_gateway: ScriptedGateway, *steps: bytes) -> Answer:
    scripted_gateway.queue(Reply(steps))
    async with asker(scripted_gateway.url) as asked:
        return await asked.ask()


async def test_case_1_parallel_calls_at_one_index_stay_two(scripted_gateway: ScriptedGateway) -> None:
    calls = [delta(tool_calls=[call("find_note", {"q": q}, call_id=i)]) for q, i in (("tea", "c1"), ("ink", "c2"))]

    answer = await answer_to(scripted_gateway, *calls, delta("tool_calls"), DONE)

    assert [(c.id, c.arguments) for c in answer.calls] == [("c1", '{"q": "tea"}'), ("c2", '{"q": "ink"}')]


async def test_case_2_continuations_with_empty_identities_keep_the_first(scripted_gateway: ScriptedGateway) -> None:
    answer = await answer_to(
        scripted_gateway,
        delta(tool_calls=[call("add_item", "{")]),
        delta(tool_calls=[{"index": 0, "id": "", "function": {"name": "", "arguments": '"n":2'}}]),
        delta(tool_calls=[{"index": 0, "id": None, "function": {"arguments": "}"}}]),
        delta("tool_calls"),
        DONE,
    )

    assert answer.calls == (ToolCall("c1", "add_item", '{"n":2}'),)


async def test_case_3_identities_sent_again_are_not_doubled(scripted_gateway: ScriptedGateway) -> None:
    pieces = [delta(tool_calls=[call("add_item", piece)]) for piece in ('{"n"', ":2", "}")]

    answer = await answer_to(scripted_gateway, *pieces, delta("tool_calls"), DONE)

    assert answer.calls == (ToolCall("c1", "add_item", '{"n":2}'),)


async def test_case_4_arguments_as_an_object_run_under_an_id_of_ours(scripted_gateway: ScriptedGateway) -> None:
    fragment = {"index": 0, "function": {"name": "set_alarm", "arguments": {"hour": 7}}}

    answer = await answer_to(scripted_gateway, delta(tool_calls=[fragment]), delta("stop"), DONE)

    assert answer.calls == (ToolCall("made1", "set_alarm", '{"hour": 7}'),)


@pytest.mark.parametrize("function", [{"arguments": ""}, {}, {"arguments": " \n"}])
async def test_case_5_no_arguments_are_an_empty_object(
    scripted_gateway: ScriptedGateway, function: dict[str, Any]
) -> None:
    fragment = {"index": 0, "id": "c1", "function": {"name": "list_notes", **function}}

    answer = await answer_to(scripted_gateway, delta(tool_calls=[fragment]), delta("tool_calls"), DONE)

    assert answer.calls == (ToolCall("c1", "list_notes", "{}"),)


async def test_case_6_calls_are_kept_whatever_the_finish_reason_says(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(call_reply(call("add", {"n": 1}), text="Checking. ", finish="stop"))

    async with asker(scripted_gateway.url) as asked:
        answer = await asked.ask()

    assert (answer.text, answer.finish, answer.calls) == ("Checking. ", "stop", (ToolCall("c1", "add", '{"n": 1}'),))


@pytest.mark.parametrize(
    ("arguments", "finish"),
    [
        ('{"path":"a.txt","text":"once upon', "length"),
        ('{"text":"once"}', "length"),
        ('{"path":"a.txt","text":"once upon', "tool_calls"),
    ],
)
async def test_case_7_cut_calls_come_as_they_were_written_with_their_finish_reason(
    scripted_gateway: ScriptedGateway, arguments: str, finish: str
) -> None:
    answer = await answer_to(scripted_gateway, delta(tool_calls=[call("write", arguments)]), delta(finish), DONE)

    assert (answer.calls[0].arguments, answer.finish) == (arguments, finish)


async def test_case_9_a_call_written_as_text_is_text_that_can_be_recognised(
    scripted_gateway: ScriptedGateway,
) -> None:
    pieces = ['<tool_call>{"name":"delete_note","arg', 'uments":{"id":"n1"}}</tool_call>']

    answer = await answer_to(scripted_gateway, *(delta(content=piece) for piece in pieces), delta("stop"), DONE)

    assert answer.calls == ()
    assert looks_like_call(answer.text, ["delete_note"])


async def test_case_10_opaque_fields_come_with_the_call_and_go_back_unchanged(
    scripted_gateway: ScriptedGateway,
) -> None:
    signed = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    scripted_gateway.queue(call_reply({**call("add", {}), **signed}), text_reply("Done."))

    async with asker(scripted_gateway.url) as asked:
        first = await asked.ask()
        made = first.calls[0]
        again = {"id": made.id, "type": "function", "function": {"name": made.name, "arguments": made.arguments}}
        await asked.ask(
            [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": None, "tool_calls": [{**again, **made.extra}]},
                {"role": "tool", "tool_call_id": made.id, "content": "{}"},
            ]
        )

    assert scripted_gateway.requests[1].messages[1]["tool_calls"][0]["extra_content"] == signed["extra_content"]


async def test_case_11_counts_after_the_finish_reason_are_recorded(scripted_gateway: ScriptedGateway) -> None:
    filters = event({"choices": [], "prompt_filter_results": []})

    answer = await answer_to(scripted_gateway, filters, delta(content="Hi"), delta("stop"), usage(5, 2), DONE)

    assert (answer.text, answer.usage, answer.model) == ("Hi", Usage(5, 2), "scripted-1")


BUSY = event({"error": {"message": "upstream busy: secret-upstream-text", "code": 502}})


async def test_case_12_an_error_object_before_any_text_is_tried_again(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(Reply([delta(role="assistant"), BUSY, DONE]), text_reply("Hi"))

    async with asker(scripted_gateway.url) as asked:
        answer = await asked.ask()

    assert (answer.text, asked.pauses.asked) == ("Hi", [0.5])


async def test_case_12_an_error_object_after_text_fails_the_step(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(Reply([delta(content="Hel"), BUSY, DONE]))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(GatewayFailed) as failed:
            await asked.ask()

    assert asked.shown == ["Hel"]
    assert "secret-upstream-text" not in repr(failed.value)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": "context_length_exceeded"}, ContextFull),
        ({"code": "insufficient_quota"}, AllowanceUsedUp),
        ({"code": 401, "message": "bad key"}, GatewayFailed),
    ],
)
async def test_case_12_an_error_object_that_cannot_pass_is_not_tried_again(
    scripted_gateway: ScriptedGateway, error: dict[str, Any], expected: type[Exception]
) -> None:
    scripted_gateway.queue(Reply([event({"error": error})]))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(expected):
            await asked.ask()


async def test_case_13_comments_between_and_before_data_are_skipped(scripted_gateway: ScriptedGateway) -> None:
    busy, ping = b": PROVIDER BUSY\n\n", b": ping\n\n"

    answer = await answer_to(
        scripted_gateway, busy * 3, delta(content="a"), ping, delta(content="b"), ping, delta("stop"), DONE
    )

    assert answer.text == "ab"


CUT = [
    Reply([delta(content="Hel")], framing="close"),
    Reply([delta(content="Hel")]),
    Reply([delta(content="Hel"), delta(content="lo")[:-9]], framing="close"),
    Reply([delta(content="Hel")], end="cut"),
    Reply([delta(content="Hel"), 0.05], end="reset"),
]


@pytest.mark.parametrize("reply", CUT, ids=["closed", "ended", "inside a line", "inside the body", "reset"])
async def test_case_14_a_stream_cut_after_text_fails_and_is_not_replayed(
    scripted_gateway: ScriptedGateway, reply: Reply
) -> None:
    scripted_gateway.queue(reply)

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(GatewayFailed):
            await asked.ask()

    assert asked.shown == ["Hel"]


@pytest.mark.parametrize("end", ["whole", "cut", "reset"])
async def test_case_14_a_stream_cut_before_any_text_is_tried_again(scripted_gateway: ScriptedGateway, end: Any) -> None:
    fragment = delta(tool_calls=[call("add", '{"n"')])
    scripted_gateway.queue(Reply([delta(role="assistant"), fragment], end=end), text_reply("Hi"))

    async with asker(scripted_gateway.url) as asked:
        assert (await asked.ask()).calls == ()

    assert asked.pauses.asked == [0.5]


async def test_case_14_done_ends_the_answer_while_the_socket_stays_open(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(Reply([delta(content="Hi"), delta("stop"), DONE], end="hold"))

    async with asker(scripted_gateway.url) as asked:
        assert (await asked.ask()).text == "Hi"

    assert scripted_gateway.requests[0].wait_closed()


async def test_case_14_a_finish_reason_without_done_ends_the_answer_while_the_socket_stays_open(
    scripted_gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deckhand.agent.gateway.COUNTS_S", 0.05)
    scripted_gateway.queue(Reply([delta(content="Hi"), delta("stop"), usage(5, 2)], end="hold"))

    async with asker(scripted_gateway.url) as asked:
        assert (await asked.ask()).usage == Usage(5, 2)


async def test_case_14_a_cut_after_the_finish_reason_loses_nothing(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(Reply([delta(content="Hi"), delta("stop")], end="cut"))

    async with asker(scripted_gateway.url) as asked:
        assert (await asked.ask()).text == "Hi"


@pytest.mark.parametrize("text", ["té 🍵", "a\u2028b\u2029c\x85d"])
async def test_case_15_characters_split_over_reads_are_whole(scripted_gateway: ScriptedGateway, text: str) -> None:
    stream = delta(content=text) + delta("stop") + DONE

    answer = await answer_to(scripted_gateway, *(bytes([byte]) for byte in stream))

    assert answer.text == text


async def test_case_16_one_json_object_is_handled_like_a_finished_stream(scripted_gateway: ScriptedGateway) -> None:
    message = {"content": "Hm.", "reasoning_content": "r", "tool_calls": [call("add", {"n": 1})]}
    counts = {"prompt_tokens": 3, "completion_tokens": 1}
    scripted_gateway.queue(json_reply(message, finish="tool_calls", counts=counts))

    async with asker(scripted_gateway.url) as asked:
        answer = await asked.ask()

    assert asked.text == answer.text == "Hm."
    assert (answer.calls, answer.usage, answer.reasoning, answer.finish) == (
        (ToolCall("c1", "add", '{"n": 1}'),),
        Usage(3, 1),
        "r",
        "tool_calls",
    )


async def test_case_16_a_page_for_people_is_no_chat_service(
    scripted_gateway: ScriptedGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "deckhand")
    scripted_gateway.queue(page_reply())

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(GatewayUnreadable) as failed:
            await asked.ask()

    assert "secret-page-text" not in str(failed.value)
    assert ["Sign in" in record.head for record in caplog.records if hasattr(record, "head")] == [True]


async def test_case_16_a_page_with_502_is_tried_again(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(page_reply(502), page_reply(502), text_reply("Hi"))

    async with asker(scripted_gateway.url) as asked:
        assert (await asked.ask()).text == "Hi"


@pytest.mark.parametrize("body", [b'{"ok":true}', b"", b"hello there", b'{"object":"list","data":[]}'])
async def test_case_16_a_body_that_is_no_chat_answer_is_unreadable(
    scripted_gateway: ScriptedGateway, body: bytes
) -> None:
    scripted_gateway.queue(Reply([body], headers={"content-type": "application/json"}))

    async with asker(scripted_gateway.url) as asked:
        with pytest.raises(GatewayUnreadable):
            await asked.ask()


async def test_case_16_a_stream_with_the_wrong_content_type_is_read(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(
        Reply([delta(content="Hi"), delta("stop"), DONE], headers={"content-type": "application/json"})
    )

    async with asker(scripted_gateway.url) as asked:
        assert (await asked.ask()).text == "Hi"


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["<thi", "nk>plan: 3 > 2", "</th", "ink>Hello"], ("Hello", "plan: 3 > 2")),
        (["<think>abc"], ("", "abc")),
        (["</think>Hi"], ("Hi", "")),
    ],
)
async def test_case_20_thinking_in_the_content_is_never_shown(
    scripted_gateway: ScriptedGateway, pieces: list[str], expected: tuple[str, str]
) -> None:
    scripted_gateway.queue(Reply([*(delta(content=piece) for piece in pieces), delta("stop"), DONE]))

    async with asker(scripted_gateway.url) as asked:
        answer = await asked.ask()

    assert (asked.text, answer.reasoning) == expected
    assert answer.text == asked.text


async def test_case_21_reasoning_is_kept_for_the_next_request(scripted_gateway: ScriptedGateway) -> None:
    answer = await answer_to(
        scripted_gateway,
        delta(reasoning_content="r1"),
        delta(tool_calls=[call("add", {})]),
        delta("tool_calls"),
        DONE,
    )

    assert (answer.extra, answer.reasoning) == ({"reasoning_content": "r1"}, "r1")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            [{"type": "thinking", "thinking": [{"type": "text", "text": "r"}]}, {"type": "text", "text": "Hi"}],
            ("Hi", "r"),
        ),
        ([{"type": "reference", "reference_ids": ["x"]}], ("", "")),
    ],
)
async def test_case_21_content_may_be_a_list_of_parts(
    scripted_gateway: ScriptedGateway, content: list[Any], expected: tuple[str, str]
) -> None:
    answer = await answer_to(scripted_gateway, delta(content=content), delta("stop"), DONE)

    assert (answer.text, answer.reasoning) == expected


async def test_case_22_a_filtered_answer_comes_with_its_finish_reason(scripted_gateway: ScriptedGateway) -> None:
    answer = await answer_to(scripted_gateway, delta(content="Once "), delta("content_filter"), DONE)

    assert (answer.text, answer.finish) == ("Once ", "content_filter")


async def test_text_is_shown_while_the_model_still_writes(scripted_gateway: ScriptedGateway) -> None:
    gate = Gate()
    scripted_gateway.queue(Reply([delta(content="Hi"), gate, delta("stop"), DONE]))

    async with asker(scripted_gateway.url) as asked:
        items = asked.gateway.stream(StepRequest([{"role": "user", "content": "hi"}], [], StepLimits(idle=10)))
        first = await anext(items)
        assert not scripted_gateway.requests[0].closed.is_set()
        gate.open()
        rest = [item async for item in items]

    assert first == TextDelta("Hi")
    assert [type(item) for item in rest] == [Answer]


async def next_of(items: AsyncIterator[TextDelta | Answer]) -> TextDelta | Answer | None:
    return await anext(items, None)


async def test_each_item_may_be_asked_for_by_a_task_of_its_own(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(text_reply("Hello", pieces=5))

    async with asker(scripted_gateway.url) as asked:
        items = asked.gateway.stream(StepRequest([{"role": "user", "content": "hi"}], []))
        got = [await asyncio.create_task(next_of(items)) for _ in range(7)]

    assert [item.text for item in got if isinstance(item, TextDelta)] == list("Hello")
    assert got[-1] is None
