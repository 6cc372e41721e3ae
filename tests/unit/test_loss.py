"""What counts as lost: rows and parts that are gone, not those that are changed or added to."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain.loss import loses_entries, lost_parts

ROWS = [{"date": "2026-04-19", "kg": 85}, {"date": "2026-04-20", "kg": 84}]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (ROWS, [*ROWS, {"date": "2026-04-21"}], False),
        (ROWS, ROWS[::-1], False),
        (ROWS, [{"kg": 85, "date": "2026-04-19"}, ROWS[1]], False),
        (ROWS, ROWS[:1], True),
        (ROWS, [], True),
        (ROWS, [ROWS[0], {"date": "2026-04-20", "kg": 80}], True),
        ([1, 1], [1], True),
        ([1], [1.0], True),
        ([], {"a": 1}, False),
        (ROWS, {"rows": ROWS}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {}, True),
        ({"a": {"b": [1]}}, {"a": {"b": [1, 2]}}, False),
        ({"a": {"b": [1]}}, {"a": {"b": []}}, True),
        ({"a": 1}, None, True),
        (None, [], False),
        ("text", 5, False),
    ],
)
def test_whole_data_loses_what_is_not_there_any_more(before: Any, after: Any, lost: bool) -> None:
    assert loses_entries(before, after, fields=True) == lost


@pytest.mark.parametrize(
    ("after", "lost"),
    [
        ({"date": "2026-04-20", "doses": [1, 2]}, False),
        ({"date": "2026-04-20", "note": "x", "doses": [1, 2, 3]}, False),
        ({"date": "2026-04-20", "note": "x", "doses": [1]}, True),
        ({"date": "2026-04-20", "note": "x"}, True),
    ],
)
def test_a_rows_own_fields_may_go_but_not_its_lists(after: Any, lost: bool) -> None:
    row = {"date": "2026-04-20", "note": "x", "doses": [1, 2]}
    assert loses_entries(row, after, fields=False) == lost


@given(VALUES)
def test_nothing_is_lost_when_nothing_changes(value: Any) -> None:
    assert not loses_entries(value, value, fields=True)


@given(st.lists(VALUES, max_size=4), VALUES)
def test_adding_an_element_loses_none(values: list[Any], more: Any) -> None:
    assert not loses_entries(values, [more, *values], fields=True)
    assert loses_entries([more, *values], values, fields=True)


def manifest(**meta: Any) -> dict[str, Any]:
    return {"meta": {"id": "a", **meta}}


WRITEABLE = {"fromWebapp": True, "inputs": [{"key": "kg"}, {"key": "note"}]}
REMINDERS = {"items": [{"id": "morning"}]}


@pytest.mark.parametrize(
    ("after", "lost"),
    [
        (manifest(writeable=WRITEABLE, notifications=REMINDERS, label="new"), False),
        (
            manifest(
                writeable={**WRITEABLE, "inputs": [{"key": "note"}, {"key": "kg", "unit": "kg"}]},
                notifications=REMINDERS,
            ),
            False,
        ),
        (manifest(writeable={**WRITEABLE, "inputs": [{"key": "kg"}]}, notifications=REMINDERS), True),
        (manifest(writeable={**WRITEABLE, "inputs": "kg"}, notifications=REMINDERS), True),
        (manifest(writeable={**WRITEABLE, "fromWebapp": False}, notifications=REMINDERS), True),
        (manifest(notifications=REMINDERS), True),
        (manifest(writeable=WRITEABLE, notifications={"items": []}), True),
        (manifest(writeable=WRITEABLE), True),
    ],
)
def test_a_manifest_loses_inputs_reminders_and_entries(after: dict[str, Any], lost: bool) -> None:
    assert bool(lost_parts(manifest(writeable=WRITEABLE, notifications=REMINDERS), after)) == lost
