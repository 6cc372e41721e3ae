"""Operations as tools: whatever a model sends ends in a bounded result."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from deckhand.agent.toolbox import ToolNote, ToolResult
from deckhand.agent.tools import MAX_RESULT_CHARS, OperationTools, bounded
from deckhand.domain.errors import UnknownManifest
from deckhand.operations.caller import Caller
from deckhand.operations.registry import Operation
from tests.callers import chatting
from tests.fakes import call


class Note(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: str = "n1"
    value: Any = None
    meta: dict[str, Any] = {}


SEEN: list[Note] = []


def write_note(_: Caller, given: Note) -> dict[str, Any]:
    SEEN.append(given)
    return {"ok": True, "value": given.value}


def find_note(_: Caller, given: Note) -> dict[str, Any]:
    raise UnknownManifest(nearest=["x" * 60_000])


def operation(run: Any, **more: Any) -> Operation:
    return Operation(name=run.__name__, summary="", description="", input=Note, run=run, agent=True, **more)


@pytest.fixture
def tools() -> OperationTools:
    SEEN.clear()
    caller = chatting()
    writing = operation(write_note, mutates=True, card="id", change="changed", label="Writing")
    return OperationTools([writing, operation(find_note)], caller)


def error_of(result: ToolResult) -> dict[str, Any]:
    assert result.failed
    error: dict[str, Any] = json.loads(result.content)
    return error


@pytest.mark.parametrize("arguments", ["", " \n", "null", "{}"])
async def test_case_5_no_arguments_are_an_empty_object(tools: OperationTools, arguments: str) -> None:
    assert not (await tools.run(call("write_note", arguments))).failed
    assert [Note()] == SEEN


@pytest.mark.parametrize(
    "arguments",
    [
        '{"id":',
        "[]",
        '"n1"',
        '{"value":NaN}',
        '{"value":1e400}',
        '{"id":"a","id":"b"}',
        '{"value":"\\ud800"}',
        pytest.param('{"value":' + "[" * 70 + "]" * 70 + "}", id="depth"),
        pytest.param('{"value":' + "[" * 100_000, id="deep"),
        pytest.param('{"value":' + "9" * 5_000 + "}", id="digits"),
    ],
)
async def test_arguments_that_could_not_be_read_back_exactly_are_refused(tools: OperationTools, arguments: str) -> None:
    note = tools.note(call("write_note", arguments))
    assert note.mutates
    assert error_of(await tools.run(call("write_note", arguments)))["code"] == "invalid_arguments"
    assert SEEN == []


@pytest.mark.parametrize("text", ['{"a":NaN}', '{"a":1,"a":2}', '{"a":"\\ud800"}'])
async def test_an_object_in_a_text_that_could_not_be_read_back_is_no_object(tools: OperationTools, text: str) -> None:
    assert error_of(await tools.run(call("write_note", {"meta": text})))["code"] == "invalid_arguments"


async def test_an_object_in_a_text_is_taken_for_what_it_is(tools: OperationTools) -> None:
    await tools.run(call("write_note", {"meta": '{"a":1}', "value": '{"a":1}'}))
    assert [Note(meta={"a": 1}, value='{"a":1}')] == SEEN


async def test_case_8_an_unknown_name_is_answered_with_the_close_matches(tools: OperationTools) -> None:
    error = error_of(await tools.run(call("wirte_note")))
    assert error["code"] == "unknown_tool"
    assert "Close matches: write_note" in error["error"]


async def test_wrong_arguments_are_named_each_and_never_echoed(tools: OperationTools) -> None:
    error = error_of(await tools.run(call("write_note", {"id": 5, "secret": "s3cret"})))
    assert "id: " in error["error"]
    assert "secret: " in error["error"]
    assert "s3cret" not in error["error"]


async def test_a_change_is_told_with_its_card_and_a_failure_is_not(tools: OperationTools) -> None:
    result = await tools.run(call("write_note", {"id": "mood"}))
    assert result.changes == ({"id": "mood", "change": "changed"},)
    assert tools.note(call("write_note", {"id": "mood"})) == ToolNote(True, "mood", "Writing")
    assert (await tools.run(call("find_note"))).changes == ()


async def test_case_28_a_huge_result_is_cut_and_says_how_much_is_shown(tools: OperationTools) -> None:
    result = await tools.run(call("write_note", {"value": 'é"' * 100_000}))
    assert len(result.content) <= MAX_RESULT_CHARS
    shown = json.loads(result.content)
    assert shown["totalChars"] > 300_000
    assert shown["shownChars"] == len(shown["part"]) > 20_000


@pytest.mark.parametrize(
    "wrong",
    [
        call("find_note"),
        call("x" * 100_000),
        call("write_note", {f"name{n}": n for n in range(5_000)}),
        call("write_note", {"x" * 100_000: 1}),
    ],
)
async def test_case_28_errors_are_bounded_too(tools: OperationTools, wrong: Any) -> None:
    result = await tools.run(wrong)
    assert result.failed
    assert len(result.content) <= MAX_RESULT_CHARS
    json.loads(result.content)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(700, 900))
def test_case_28_a_result_of_any_text_is_json_within_the_limit(text: str, limit: int) -> None:
    written = json.dumps(text * 50, ensure_ascii=False)
    cut = bounded(written, limit)
    assert len(cut) <= limit
    value = json.loads(cut)
    assert cut == written or written.startswith(value["part"])
