"""What of a plan is still open today."""

from datetime import date
from typing import Any

import pytest

from deckhand.domain.open_plan import falls_on, is_open, plans_of

MONDAY, TUESDAY = date(2026, 11, 30), date(2026, 12, 1)


@pytest.mark.parametrize(
    ("schedule", "day", "due"),
    [
        ({}, MONDAY, True),
        ({"type": "daily"}, MONDAY, True),
        ({"type": "daily", "start_date": "2026-12-01"}, MONDAY, False),
        ({"type": "daily", "start_date": "soon"}, MONDAY, True),
        ({"type": "as_needed"}, MONDAY, False),
        ({"type": "weekly", "on_days": ["mon", "thu"]}, MONDAY, True),
        ({"type": "weekly", "on_days": ["Monday"]}, MONDAY, True),
        ({"type": "weekly", "on_days": [1]}, MONDAY, True),
        ({"type": "weekly", "on_days": [0, 7]}, MONDAY, False),
        ({"type": "weekly", "on_days": ["mon"]}, TUESDAY, False),
        ({"type": "weekly", "on_days": "mon"}, TUESDAY, True),
        ({"type": "every_n_days", "interval_days": 3, "start_date": "2026-11-27"}, MONDAY, True),
        ({"type": "every_n_days", "interval_days": 3, "start_date": "2026-11-27"}, TUESDAY, False),
        ({"type": "every_n_days", "interval_days": 0}, MONDAY, True),
        ({"type": "on_off", "on_days": 5, "off_days": 2, "start_date": "2026-11-26"}, MONDAY, True),
        ({"type": "on_off", "on_days": 5, "off_days": 2, "start_date": "2026-11-26"}, TUESDAY, False),
        ({"type": "on_off", "on_days": ["mon"], "off_days": ["tue"]}, TUESDAY, False),
        ({"type": "on_off", "on_days": 5}, TUESDAY, True),
        ({"type": "phased", "start_date": "2026-11-24", "loading": {"duration_weeks": 1}}, MONDAY, True),
        (
            {
                "type": "phased",
                "start_date": "2026-11-24",
                "loading": {"duration_weeks": 1, "days": ["tue"]},
                "maintenance": {"days": ["mon"]},
            },
            MONDAY,
            False,
        ),
        (
            {
                "type": "phased",
                "start_date": "2026-11-20",
                "loading": {"duration_weeks": 1, "days": ["tue"]},
                "maintenance": {"days": ["mon"]},
            },
            MONDAY,
            True,
        ),
        ({"type": "phased"}, MONDAY, True),
    ],
)
def test_a_schedule_says_which_days_are_its_own(schedule: dict[str, Any], day: date, due: bool) -> None:
    assert falls_on(schedule, day) is due


@pytest.mark.parametrize(
    ("times", "taken", "slot", "due"),
    [
        ("morning", 0, "morning", True),
        ("morning", 1, "morning", False),
        ("evening", 0, "morning", False),
        (["morning", "evening"], 1, "morning", False),
        (["morning", "evening"], 1, "evening", True),
        (["morning", "evening"], 2, "evening", False),
        ("morning", 0, "night", True),
        (None, 0, "midday", True),
        (None, 1, "midday", False),
    ],
)
def test_what_was_missed_earlier_is_open_too(times: Any, taken: int, slot: str, due: bool) -> None:
    schedule = {} if times is None else {"time_of_day": times}
    assert is_open([(schedule, taken)], slot, MONDAY) is due


def test_a_plan_is_of_the_items_with_their_doses_of_the_day() -> None:
    schedule = {"type": "daily", "time_of_day": "morning"}
    doses = [
        {"scheduledDate": "2026-11-30", "takenAt": "2026-11-30T08:00:00Z"},
        {"scheduledDate": "2026-11-30", "takenAt": None},
        {"scheduledDate": "2026-11-29", "takenAt": "2026-11-29T08:00:00Z"},
        "not a dose",
    ]
    data = {"items": [{"name": "Zinc", "schedule": schedule, "doses": doses}, {"name": "Free"}, 3]}
    assert plans_of({"meta": {}}, data, MONDAY) == [(schedule, 1)]


def test_a_plan_is_of_the_card_with_its_rows_of_the_day() -> None:
    schedule = {"type": "weekly", "on_days": ["mon"]}
    rows = [{"date": "2026-11-30"}, {"date": "2026-11-29"}, "text"]
    assert plans_of({"meta": {"schedule": schedule}}, rows, MONDAY) == [(schedule, 1)]


@pytest.mark.parametrize("data", [None, "text", [], {"items": "none"}])
def test_without_a_schedule_there_is_no_plan(data: Any) -> None:
    assert plans_of({"meta": {}}, data, MONDAY) == []
    assert not is_open([], "morning", MONDAY)
