"""When a turn comes, against two references: dateutil's own zones, and a search through all minutes."""

import importlib.resources
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from dateutil import tz as dateutil_tz  # type: ignore[import-untyped]
from dateutil.zoneinfo import get_zonefile_instance  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain.notifications import DAYS
from deckhand.domain.occurrence import Occurrence, Rule, latest_occurrence, next_occurrence, rule_of

MADRID, NEW_YORK = ZoneInfo("Europe/Madrid"), ZoneInfo("America/New_York")
FIRST, END = datetime(2025, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)
EVERY_DAY = frozenset(range(7))
CLOCKS = st.times().map(lambda clock: clock.replace(second=0, microsecond=0, fold=0))
"""Times as a trigger names them; `st.times` also draws second passes (fold), which none can."""


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def turns(rule: Rule, zone: ZoneInfo, after: int, count: int) -> list[Occurrence]:
    found: list[Occurrence] = []
    for _ in range(count):
        found.append(next_occurrence(rule, zone, found[-1].at if found else after))
    return found


@cache
def names() -> list[str]:
    """Every zone that the package of zones knows."""
    return sorted((importlib.resources.files("tzdata") / "zones").read_text().split())


@cache
def transitions(name: str) -> list[datetime]:
    """The first minute of each new offset, by halving the days in which it changes. No zone goes back within four."""
    zone, found = ZoneInfo(name), []
    day = FIRST
    while day < END:
        low, high = day, day + timedelta(days=4)
        if low.astimezone(zone).utcoffset() != high.astimezone(zone).utcoffset():
            while high - low > timedelta(minutes=1):
                middle = low + (high - low) // 2
                middle = middle.replace(second=0, microsecond=0)
                same = middle.astimezone(zone).utcoffset() == low.astimezone(zone).utcoffset()
                low, high = (middle, high) if same else (low, middle)
            found.append(high)
        day += timedelta(days=4)
    return found


def reference(wall: datetime, zone: ZoneInfo) -> int:
    """The first minute of UTC that shows a wall time; where none does, as far behind the gap's begin as the time is
    into it. Goes from UTC to local time only.
    """
    guess = wall.replace(tzinfo=UTC) - timedelta(hours=27)
    shown = (wall - timedelta(days=2)).replace(tzinfo=None)
    instant = guess
    # Coarse, then minute by minute: the clock never jumps by more than a day.
    while instant < guess + timedelta(hours=54):
        local = instant.astimezone(zone).replace(tzinfo=None)
        if local == wall:
            return int(instant.timestamp())
        if shown < wall < local and local - shown > timedelta(minutes=1):
            before = (instant - timedelta(minutes=1)).astimezone(zone).utcoffset()
            assert before is not None
            return int((wall.replace(tzinfo=UTC) - before).timestamp())
        shown = local
        instant += timedelta(minutes=1)
    raise AssertionError("no such time")


def by_dateutil(wall: datetime, zone: dateutil_tz.tzfile) -> int:
    there = dateutil_tz.resolve_imaginary(wall.replace(tzinfo=zone, fold=0))
    return int(there.astimezone(UTC).timestamp())


def test_case_57_a_time_in_the_spring_gap_moves_forward_by_the_gap() -> None:
    rule = rule_of({"type": "daily", "time": "02:30"})
    found = turns(rule, MADRID, at("2026-03-27 12:00"), 3)
    assert [turn.at for turn in found] == [at("2026-03-28 01:30"), at("2026-03-29 01:30"), at("2026-03-30 00:30")]
    assert datetime.fromtimestamp(found[1].at, MADRID).strftime("%H:%M") == "03:30"
    assert found[1].slot == "2026-03-29T02:30"


def test_case_57_a_time_in_the_autumn_overlap_comes_at_its_first_pass_only() -> None:
    rule = rule_of({"type": "daily", "time": "02:30"})
    found = turns(rule, MADRID, at("2026-10-24 12:00"), 2)
    assert [turn.at for turn in found] == [at("2026-10-25 00:30"), at("2026-10-26 01:30")]


def test_case_58_a_daily_time_stays_the_same_on_the_clock_all_year() -> None:
    rule = rule_of({"type": "daily", "time": "09:00"})
    for turn in turns(rule, NEW_YORK, at("2026-01-01 00:00"), 400):
        assert datetime.fromtimestamp(turn.at, NEW_YORK).strftime("%Y-%m-%dT%H:%M") == turn.slot


