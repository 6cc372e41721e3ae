"""A proposal as a person reads it before they say yes."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from infra.local.question import whole
from infra.local.terminal_text import printable, unhidden

PROPOSAL: dict[str, Any] = {
    "id": "c1.p1",
    "tool": "remove_row",
    "arguments": {"id": "weight"},
    "summary": "Remove a row: weight",
    "expiresAt": "2026-03-04T05:06:07.000Z",
}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_it_is_shown_with_its_tool_its_arguments_and_its_time() -> None:
    assert whole(PROPOSAL, UTC) == (
        'Remove a row: weight\n  tool: remove_row\n  arguments: {"id": "weight"}\n  until: 2026-03-04 05:06'
    )


def test_what_it_changes_is_shown_below_its_arguments() -> None:
    shown = whole({**PROPOSAL, "target": {"date": "2026-03-03", "note": "a\u202eb"}}, UTC)
    assert shown.splitlines()[3] == r'  changes: {"date": "2026-03-03", "note": "a\u202eb"}'


def test_the_time_is_that_of_the_place() -> None:
    assert whole(PROPOSAL, timezone(timedelta(hours=-6))).endswith("until: 2026-03-03 23:06")


def test_the_place_is_where_the_machine_is() -> None:
    here = datetime(2026, 3, 4, 5, 6, tzinfo=UTC).astimezone()
    assert whole(PROPOSAL).endswith(f"until: {here:%Y-%m-%d %H:%M}")


def test_its_id_is_shown_where_it_is_needed() -> None:
    assert "\n  id: c1.p1\n" in whole(PROPOSAL, UTC, named=True)


def test_long_arguments_are_shown_line_by_line() -> None:
    shown = whole({**PROPOSAL, "arguments": {"id": "weight", "value": {"note": "x" * 80}}}, UTC)
    assert shown.splitlines()[2:8] == [
        "  arguments:",
        "    {",
        '      "id": "weight",',
        '      "value": {',
        f'        "note": "{"x" * 80}"',
        "      }",
    ]


def test_what_cannot_be_seen_is_written_out() -> None:
    shown = whole({**PROPOSAL, "arguments": {"id": "a\u202eb\u200b\x1b[2J\u2028\u00a0é"}}, UTC)
    assert r'{"id": "a\u202eb\u200b\u001b[2J\u2028' + '\u00a0é"}' in shown


def test_a_summary_or_a_tools_name_cannot_drive_the_terminal_or_look_like_more() -> None:
    shown = whole({**PROPOSAL, "summary": "Keep it\n  until: never\x1b[1A", "tool": "x\r\ny", "expiresAt": "\x1b"}, UTC)
    assert shown.splitlines()[:2] == ["Keep it until: never[1A", "  tool: x y"]
    assert "\x1b" not in shown


@given(values)
def test_what_is_shown_of_arguments_is_what_runs(value: Any) -> None:
    arguments = {"value": value}
    shown = whole({**PROPOSAL, "arguments": arguments}, UTC)
    text = shown.partition("arguments:")[2].rpartition("\n  until:")[0]
    assert json.loads(text) == arguments
    assert printable(shown) == shown


@given(st.text(st.characters(codec="utf-8")))
def test_written_out_text_holds_nothing_hidden(text: str) -> None:
    shown = unhidden(text)
    assert all(one.isprintable() or one == "\n" or one.isspace() for one in shown)
