"""What of a plan is still open today."""

from datetime import date
from typing import Any

import pytest

from deckhand.domain.open_plan import Left, Step, falls_on, left, steps_of

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
    ("times", "taken", "slot", "due", "missed"),
    [
        ("morning", 0, "morning", True, False),
        ("morning", 1, "morning", False, False),
        ("evening", 0, "morning", False, False),
        (["morning", "evening"], 1, "morning", False, False),
        (["morning", "evening"], 1, "evening", True, False),
        (["morning", "evening"], 0, "evening", True, True),
        (["morning", "evening"], 2, "evening", False, False),
        (["morning", "evening"], 0, "midday", False, True),
        ("morning", 0, "night", False, True),
        (None, 0, "midday", True, False),
        (None, 1, "midday", False, False),
        (["soon"], 0, "midday", True, False),
    ],
)
def test_a_step_is_due_at_its_times_of_day_and_missed_after_them(
    times: Any, taken: int, slot: str, due: bool, missed: bool
) -> None:
    schedule = {} if times is None else {"time_of_day": times}
    found = left([Step("Zinc", schedule, taken)], slot, MONDAY)
    assert found == Left(("Zinc",) * due, ("Zinc",) * missed)
    assert bool(found) is (due or missed)


SCHEDULE = {"type": "daily", "time_of_day": "morning"}


def test_the_steps_of_a_plan_are_the_items_with_their_doses_of_the_day() -> None:
    doses = [
        {"scheduledDate": "2026-11-30", "takenAt": "2026-11-30T08:00:00Z"},
        {"scheduledDate": "2026-11-30", "takenAt": None},
        {"scheduledDate": "2026-11-29", "takenAt": "2026-11-29T08:00:00Z"},
        "not a dose",
    ]
    data = {"items": [{"name": "Zinc", "schedule": SCHEDULE, "doses": doses}, {"name": "Free"}, 3]}
    assert steps_of({"meta": {}}, data, MONDAY) == [Step("Zinc", SCHEDULE, 1)]


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ({"name": "Zinc picolinate", "short_name": "Zinc"}, "Zinc"),
        ({"name": " Zinc \n 15 ", "short_name": " "}, "Zinc 15"),
        ({"name": 3}, "Pills"),
        ({}, "Pills"),
    ],
)
def test_a_step_has_a_name_to_show(item: dict[str, Any], name: str) -> None:
    data = {"items": [{**item, "schedule": SCHEDULE}]}
    assert steps_of({"meta": {"label": "Pills"}}, data, MONDAY) == [Step(name, SCHEDULE, 0)]


@pytest.mark.parametrize(
    ("cycles", "on"),
    [
        ([], True),
        ("none", True),
        ([{"type": "off", "start": "2026-11-30", "end": "2026-11-30"}], False),
        ([{"type": "off", "start": "2026-12-01"}], True),
        ([{"type": "off", "end": "2026-11-30"}], False),
        ([{"type": "on", "start": "2026-11-01", "end": "2026-11-30"}], True),
        ([{"type": "on", "start": "2026-11-01", "end": "2026-11-29"}], False),
        ([{"type": "on"}, {"type": "off", "start": "2026-11-30"}], False),
        ([{"type": "rest", "start": "2026-11-30"}, 3], True),
        ([{"type": ["off"]}, {"type": {"off": True}}], True),
        ([{"type": []}, {"type": "off"}], False),
    ],
)
def test_an_item_that_has_a_break_is_no_step(cycles: Any, on: bool) -> None:
    data = {"items": [{"name": "Zinc", "schedule": SCHEDULE, "cycles": cycles}]}
    assert bool(steps_of({"meta": {}}, data, MONDAY)) is on


def test_the_step_of_a_card_with_a_schedule_of_its_own_is_done_by_a_row_of_the_day() -> None:
    schedule = {"type": "weekly", "on_days": ["mon"]}
    rows = [{"date": "2026-11-30"}, {"date": "2026-11-29"}, "text"]
    assert steps_of({"meta": {"label": "Gym", "schedule": schedule}}, rows, MONDAY) == [Step("Gym", schedule, 1)]


def test_a_row_is_of_the_day_by_the_date_field_of_its_card() -> None:
    meta = {"label": "Gym", "schedule": SCHEDULE, "view": {"dateField": "on"}}
    rows = [{"on": "2026-11-30T08:00"}, {"date": "2026-11-30"}]
    assert steps_of({"meta": meta}, rows, MONDAY) == [Step("Gym", SCHEDULE, 1)]


@pytest.mark.parametrize("ticks", [["2026-11-29", "2026-11-30"], ["2026-11-30T08:00"]])
def test_an_item_that_was_ticked_off_is_taken(ticks: list[str]) -> None:
    data = {"items": [{"name": "Zinc", "schedule": SCHEDULE, "takenDates": ticks, "doses": "none"}]}
    assert steps_of({"meta": {}}, data, MONDAY) == [Step("Zinc", SCHEDULE, 1)]


@pytest.mark.parametrize("data", [None, "text", [], {"items": "none"}])
def test_without_a_schedule_there_is_no_plan(data: Any) -> None:
    assert steps_of({"meta": {}}, data, MONDAY) == []
    assert not left([], "morning", MONDAY)
