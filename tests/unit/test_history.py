"""What is sent to the model: window, replayed exchanges, and a form that every server takes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.agent.history import exchange_messages, joined, marked, sendable_arguments, transcript
from deckhand.agent.window import newest_that_fit, replayed
from deckhand.agent.wording import UNKNOWN_OUTCOME
from deckhand.domain.conversation import Call, Exchange, Message, Role
from tests.fakes import marks, unmarked


def message(seq: int, content: str = "", role: Role = "user", context: str | None = None) -> Message:
    text = content or f"text {seq}"
    return Message(seq=seq, id=f"m{seq}", role=role, content=text, created_at="2026-01-01", context=context)


def exchange(anchor: int, step: int = 1, turn: str = "t", calls: tuple[Call, ...] = (), text: str = "") -> Exchange:
    made = calls or (Call(id=f"c{anchor}", name="find_note", arguments="{}", result='{"n":1}'),)
    return Exchange(anchor=anchor, turn_id=turn, step=step, calls=list(made), text=text)


def shape(messages: list[dict[str, Any]]) -> list[str]:
    return [f"{m['role']}:{m.get('tool_call_id') or m['content']}" for m in messages]


def test_an_exchange_stands_just_before_the_first_message_that_is_newer_than_its_anchor() -> None:
    messages = [message(1), message(2, role="assistant"), message(3)]
    assert shape(transcript(messages, [exchange(3), exchange(1)])) == [
        "user:text 1",
        "assistant:None",
        "tool:c1",
        "assistant:text 2",
        "user:text 3",
        "assistant:None",
        "tool:c3",
    ]


def test_exchanges_of_one_anchor_keep_the_order_of_their_steps() -> None:
    steps = [exchange(1, step=n, calls=(Call(id=f"s{n}", name="a", arguments="{}", result="1"),)) for n in (10, 2, 1)]
    found = transcript([message(1)], steps)
    assert [m["tool_call_id"] for m in found if m["role"] == "tool"] == ["s1", "s2", "s10"]


def test_neighbours_of_one_role_are_joined_by_a_blank_line() -> None:
    messages = [message(1), message(2), message(3, role="assistant"), message(4, role="assistant"), message(5)]
    assert shape(transcript(messages, [])) == ["user:text 1\n\ntext 2", "assistant:text 3\n\ntext 4", "user:text 5"]


def test_where_the_person_was_goes_into_their_message() -> None:
    assert shape(transcript([message(1, context="route: /cards")], [])) == ["user:text 1\n\n[route: /cards]"]


def test_case_23_a_call_without_a_result_gets_one_that_says_so() -> None:
    calls = (
        Call(id="c1", name="write_note", arguments="{}", result='{"ok":true}'),
        Call(id="c2", name="write_note", arguments="{}"),
    )
    sent = transcript([message(1), message(2, "hi")], [exchange(1, calls=calls)])
    assert shape(sent) == ["user:text 1", "assistant:None", "tool:c1", "tool:c2", "user:hi"]
    assert sent[3]["content"] == UNKNOWN_OUTCOME


@pytest.mark.parametrize(
    "raw",
    [
        '{"cmd":"ls',
        "",
        "null",
        "[1]",
        '"text"',
        "1",
        '{"a":NaN}',
        '{"a":[-Infinity]}',
        pytest.param('{"a":' * 50_000, id="deep"),
        pytest.param('{"a":' * 50_000 + "1" + "}" * 50_000, id="deep and whole"),
        pytest.param('{"a":' + "9" * 5_000 + "}", id="many digits"),
    ],
)
def test_case_24_arguments_that_are_no_json_object_are_sent_as_an_empty_one(raw: str) -> None:
    assert sendable_arguments(raw) == "{}"


@given(st.text() | st.dictionaries(st.text(), st.integers() | st.text()).map(json.dumps))
def test_case_24_what_is_sent_is_always_a_json_object(raw: str) -> None:
    assert isinstance(json.loads(sendable_arguments(raw)), dict)


def test_arguments_that_are_an_object_are_sent_as_they_were_written() -> None:
    assert sendable_arguments(' {"b":1, "a":1.0}') == ' {"b":1, "a":1.0}'


def test_case_25_b_ids_that_come_again_in_every_step_keep_their_own_results() -> None:
    first = exchange(1, 1, calls=(Call(id="search:0", name="find", arguments="{}", result="one"),))
    second = exchange(1, 2, calls=(Call(id="search:0", name="find", arguments="{}", result="two"),))
    sent = transcript([message(1)], [first, second])
    assert [m["content"] for m in sent if m["role"] == "tool"] == ["one", "two"]


def test_opaque_fields_survive_a_reload_from_the_store() -> None:
    signature = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    stored = Exchange(
        anchor=1,
        turn_id="t",
        step=1,
        calls=[Call(id="c1", name="find", arguments="{}", extra=signature, result="1")],
        extra={"reasoning_details": [{"type": "x", "data": None}]},
    )
    sent = exchange_messages(Exchange.model_validate_json(stored.to_json()))
    assert sent[0]["tool_calls"][0]["extra_content"] == signature["extra_content"]
    assert sent[0]["reasoning_details"] == [{"type": "x", "data": None}]


# -- window


def test_the_newest_messages_that_fit_are_sent() -> None:
    messages = [message(n, "x" * 10) for n in range(1, 6)]
    assert [m.seq for m in newest_that_fit(reversed(messages), 30)] == [3, 4, 5]


def test_the_newest_message_is_sent_whole_even_when_it_does_not_fit() -> None:
    assert newest_that_fit([message(2, "x" * 100), message(1, "x")], 10) == [message(2, "x" * 100)]


def test_a_message_that_does_not_fit_hides_the_older_ones_behind_it() -> None:
    assert [m.seq for m in newest_that_fit([message(3, "x"), message(2, "x" * 100), message(1, "x")], 10)] == [3]


@given(st.lists(st.integers(0, 30), min_size=1), st.integers(1, 100))
def test_a_window_is_never_larger_than_its_budget_unless_it_is_one_message(sizes: list[int], budget: int) -> None:
    messages = [message(n, "x" * size or " ") for n, size in enumerate(sizes)]
    chosen = newest_that_fit(reversed(messages), budget)
    assert chosen == messages[-len(chosen) :]
    assert len(chosen) == 1 or sum(len(m.content) for m in chosen) <= budget


def test_the_last_three_turns_that_called_a_tool_are_replayed_whole() -> None:
    every = [exchange(anchor, step, f"t{anchor}") for anchor in (1, 3, 7, 9) for step in (1, 2)]
    assert replayed(reversed(every)) == every[2:]


# -- cache marks


def request(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    blocks = [{"type": "text", "text": "a", "cache_control": {}}, {"type": "text", "text": "b", "cache_control": {}}]
    return [{"role": "system", "content": blocks}, *marked(messages)]


def test_case_27_a_request_has_at_most_four_marks_whatever_was_called() -> None:
    calls = tuple(Call(id=f"c{n}", name="find", arguments="{}", result=str(n)) for n in (1, 2, 3))
    messages = transcript([message(n) for n in range(1, 13)], [exchange(12, calls=calls)])
    assert marks(request(messages)) == 3


def test_case_27_a_mark_is_set_on_a_block_of_the_newest_text_of_a_person_or_a_tool() -> None:
    sent = marked([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}])
    assert sent[0]["content"] == [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]
    assert sent[1] == {"role": "assistant", "content": "ho"}


def test_case_27_an_empty_result_carries_no_mark() -> None:
    sent = marked([{"role": "user", "content": "hi"}, {"role": "tool", "tool_call_id": "c1", "content": ""}])
    assert marks(sent[:1]) == 1
    assert sent[1]["content"] == ""


def test_case_27_the_next_request_begins_with_the_bytes_of_this_one() -> None:
    calls = tuple(Call(id=f"c{n}", name="find", arguments="{}", result=str(n)) for n in (1, 2, 3))
    before = transcript([message(n) for n in range(1, 13)], [])
    after = [*before, *exchange_messages(exchange(12, calls=calls))]
    sent, following = request(before), request(after)
    assert [unmarked(m) for m in following][: len(sent)] == [unmarked(m) for m in sent]
    assert marks(following) == marks(sent)


def test_marking_leaves_the_messages_alone() -> None:
    messages = [{"role": "user", "content": "hi"}]
    marked(messages)
    assert messages == [{"role": "user", "content": "hi"}]


def test_assistant_messages_with_calls_are_never_joined() -> None:
    assert len(joined([*exchange_messages(exchange(1)), {"role": "assistant", "content": "ok"}])) == 3
