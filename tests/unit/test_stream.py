"""The assembly of an answer from bytes: the same however they are split, tolerant as the bug cases say."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deckhand.agent.chat import Answer, ToolCall, Usage
from deckhand.agent.refusals import TryFailed
from deckhand.agent.stream import AnswerStream
from deckhand.domain.errors import GatewayFailed, GatewayUnreadable
from tests.scripted_gateway import DONE, call, delta, event, usage


def assembled(pieces: list[bytes], *, event_stream: bool = True) -> tuple[str, Answer]:
    """The visible text as it was streamed, and the answer."""
    numbers = itertools.count(1)
    stream = AnswerStream(new_id=lambda: f"made{next(numbers)}", event_stream=event_stream)
    shown = [text.text for piece in pieces for text in stream.feed(piece)]
    shown += [text.text for text in stream.end()]
    return "".join(shown), stream.answer()


def answer_of(*events: bytes) -> Answer:
    return assembled(list(events))[1]


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(places)]


def outcome(pieces: list[bytes]) -> Any:
    try:
        return assembled(pieces)
    except TryFailed as failed:
        return type(failed.refusal.error), failed.refusal.again


# -- properties

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["<think>", "</think>", "<thi", "nk>", "\n", "  ", "```", "\n```\n", "<thought>", "\u2028", "\x85", "🍵", "\r"]
)
CUTS = st.lists(st.integers(min_value=0, max_value=10_000), max_size=30)
LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """A stream of texts, thinking, calls and comments, with its end or without it."""
    parts: list[bytes] = []
    for text in draw(st.lists(TEXTS, max_size=12)):
        name = draw(st.sampled_from(["content", "content", "content", "reasoning_content"]))
        parts.append(delta(**{name: text}))
        if draw(st.booleans()):
            parts.append(b": ping\n\n")
    for number in range(draw(st.integers(0, 2))):
        arguments = json.dumps({"text": draw(TEXTS)}, ensure_ascii=False)
        parts.append(delta(tool_calls=[call("add", arguments[:5], call_id=f"c{number}", index=number)]))
        parts.append(delta(tool_calls=[{"index": number, "function": {"arguments": arguments[5:]}}]))
    parts += draw(st.sampled_from([[delta("stop"), usage(), DONE], [delta("stop")], [DONE], []]))
    stream = b"".join(parts).replace(b"\n", draw(LINE_ENDS))
    return stream[: len(stream) - draw(st.sampled_from([0, 0, 0, 1, 9]))]


@settings(max_examples=200)
@given(streams(), CUTS)
def test_any_split_of_the_bytes_gives_the_same_answer_and_the_same_visible_text(stream: bytes, cuts: list[int]) -> None:
    assert outcome(split(stream, cuts)) == outcome([stream])


@settings(max_examples=30)
@given(streams())
def test_single_bytes_give_the_same_answer_as_the_whole(stream: bytes) -> None:
    assert outcome([bytes([byte]) for byte in stream]) == outcome([stream])


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="<`~"), max_size=6), max_size=8))
def test_text_without_tags_comes_through_unchanged(texts: list[str]) -> None:
    shown, answer = assembled([*(delta(content=text) for text in texts), delta("stop"), DONE])

    assert shown == answer.text == "".join(texts)


@given(TEXTS.filter(lambda text: "<" not in text), CUTS)
def test_thinking_in_tags_is_never_visible_however_it_is_split(thought: str, cuts: list[int]) -> None:
    content = f"<think>{thought}</think>Hello"
    places = [0, *sorted({cut % len(content) for cut in cuts}), len(content)]
    pieces = [delta(content=content[a:b]) for a, b in itertools.pairwise(places)]

    shown, answer = assembled([*pieces, delta("stop"), DONE])

    assert (shown, answer.text, answer.reasoning) == ("Hello", "Hello", thought)


@given(st.binary(max_size=200), CUTS)
def test_rubbish_is_a_failure_of_the_gateway_and_nothing_else(rubbish: bytes, cuts: list[int]) -> None:
    with pytest.raises(TryFailed):
        assembled(split(rubbish, cuts), event_stream=False)


# -- tool calls


def test_case_1_parallel_calls_at_one_index_are_told_apart_by_their_ids() -> None:
    answer = answer_of(
        delta(tool_calls=[call("find_note", {"q": "tea"}, call_id="c1")]),
        delta(tool_calls=[call("find_note", {"q": "ink"}, call_id="c2")]),
        delta("tool_calls"),
    )

    assert [(c.id, json.loads(c.arguments)) for c in answer.calls] == [("c1", {"q": "tea"}), ("c2", {"q": "ink"})]


def test_case_1_calls_without_arguments_at_one_index_are_told_apart_by_their_ids() -> None:
    calls = [call("list_notes", "", call_id=call_id) for call_id in ("c1", "c2")]

    answer = answer_of(*(delta(tool_calls=[one]) for one in calls), delta("tool_calls"))

    assert [c.id for c in answer.calls] == ["c1", "c2"]


def test_case_2_empty_and_null_identities_mean_absent() -> None:
    answer = answer_of(
        delta(tool_calls=[call("add_item", "{")]),
        delta(tool_calls=[{"index": 0, "id": "", "function": {"name": "", "arguments": '"n":2'}}]),
        delta(tool_calls=[{"index": 0, "id": None, "function": {"name": None, "arguments": "}"}}]),
        delta("tool_calls"),
    )

    assert answer.calls == (ToolCall("c1", "add_item", '{"n":2}'),)


def test_case_3_repeated_identities_are_not_appended() -> None:
    pieces = [delta(tool_calls=[call("add_item", piece)]) for piece in ('{"n"', ":2", "}")]

    assert answer_of(*pieces, delta("tool_calls")).calls == (ToolCall("c1", "add_item", '{"n":2}'),)


def test_case_3_a_name_sent_again_before_any_arguments_is_not_appended() -> None:
    pieces = [delta(tool_calls=[call("add_item", piece)]) for piece in ("", "", "{}")]

    assert answer_of(*pieces, delta("tool_calls")).calls == (ToolCall("c1", "add_item", "{}"),)


def test_case_4_arguments_as_an_object_without_an_id_become_a_text_and_get_an_id() -> None:
    fragment = {"index": 0, "function": {"name": "set_alarm", "arguments": {"hour": 7}}}

    assert answer_of(delta(tool_calls=[fragment]), delta("stop")).calls == (
        ToolCall("made1", "set_alarm", '{"hour": 7}'),
    )


@pytest.mark.parametrize("function", [{"arguments": ""}, {}, {"arguments": " \n"}, {"arguments": "null"}])
def test_case_5_no_arguments_are_an_empty_object(function: dict[str, Any]) -> None:
    fragment = {"index": 0, "id": "c1", "function": {"name": "list_notes", **function}}

    answer = answer_of(delta(tool_calls=[fragment]), delta("tool_calls"))

    assert answer.calls == (ToolCall("c1", "list_notes", "{}"),)


def test_case_10_opaque_fields_of_a_call_are_kept() -> None:
    signed = {"google": {"thought_signature": "c2ln"}}
    pieces = [delta(tool_calls=[{**call("add_item", "{}"), "extra_content": signed}]), delta("tool_calls")]

    assert answer_of(*pieces).calls[0].extra == {"extra_content": signed}


def test_interleaved_fragments_reach_their_calls_by_index() -> None:
    answer = answer_of(
        delta(tool_calls=[call("a", '{"x"', call_id="c1", index=0), call("b", '{"y"', call_id="c2", index=1)]),
        delta(tool_calls=[{"index": 1, "function": {"arguments": ":2}"}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": ":1}"}}]),
        delta("tool_calls"),
    )

    assert [c.arguments for c in answer.calls] == ['{"x":1}', '{"y":2}']


def test_calls_without_index_and_id_are_told_apart_by_their_whole_arguments() -> None:
    fragments = [{"function": {"name": "add", "arguments": {"n": n}}} for n in (1, 2)]

    answer = answer_of(delta(tool_calls=fragments), delta("stop"))

    assert answer.calls == (ToolCall("made1", "add", '{"n": 1}'), ToolCall("made2", "add", '{"n": 2}'))


def test_fragments_without_an_index_continue_the_last_call() -> None:
    pieces = [{"id": "c1", "function": {"name": "add", "arguments": '{"n"'}}, {"function": {"arguments": ":1}"}}]

    answer = answer_of(*(delta(tool_calls=[piece]) for piece in pieces), delta("stop"))

    assert answer.calls == (ToolCall("c1", "add", '{"n":1}'),)


def test_a_new_id_with_mere_text_of_arguments_goes_on_with_the_open_call() -> None:
    pieces = [call("add", "", call_id="r1"), {"index": 0, "id": "r2", "function": {"arguments": '{"n":1}'}}]

    answer = answer_of(*(delta(tool_calls=[piece]) for piece in pieces), delta("tool_calls"))

    assert answer.calls == (ToolCall("r1", "add", '{"n":1}'),)


def test_a_name_in_pieces_is_joined() -> None:
    pieces = [call("add_", ""), {"index": 0, "function": {"name": "item", "arguments": "{}"}}]

    assert answer_of(*(delta(tool_calls=[piece]) for piece in pieces), delta("stop")).calls[0].name == "add_item"


def test_arguments_that_come_a_second_time_whole_are_not_doubled() -> None:
    answer = answer_of(*[delta(tool_calls=[call("add", '{"n":1}')])] * 2, delta("tool_calls"))

    assert answer.calls == (ToolCall("c1", "add", '{"n":1}'),)


def test_an_id_used_for_two_calls_stays_with_the_first() -> None:
    calls = [call("add", "{}", call_id="same", index=n) for n in (0, 1)]

    assert [c.id for c in answer_of(delta(tool_calls=calls), delta("stop")).calls] == ["same", "made1"]


def test_a_legacy_function_call_is_a_call() -> None:
    answer = answer_of(
        delta(function_call={"name": "add", "arguments": '{"n"'}),
        delta(function_call={"arguments": ":1}"}),
        delta("function_call"),
    )

    assert answer.calls == (ToolCall("made1", "add", '{"n":1}'),)


# -- stream shapes


def test_case_11_a_chunk_without_choices_is_no_error_and_counts_after_the_finish_reason_are_read() -> None:
    filters = event({"choices": [], "prompt_filter_results": []})

    answer = answer_of(filters, delta(content="Hi"), delta("stop"), usage(5, 2), DONE)

    assert (answer.text, answer.usage) == ("Hi", Usage(5, 2))


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"message": "upstream busy", "code": 502}},
        {"error": "upstream busy"},
        {"choices": [{"delta": {}, "finish_reason": "error"}]},
        {"type": "error", "message": "upstream busy"},
    ],
)
def test_case_12_an_error_object_in_the_stream_is_a_failure(error: dict[str, Any]) -> None:
    with pytest.raises(TryFailed) as failed:
        assembled([delta(role="assistant"), event(error), DONE])

    assert isinstance(failed.value.refusal.error, GatewayFailed)
    assert failed.value.refusal.again


def test_an_error_that_is_null_is_none() -> None:
    assert answer_of(event({"error": None, "choices": [{"delta": {"content": "Hi"}}]}), DONE).text == "Hi"


def test_case_13_comments_are_skipped() -> None:
    busy, ping = b": PROVIDER BUSY\n\n", b": ping\n"

    assert answer_of(busy * 3, delta(content="a"), ping, delta(content="b"), ping, delta("stop"), DONE).text == "ab"


def test_case_14_a_stream_without_finish_reason_and_done_is_cut() -> None:
    with pytest.raises(TryFailed) as failed:
        assembled([delta(content="Hi")])

    assert failed.value.refusal.again


def test_case_14_a_stream_that_ends_inside_a_data_line_is_cut() -> None:
    with pytest.raises(TryFailed):
        assembled([delta(content="Hi"), delta("stop")[:-20]])


def test_case_14_a_clean_end_after_the_finish_reason_is_whole() -> None:
    assert answer_of(delta(content="Hi"), delta("stop")).text == "Hi"


@pytest.mark.parametrize("word", ["length", "max_tokens", "MAX_TOKENS", "model_length"])
def test_case_7_an_answer_cut_by_length_is_known_by_any_word_for_it(word: str) -> None:
    assert answer_of(delta(content="Hi"), delta(word)).finish == "length"


def test_case_14_done_without_anything_said_is_cut() -> None:
    with pytest.raises(TryFailed):
        assembled([delta(role="assistant", content=""), DONE])


def test_what_comes_after_done_is_ignored() -> None:
    assert answer_of(delta(content="Hi"), delta("stop"), DONE + delta(content="!"), delta(content="!")).text == "Hi"


@pytest.mark.parametrize("text", ["té 🍵", "a\u2028b\u2029c\x85d"])
def test_case_15_only_lf_cr_and_crlf_end_a_line(text: str) -> None:
    stream = delta(content=text) + delta("stop")

    assert assembled([bytes([byte]) for byte in stream])[0] == text


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_case_15_each_kind_of_line_end_is_one_even_when_it_is_split(end: bytes) -> None:
    lines = [b'data: {"choices": [', b'data: {"delta": {"content": "Hi"}}', b"data: ]}", b"", b"data: [DONE]", b""]

    assert assembled([bytes([byte]) for byte in end.join(lines)])[0] == "Hi"


def test_case_15_a_character_written_as_two_escapes_in_two_chunks_is_whole() -> None:
    halves = [b'data: {"choices":[{"delta":{"content":"\\u%b"}}]}\n\n' % half for half in (b"d83c", b"df75")]

    shown, answer = assembled([*halves, delta("stop"), DONE])

    assert shown == answer.text == "\U0001f375"


def test_case_15_half_a_character_is_replaced() -> None:
    half = b'data: {"choices":[{"delta":{"content":"a\\ud83c"}}]}\n\n'

    assert assembled([half, delta("stop"), DONE])[0] == "a\ufffd"


def test_case_16_one_json_object_is_a_whole_answer() -> None:
    message = {"content": "Hm.", "reasoning_content": "r", "tool_calls": [call("add", {"n": 1})]}
    body = {
        "model": "m-1",
        "choices": [{"message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 0},
    }

    shown, answer = assembled([json.dumps(body).encode()], event_stream=False)

    assert shown == "Hm."
    assert answer == Answer(
        "Hm.",
        "r",
        (ToolCall("c1", "add", '{"n": 1}'),),
        "tool_calls",
        Usage(3, 0),
        "m-1",
        {"reasoning_content": "r"},
    )


@pytest.mark.parametrize("body", [b"", b"hello", b'{"ok":true}', b"[1]", b'{"choices":[]}', b"<html>x</html>", b"{"])
def test_case_16_what_is_no_chat_answer_is_unreadable(body: bytes) -> None:
    with pytest.raises(TryFailed) as failed:
        assembled([body], event_stream=False)

    assert isinstance(failed.value.refusal.error, GatewayUnreadable)


def test_data_lines_without_blank_lines_between_them_are_read() -> None:
    stream = (delta(content="Hi") + delta("stop") + DONE).replace(b"\n\n", b"\n")

    assert assembled([stream])[0] == "Hi"


def test_one_object_over_several_data_lines_is_read() -> None:
    assert answer_of(b'data: {"choices": [\ndata: {"delta": {"content": "Hi"}}\ndata: ]}\n\n', DONE).text == "Hi"


def test_a_message_that_repeats_what_was_streamed_is_not_shown_again() -> None:
    repeated = event({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})

    assert answer_of(delta(content="Hi"), repeated, DONE).text == "Hi"


# -- thinking


def test_case_20_thinking_whose_tags_are_split_is_not_visible() -> None:
    pieces = [delta(content=piece) for piece in ("<thi", "nk>plan: 3 > 2", "</th", "ink>Hello")]

    shown, answer = assembled([*pieces, delta("stop"), DONE])

    assert (shown, answer.text, answer.reasoning) == ("Hello", "Hello", "plan: 3 > 2")


def test_case_20_thinking_that_never_ends_shows_nothing() -> None:
    shown, answer = assembled([delta(content="<think>abc"), delta("stop"), DONE])

    assert (shown, answer.text, answer.reasoning) == ("", "", "abc")


def test_case_20_a_bare_closing_tag_at_the_beginning_is_dropped() -> None:
    shown, answer = assembled([delta(reasoning_content="r"), delta(content="</think>Hi"), delta("stop"), DONE])

    assert (shown, answer.text, answer.reasoning) == ("Hi", "Hi", "r")


def test_case_20_text_before_a_bare_closing_tag_is_thinking_in_the_stored_answer() -> None:
    answer = answer_of(delta(content="plan\n</think>\n\nHi"), delta("stop"), DONE)

    assert (answer.text, answer.reasoning) == ("Hi", "plan\n")


def test_case_20_a_second_block_at_the_beginning_of_a_line_is_thinking_too() -> None:
    answer = answer_of(delta(content="<think>a</think>\n\nOne\n<think>b</think>\ntwo"), delta("stop"), DONE)

    assert (answer.text, answer.reasoning) == ("One\ntwo", "ab")


@pytest.mark.parametrize("text", ["Use `<think>` here.", "```\n<think>\n</think>\n```\nso", "1 <think> 2", "<thinker>"])
def test_case_20_text_that_speaks_of_the_tags_is_left_alone(text: str) -> None:
    assert assembled([delta(content=text), delta("stop"), DONE])[0] == text


def test_case_21_reasoning_is_kept_to_go_back_beside_the_calls() -> None:
    answer = answer_of(
        delta(reasoning_content="r"),
        delta(reasoning_content="1"),
        delta(tool_calls=[call("add", {})]),
        delta("tool_calls"),
    )

    assert (answer.reasoning, answer.extra) == ("r1", {"reasoning_content": "r1"})


def test_case_21_reasoning_details_are_put_together_by_their_index() -> None:
    details = [
        {"type": "reasoning.text", "index": 0, "text": "a", "signature": None},
        {"type": "reasoning.text", "index": 0, "text": "b", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "x"},
    ]

    answer = answer_of(*(delta(reasoning="t", reasoning_details=[one]) for one in details), delta("stop"))

    assert answer.reasoning == "ttt"
    assert answer.extra["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "x"},
    ]


def test_case_21_content_as_a_list_of_thinking_and_text_parts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "r"}]}

    shown, answer = assembled([delta(content=[thinking, {"type": "text", "text": "Hi"}]), delta("stop")])

    assert (shown, answer.reasoning) == ("Hi", "r")


def test_case_21_reference_parts_are_ignored() -> None:
    assert answer_of(delta(content=[{"type": "reference", "reference_ids": ["x"]}]), delta("stop")).text == ""


def test_a_refusal_is_shown() -> None:
    assert answer_of(delta(refusal="I cannot."), delta("stop")).text == "I cannot."


# -- counts


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
            Usage(9, 2, 4, 0),
        ),
        (
            {"input_tokens": 9, "output_tokens": 2, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 3},
            Usage(9, 2, 4, 3),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 5}, Usage(9, 2, 5, 0)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage()),
        ({"prompt_tokens": None}, None),
        ({}, None),
        (None, None),
        ("many", None),
    ],
)
def test_counts_are_read_in_each_layout_and_none_is_not_zero(reported: Any, expected: Usage | None) -> None:
    answer = answer_of(delta(content="Hi"), delta("stop"), event({"choices": [], "usage": reported}), DONE)

    assert answer.usage == expected


def test_a_null_usage_after_the_counts_does_not_wipe_them() -> None:
    answer = answer_of(delta("stop"), usage(5, 2), event({"choices": [], "usage": None}), DONE)

    assert answer.usage == Usage(5, 2)