@pytest.mark.parametrize("day", DAYS)
def test_case_59_a_weekly_rule_comes_on_its_day(day: str) -> None:
    rule = rule_of({"type": "weekly", "time": "07:00", "days": [day]})
    found = turns(rule, MADRID, at("2026-11-30 12:00"), 3)
    assert [DAYS[date.fromisoformat(turn.slot[:10]).weekday()] for turn in found] == [day] * 3
    assert found[2].at - found[0].at == 14 * 86_400


def test_the_present_minute_is_no_longer_next() -> None:
    rule = rule_of({"type": "daily", "time": "09:00"})
    assert next_occurrence(rule, MADRID, at("2026-11-30 08:00")).slot == "2026-12-01T09:00"
    assert next_occurrence(rule, MADRID, at("2026-11-30 08:00") - 0.001).slot == "2026-11-30T09:00"


def test_a_slot_that_has_been_does_not_come_again_further_west() -> None:
    rule = rule_of({"type": "daily", "time": "09:00"})
    found = next_occurrence(rule, NEW_YORK, at("2026-11-30 08:05"), beyond="2026-11-30T09:00")
    assert found.slot == "2026-12-01T09:00"
    over_the_date_line = next_occurrence(
        rule, ZoneInfo("Pacific/Honolulu"), at("2026-11-30 20:00"), beyond="2026-12-01T09:00"
    )
    assert over_the_date_line.slot == "2026-12-02T09:00"


def test_case_60_of_many_missed_turns_the_newest_counts() -> None:
    rule = rule_of({"type": "daily", "time": "09:00"})
    first = next_occurrence(rule, MADRID, at("2025-01-01 00:00"))
    assert latest_occurrence(rule, MADRID, first, at("2026-11-30 08:00")).slot == "2026-11-30T09:00"
    assert latest_occurrence(rule, MADRID, first, first.at) == first


@given(st.sampled_from(names()), CLOCKS, st.data())
def test_next_to_every_transition_a_turn_is_where_the_search_finds_it(
    name: str, clock: time, data: st.DataObject
) -> None:
    zone = ZoneInfo(name)
    near = data.draw(st.sampled_from(transitions(name) or [FIRST]))
    local = (near + data.draw(st.integers(-1, 1)) * timedelta(days=1)).astimezone(zone)
    shifted = local + timedelta(minutes=data.draw(st.integers(-120, 120)))
    clock = data.draw(st.sampled_from([clock, shifted.time().replace(second=0, microsecond=0, fold=0)]))
    wall = datetime.combine(local.date(), clock)
    expected = reference(wall, zone)
    found = next_occurrence(Rule(clock, EVERY_DAY), zone, expected - 1)
    assert found == Occurrence(expected, wall.strftime("%Y-%m-%dT%H:%M"))


@pytest.mark.parametrize("clock", [time(2, 30), time(0, 0), time(23, 59), time(1, 15)], ids=str)
def test_next_to_every_transition_of_every_zone_dateutil_agrees(clock: time) -> None:
    others, compared = get_zonefile_instance(), 0
    for name in names():
        theirs, ours = others.get(name), ZoneInfo(name)
        for near in transitions(name) if theirs is not None else []:
            around = [near - timedelta(minutes=1), near]
            if any(moment.astimezone(theirs).utcoffset() != moment.astimezone(ours).utcoffset() for moment in around):
                continue  # its zones are of another year
            wall = datetime.combine(near.astimezone(ours).date(), clock)
            expected = by_dateutil(wall, theirs)
            found = next_occurrence(Rule(clock, EVERY_DAY), ours, expected - 1)
            assert found == Occurrence(expected, wall.strftime("%Y-%m-%dT%H:%M")), name
            compared += 1
    assert compared > 3_000


@given(
    st.sampled_from(names()),
    CLOCKS,
    st.sets(st.sampled_from(range(7)), min_size=1),
    st.datetimes(FIRST.replace(tzinfo=None), END.replace(tzinfo=None)),
)
def test_turns_follow_each_other_with_one_a_chosen_day(name: str, clock: time, days: set[int], begin: datetime) -> None:
    rule = Rule(clock, frozenset(days))
    found = turns(rule, ZoneInfo(name), int(begin.replace(tzinfo=UTC).timestamp()), 3 * len(days))
    assert [turn.at for turn in found] == sorted({turn.at for turn in found})
    dates = [date.fromisoformat(turn.slot[:10]) for turn in found]
    wanted = [day for n in range(29) if (day := dates[0] + timedelta(days=n)).weekday() in days]
    assert dates == wanted[: len(dates)]
