"""When a reminder's turn comes: a rule of wall-clock time, in an IANA zone, as instants.

A time that the clock skips in spring moves forward by as much as the clock does (02:30 → 03:30); one that it shows
twice in autumn is its first pass only. So each local date has one turn (bug case 57). This is what PEP 495 gives a
wall time with `fold=0`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from deckhand.domain.notifications import DAYS

MINUTE = 60
DAY = 86_400
_SEARCHED_DAYS = 10
"""The day before, as a time may move past midnight; a week; and a day that a shift may cost."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`days` are weekdays, Monday is 0."""

    at: time
    days: frozenset[int]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """`at` in epoch seconds, a whole minute; `slot` is the wall-clock time that it stands for: `2026-03-29T02:30`."""

    at: int
    slot: str

    @property
    def day(self) -> date:
        return date.fromisoformat(self.slot[:10])


def rule_of(trigger: Mapping[str, Any]) -> Rule:
    """Of a trigger that was checked. `schedule_due` comes up every day; whether it fires is the schedule's to say."""
    named = trigger["days"] if trigger["type"] == "weekly" else DAYS
    return Rule(time.fromisoformat(trigger["time"]), frozenset(DAYS.index(day) for day in named))


def next_occurrence(rule: Rule, zone: ZoneInfo, after: float, *, beyond: str = "") -> Occurrence:
    """The first one later than `after` (epoch seconds) whose slot is later than `beyond`: a zone that moved west shows
    times again that have been.
    """
    first = max(datetime.fromtimestamp(after, zone).toordinal() - 1, _ordinal(beyond))
    for ordinal in range(first, first + _SEARCHED_DAYS):
        if (ordinal - 1) % 7 not in rule.days:
            continue
        wall = datetime.combine(date.fromordinal(ordinal), rule.at, zone)
        at = int(wall.timestamp())
        if at > after:
            slot = wall.strftime("%Y-%m-%dT%H:%M")
            if slot > beyond:
                return Occurrence(at, slot)
    raise ValueError("a rule has a day")


def latest_occurrence(rule: Rule, zone: ZoneInfo, first: Occurrence, now: float) -> Occurrence:
    """The newest of `first` (which has come) and those that came after it: of several that were missed, it alone
    counts (bug case 60).
    """
    found, after = first, max(first.at, int(now) - _SEARCHED_DAYS * DAY)
    while (then := next_occurrence(rule, zone, after, beyond=found.slot)).at <= now:
        found, after = then, then.at
    return found


def minute_text(at: float) -> str:
    """The minute of UTC that an instant is in: `2026-03-29T01:30Z`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%MZ")


def _ordinal(slot: str) -> int:
    return date.fromisoformat(slot[:10]).toordinal() if slot else 0
