"""The pure parts around a call of the model: refusals, `Retry-After`, dialects, and calls written as text."""

import json
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.agent.chat import Filtered
from deckhand.agent.dialect import Dialect, plainer, safe_id, spoken
from deckhand.agent.refusals import refusal_of
from deckhand.agent.retry_after import retry_after
from deckhand.agent.stream import looks_like_call
from deckhand.domain.errors import AllowanceUsedUp, ContextFull, GatewayFailed, GatewayUnreadable

NOW = 1_792_567_670.0  # ten seconds before the date of bug case 17


# -- Retry-After


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2", 2.0),
        ("0.5", 0.5),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 10.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ("soon", None),
        ("-3", None),
        ("inf", None),
        ("nan", None),
        ("1e9", None),
        ("86400", 86400.0),
        ("", None),
        ("Wed, 99 Oct 2026 07:28:00 GMT", None),
    ],
)
def test_case_17_seconds_and_dates_are_read_and_anything_else_is_not(value: str, expected: float | None) -> None:
    assert retry_after({"retry-after": value}, now=NOW) == expected


def test_case_17_milliseconds_come_first() -> None:
    assert retry_after({"retry-after-ms": "350", "retry-after": "7"}, now=NOW) == 0.35


def test_case_17_bad_milliseconds_fall_back_to_seconds() -> None:
    assert retry_after({"retry-after-ms": "nan", "retry-after": "7"}, now=NOW) == 7.0


@given(st.text())
def test_case_17_no_header_value_is_an_error(value: str) -> None:
    wait = retry_after({"retry-after": value, "retry-after-ms": value}, now=NOW)

    assert wait is None or wait >= 0


@given(st.integers(min_value=1, max_value=10_000_000))
def test_case_17_a_date_ahead_is_the_seconds_until_it(seconds: int) -> None:
    assert retry_after({"retry-after": formatdate(NOW + seconds, usegmt=True)}, now=NOW) == seconds


# -- refusals

CONTEXT_FULL: list[tuple[int, Any]] = [
    (400, {"error": {"code": "context_length_exceeded", "message": "x"}}),
    (400, {"error": {"message": "This model's maximum context length is 8192 tokens", "code": 400}}),
    (400, {"error": {"type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 8192}}),
    (400, {"message": "Input length 9000 exceeds the maximum allowed input length of 8192 tokens", "code": "400"}),
    (400, {"error": {"message": "Prompt contains 9000 tokens, too large for model"}}),
    (400, {"error": {"message": "prompt is too long: 9000 tokens > 8192 maximum"}}),
    (413, "Payload Too Large"),
]


@pytest.mark.parametrize(("status", "body"), CONTEXT_FULL)
def test_case_18_a_full_context_is_known_by_any_of_its_wordings(status: int, body: Any) -> None:
    assert isinstance(refusal_of(status, json.dumps(body).encode()).error, ContextFull)


@pytest.mark.parametrize("message", ["tool schema is too long", "title must not be too long", "bad request"])
def test_case_18_another_refusal_is_a_failure_that_is_not_asked_again(message: str) -> None:
    refusal = refusal_of(400, json.dumps({"error": {"message": message}}).encode())

    assert isinstance(refusal.error, GatewayFailed)
    assert not refusal.again


@pytest.mark.parametrize(
    "text",
    [
        "Budget has been exceeded! Current cost: 5",
        "ExceededBudget: team over budget",
        "exceeded budget",
        '{"error":{"code":"insufficient_quota"}}',
        "Quota exceeded for this month",
    ],
)
def test_a_429_that_marks_a_used_up_allowance_is_told_apart(text: str) -> None:
    assert isinstance(refusal_of(429, text.encode()).error, AllowanceUsedUp)


def test_a_429_without_a_mark_may_be_asked_again() -> None:
    refusal = refusal_of(429, b'{"error":{"message":"Rate limit reached for requests","code":"rate_limit_exceeded"}}')

    assert isinstance(refusal.error, GatewayFailed)
    assert refusal.again


@pytest.mark.parametrize("status", [401, 402, 403, 404, 408, 409, 418])
def test_other_4xx_fail_at_once(status: int) -> None:
    refusal = refusal_of(status, b'{"error":"no"}')

    assert (type(refusal.error), refusal.again) == (GatewayFailed, False)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 529])
def test_5xx_may_be_asked_again(status: int) -> None:
    refusal = refusal_of(status, b'{"error":"busy"}')

    assert (type(refusal.error), refusal.again) == (GatewayFailed, True)


def test_a_redirect_is_no_chat_service() -> None:
    assert isinstance(refusal_of(302, b"").error, GatewayUnreadable)


def test_case_22_a_filter_that_refuses_the_request_is_told_apart() -> None:
    body = {"error": {"code": "content_filter", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}

    refusal = refusal_of(400, json.dumps(body).encode())

    assert isinstance(refusal.error, Filtered)
    assert not refusal.again


# -- dialects

MARKED = {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}
CALLING = {
    "role": "assistant",
    "content": None,
    "reasoning_content": "r",
    "tool_calls": [
        {
            "id": "call_PTLP8xhu3u",
            "type": "function",
            "function": {"name": "add", "arguments": "{}"},
            "extra_content": 1,
        }
    ],
}
BODY: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "stream_options": {"include_usage": True},
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "a"}, MARKED]},
        CALLING,
        {"role": "tool", "tool_call_id": "call_PTLP8xhu3u", "content": [{"type": "text", "text": "done"}]},
    ],
}
RICH = Dialect.of("m", prompt_cache=True)


