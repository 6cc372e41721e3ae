"""Recent activity, hygiene and orphaned fields, from what cards remember."""

from datetime import date
from typing import Any

import pytest

from deckhand.domain.activity import GROWTH_ROWS, age_days, findings, last_delta, orphans
from deckhand.domain.recency import Recency, of_rows

TODAY = date(2026, 4, 20)


def days(*values: float, field: str = "kg") -> Recency:
    """Entries of the days up to the 10th, one a value."""
    return of_rows([{"date": f"2026-04-{n:02d}", field: value} for n, value in enumerate(values, 1)], "date")


def found(rows: Recency, *, count: int = 3, is_rows: bool = True, today: date = TODAY, **meta: Any) -> list[Any]:
    manifest = {"meta": {"writeable": {"fromWebapp": True}, **meta}}
    result = findings("c", manifest, count=count, is_rows=is_rows, recency=rows, today=today)
    return [(one["kind"], one["severity"]) for one in result]


def test_the_age_comes_from_the_newest_row() -> None:
    assert age_days(days(1, 2), date(2026, 4, 19), TODAY) == (18, "rows")


def test_without_dated_rows_the_age_comes_from_the_last_write() -> None:
    assert age_days(Recency(), date(2026, 4, 19), TODAY) == (1, "updatedAt")


def test_without_any_data_there_is_no_age() -> None:
    assert age_days(Recency(), None, TODAY) == (None, None)


def test_the_delta_is_over_the_entries_that_are_remembered() -> None:
    assert last_delta(days(80, 81, 79.5)) == {"field": "kg", "n": 3, "delta": -0.5, "latest": 79.5}


@pytest.mark.parametrize("rows", [Recency(), days(80)])
def test_there_is_no_delta_with_fewer_than_two_numbers(rows: Recency) -> None:
    assert last_delta(rows) is None


def test_a_delta_never_mixes_fields() -> None:
    rows = of_rows([{"date": "2026-04-01", "kg": 80}, {"date": "2026-04-02", "steps": 9}], "date")
    assert last_delta(rows) is None


def test_a_card_without_a_cadence_is_never_stale() -> None:
    assert found(days(1, 2, 3)) == []


@pytest.mark.parametrize(
    ("expect", "kinds"), [(17, []), (16, [("stale", "info")]), (9, [("stale", "info")]), (8, [("stale", "warn")])]
)
def test_a_card_is_stale_past_its_own_cadence_and_a_warning_past_twice(expect: int, kinds: list[Any]) -> None:
    assert found(days(1, 2, 3), cadence={"expectDays": expect}) == kinds


@pytest.mark.parametrize(
    "more",
    [{"count": 2}, {"enabled": False}, {"writeable": {"fromWebapp": False}}, {"rows": Recency()}],
    ids=["too few rows", "hidden", "not writeable", "undated"],
)
def test_stale_needs_a_shown_writeable_card_with_dated_rows(more: dict[str, Any]) -> None:
    given: dict[str, Any] = {"cadence": {"expectDays": 1}, "rows": days(1, 2, 3), **more}
    assert found(given.pop("rows"), **given) == []


def test_a_very_long_card_is_reported() -> None:
    assert found(Recency(), count=GROWTH_ROWS) == []
    assert found(Recency(), count=GROWTH_ROWS + 1) == [("growth", "info")]


def test_an_input_that_no_row_uses_is_reported_for_rows_only() -> None:
    inputs = {"fromWebapp": True, "inputs": [{"key": "kg"}, {"key": "fat"}]}
    assert found(days(1), writeable=inputs) == [("orphaned-input", "info")]
    assert found(days(1), writeable=inputs, is_rows=False) == []
    assert found(Recency(), count=0, writeable=inputs) == []


def orphaned(meta: dict[str, Any], row: dict[str, Any]) -> list[str]:
    lost: list[str] = orphans({"meta": meta}, of_rows([row], "date"))["orphans"]
    return lost


@pytest.mark.parametrize(
    "meta",
    [
        {"writeable": {"inputs": [{"key": "kg"}]}},
        {"view": {"display": {"template": "{kg:round(1)} kg"}}},
        {"view": {"display": {"secondary": "{kg?yes:no}"}}},
        {"view": {"display": {"secondary": "{kg|none}"}}},
        {"view": {"display": {"thresholds": [{"ifField": "kg", "min": 1}]}}},
        {"view": {"display": {"emojiMap": {"kg": {"1": "🙂"}}}}},
        {"trends": {"series": [{"field": "kg"}]}},
        {"calendar": {"marker": {"type": "threshold", "field": "kg"}}},
        {"reports": {"columns": [{"field": "kg", "header": "Weight"}]}},
        {"data": {"aliases": {"kg": "weight"}}},
    ],
)
def test_a_field_that_something_names_is_no_orphan(meta: dict[str, Any]) -> None:
    assert orphaned(meta, {"date": "2026-04-20", "kg": 1}) == []
    assert orphaned({}, {"date": "2026-04-20", "kg": 1}) == ["kg"]


def test_structural_fields_are_never_orphans() -> None:
    assert orphaned({}, {"date": "2026-04-20", "id": 1, "source": "x", "takenAt": "y"}) == []
