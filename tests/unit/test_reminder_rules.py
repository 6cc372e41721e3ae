"""Quiet hours, fates, triggers as they are written, and what a change of a card means to the index."""

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from deckhand.domain.notifications import DAYS, plain_trigger, weekday
from deckhand.domain.reminders import Choice, Fate, Person, QuietHours, Reminder, fate, reminders_differ
from deckhand.reminders.plan import Change, plan

UTC = ZoneInfo("UTC")
NOON = 1_800_014_400.0
"""2027-01-15T12:00Z."""
REMINDER = Reminder(card="weight", item="am", trigger={"type": "daily", "time": "12:00"})
NIGHT = QuietHours(start="22:00", end="07:00")


@pytest.mark.parametrize(("clock", "quiet"), [("21:59", False), ("22:00", True), ("00:00", True), ("07:00", False)])
def test_quiet_hours_go_over_midnight(clock: str, quiet: bool) -> None:
    assert NIGHT.cover(clock) is quiet
    assert QuietHours(start="07:00", end="22:00").cover(clock) is not quiet


@pytest.mark.parametrize(
    ("person", "choice", "missed_by", "end"),
    [
        (Person(), Choice(), 0, "push"),
        (Person(), Choice(), 6 * 3600, "push"),
        (Person(), Choice(), 6 * 3600 + 1, "late"),
        (Person(paused_until=NOON + 1), Choice(), 0, "paused"),
        (Person(paused_until=NOON), Choice(), 0, "push"),
        (Person(quiet_hours=QuietHours(start="11:00", end="13:00")), Choice(), 0, "quiet"),
        (Person(quiet_hours=NIGHT), Choice(), 0, "push"),
        (Person(paused_until=NOON + 1), Choice(enabled=False), 99_999, "off"),
    ],
)
def test_a_turn_ends_in_one_way(person: Person, choice: Choice, missed_by: float, end: Fate) -> None:
    assert fate(person, choice, UTC, default_on=True, missed_by=missed_by, now=NOON) == end


def test_one_that_is_off_by_default_needs_to_be_switched_on() -> None:
    assert fate(Person(), Choice(), UTC, default_on=False, missed_by=0, now=NOON) == "off"
    assert fate(Person(), Choice(enabled=True), UTC, default_on=False, missed_by=0, now=NOON) == "push"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (0, "sun"),
        (7, "sun"),
        (6, "sat"),
        (1, "mon"),
        ("sun", "sun"),
        ("SUN", "sun"),
        ("Friday", "fri"),
        (" tues", "tue"),
    ],
)
def test_case_59_a_weekday_is_read_in_the_usual_ways(given: Any, name: str) -> None:
    assert weekday(given) == name


@pytest.mark.parametrize("given", [8, -1, True, 1.0, None, "someday", "", "mon1", "Monster", "su", ["mon"]])
def test_case_59_what_is_no_weekday_stays_what_it_is(given: Any) -> None:
    assert weekday(given) == given
    assert not (isinstance(weekday(given), str) and weekday(given) in DAYS)


def test_a_trigger_is_stored_in_one_form() -> None:
    given = {"type": "weekly", "time": "08:00", "days": [7, "MON"], "note": "x"}
    assert plain_trigger(given) == {"type": "weekly", "time": "08:00", "days": ["sun", "mon"]}
    assert plain_trigger({"type": "daily", "time": "08:00", "days": ["mon"]}) == {"type": "daily", "time": "08:00"}
    assert plain_trigger({"type": "hourly", "x": 1}) == {"type": "hourly", "x": 1}
    assert plain_trigger({"days": 3}) == {"days": 3}


def card(*items: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {"meta": {"id": "weight", "notifications": {"items": list(items)}, **meta}}


ITEM = {"id": "am", "label": "a", "title": "a", "body": "a", "trigger": {"type": "daily", "time": "12:00"}}


@pytest.mark.parametrize(
    ("old", "new", "differ"),
    [
        (None, card(), False),
        (None, card(ITEM), True),
        (card(ITEM), card({**ITEM, "body": "b"}), False),
        (card(ITEM), card({**ITEM, "default": "off"}), True),
        (card(ITEM), card(ITEM, enabled=False), True),
        (card(ITEM), None, True),
        (card(enabled=False), card(), False),
    ],
)
def test_the_index_is_told_of_what_moves_a_turn(old: Any, new: Any, differ: bool) -> None:
    assert reminders_differ(old, new) is differ


def armed(**meta: Any) -> Reminder:
    (change,) = plan("weight", card(ITEM, **meta), {}, UTC, NOON)
    assert change.new is not None
    return change.new


def test_a_reminder_that_is_in_step_is_left_alone() -> None:
    assert list(plan("weight", card(ITEM), {"am": armed()}, UTC, NOON + 60)) == []


def test_a_reminder_that_was_armed_by_a_clock_ahead_is_armed_anew() -> None:
    ahead = armed().model_copy(update={"pending": int(NOON) + 10 * 86_400, "slot": "2027-01-25T12:00"})
    (change,) = plan("weight", card(ITEM), {"am": ahead}, UTC, NOON)
    assert change == Change(ahead, armed())


def test_nothing_is_pending_for_one_who_is_away_or_while_the_card_is_off() -> None:
    assert armed(enabled=False).pending is None
    (change,) = plan("weight", card(ITEM), {}, UTC, NOON, away=True)
    assert change.new is not None
    assert change.new.pending is None


def test_what_the_card_has_no_longer_goes() -> None:
    held = armed()
    assert list(plan("weight", None, {"am": held}, UTC, NOON)) == [Change(held, None)]
    assert list(plan("weight", card(), {"am": held}, UTC, NOON)) == [Change(held, None)]