@pytest.mark.parametrize(
    ("complaint", "changed"),
    [
        ("unknown field: cache_control", {"blocks": False}),
        ("messages.0.content: input should be a valid string", {"blocks": False, "no_content": "empty"}),
        ("invalid type: sequence, expected a string for content", {"blocks": False, "no_content": "empty"}),
        ("unrecognized request argument supplied: stream_options", {"stream_options": False}),
        ("property 'reasoning_content' is unsupported", {"extras": False}),
        ("extra_content: extra inputs are not permitted", {"extras": False}),
        ("tool schema is too long", {}),
        ("invalid model", {}),
    ],
)
def test_case_26_the_plainer_dialect_leaves_out_what_the_complaint_is_about(
    complaint: str, changed: dict[str, Any]
) -> None:
    assert plainer(RICH, BODY, complaint) == replace(RICH, **changed)


def test_case_26_the_flat_dialect_has_plain_strings_and_no_marks() -> None:
    said = spoken(BODY, Dialect.of("m", prompt_cache=False))

    assert [message["content"] for message in said["messages"]] == ["a\nb", None, "done"]


@pytest.mark.parametrize(
    ("form", "expected"), [("null", {"content": None}), ("empty", {"content": ""}), ("absent", {})]
)
def test_case_26_a_message_that_only_calls_is_written_in_each_form(form: Any, expected: dict[str, Any]) -> None:
    said = spoken(BODY, Dialect(no_content=form))["messages"][1]

    assert {key: said[key] for key in said if key == "content"} == expected


def test_the_rich_dialect_leaves_everything_as_it_is() -> None:
    assert spoken(BODY, RICH) == BODY


def test_speaking_a_dialect_leaves_the_given_body_alone() -> None:
    before = json.dumps(BODY)

    spoken(BODY, Dialect(blocks=False, stream_options=False, extras=False, no_content="absent", strict_ids=True))

    assert json.dumps(BODY) == before


@pytest.mark.parametrize(
    "model", ["mistral-large-latest", "mistralai/ministral-8b", "Codestral-2501", "open-mixtral-8x7b"]
)
def test_case_25_models_that_demand_short_ids_get_them(model: str) -> None:
    said = spoken(BODY, Dialect.of(model, prompt_cache=True))["messages"]

    assert said[1]["tool_calls"][0]["id"] == said[2]["tool_call_id"] == safe_id("call_PTLP8xhu3u")


@given(st.text())
def test_case_25_a_short_id_is_nine_letters_and_digits_and_stays_itself(call_id: str) -> None:
    short = safe_id(call_id)

    assert len(short) == 9
    assert short.isascii()
    assert short.isalnum()
    assert safe_id(short) == short


def test_an_invented_name_goes_back_in_characters_that_an_api_takes() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "serach notes!", "arguments": "{}"}}]
    body = {"messages": [{"role": "assistant", "content": None, "tool_calls": calls}]}

    assert spoken(body, RICH)["messages"][0]["tool_calls"][0]["function"]["name"] == "serach_notes_"


# -- calls as text

TOOLS = ["delete_note", "add"]


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name":"delete_note","arguments":{"id":"n1"}}</tool_call>',
        'I will do it.\n<tool_call>\n{"name": "delete_note", "arg',
        "<function=delete_note><parameter=id>n1</parameter></function>",
        '<tools>\n{"name": "add", "arguments": {}}\n</tools>',
        '[TOOL_CALLS][{"name": "add", "arguments": {}}]',
        '<|python_tag|>{"name": "add", "parameters": {}}',
        'functions.delete_note:0 {"id": "n1"}',
        '{"name": "delete_note", "arguments": {"id": "n1"}}',
        '[{"function": {"name": "add", "arguments": "{}"}}]',
    ],
)
def test_case_9_a_call_written_as_text_is_recognised(text: str) -> None:
    assert looks_like_call(text, TOOLS)


@pytest.mark.parametrize(
    "text",
    [
        "Done.",
        "",
        '```\n<tool_call>{"name":"delete_note","arguments":{}}</tool_call>\n```',
        'As an example:\n```json\n{"name": "delete_note", "arguments": {}}\n```\nThat is it.',
        'Write `<tool_call>{"name":"delete_note"}</tool_call>` to call.',
        '> <tool_call>{"name":"delete_note","arguments":{}}</tool_call>',
        "The tag <tool_call> begins a call of delete_note.",
        '<tool_call>{"name":"unknown_thing"}</tool_call>',
        '{"name": "Ada", "arguments": []}',
        '{"speak": "Hi", "display": "Hi"}',
        "The tool delete_note removes a note.",
    ],
)
def test_case_9_text_that_speaks_of_calls_is_left_alone(text: str) -> None:
    assert not looks_like_call(text, TOOLS)


@given(st.text(alphabet="<>|`~{}[]\n tool_calad", max_size=60))
def test_case_9_any_text_can_be_looked_at(text: str) -> None:
    assert looks_like_call(text, TOOLS) in (True, False)
