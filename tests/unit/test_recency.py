"""What a card remembers of its rows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain.recency import MAX_FIELDS, NEWEST, Recency, date_field, of_rows

ROWS = st.lists(
    st.dictionaries(
        st.sampled_from(["date", "kg", "note"]),
        st.sampled_from(["2026-04-19", "2026-04-20", "2026-04-20T08:00", "soon", "2026-13-01"])
        | st.integers()
        | st.booleans(),
    )
    | st.integers(),
    max_size=12,
)


@given(ROWS)
def test_a_row_at_a_time_gives_the_same_as_all_at_once(rows: list[Any]) -> None:
    one_by_one = Recency()
    for row in rows:
        one_by_one = one_by_one.with_row(row, "date")
    assert one_by_one == of_rows(rows, "date")


@given(ROWS)
def test_the_newest_entries_are_the_latest_dates_in_order(rows: list[Any]) -> None:
    dates = [entry.date for entry in of_rows(rows, "date").newest]
    known = [str(row["date"])[:10] for row in rows if isinstance(row, dict) and isinstance(row.get("date"), str)]
    known = [day for day in known if day in ("2026-04-19", "2026-04-20")]
    assert dates == sorted(known, reverse=True)[:NEWEST]


@given(ROWS)
def test_what_is_remembered_is_read_back(rows: list[Any]) -> None:
    recency = of_rows(rows, "date")
    assert Recency.model_validate_json(recency.to_json()) == recency


def test_of_one_date_the_row_that_came_last_is_the_newest() -> None:
    rows = [{"date": "2026-04-20", "kg": 1}, {"date": "2026-04-20", "kg": 2}]
    assert [entry.number for entry in of_rows(rows, "date").newest] == [2, 1]


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"date": "2026-04-20", "kg": 85.5, "note": "x"}, "kg"),
        ({"date": "2026-04-20", "a": 1, "b": 2}, None),
        ({"date": "2026-04-20", "done": True}, None),
        ({"date": "2026-04-20", "k" * 300: 1}, None),
    ],
)
def test_an_entry_has_a_number_when_exactly_one_field_is_one(row: dict[str, Any], field: str | None) -> None:
    assert of_rows([row], "date").newest[0].field == field


def test_a_number_that_a_double_cannot_hold_is_not_compared() -> None:
    assert of_rows([{"date": "2026-04-20", "n": 10**400}], "date").newest[0].number is None


def test_field_names_are_bounded_in_number_and_length() -> None:
    rows = [{f"f{n}": 1} for n in range(MAX_FIELDS + 50)] + [{"x" * 100_000: 1}]
    recency = of_rows(rows, "date")
    assert len(recency.fields) == MAX_FIELDS
    assert recency.objects == MAX_FIELDS + 51
    assert len(recency.to_json()) < 10_000


def test_the_date_field_may_have_another_name() -> None:
    assert date_field({"meta": {"view": {"dateField": "day"}}}) == "day"
    assert date_field({"meta": {"view": {"dateField": ""}}}) == "date"
    assert date_field({"meta": {}}) == "date"
