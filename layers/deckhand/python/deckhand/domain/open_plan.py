"""What is still to be taken or done of a plan today: for reminders that come up by a schedule.

A schedule decides by its type whether a date is one of its days; one that cannot be read is due every day, since a
reminder too many does less harm than one too few.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from deckhand.domain.notifications import DAYS, weekday
from deckhand.domain.schedules import SLOTS

WEEK = 7


def falls_on(schedule: Mapping[str, Any], day: date) -> bool:
    """Whether the date is one of the schedule's. `as_needed` has no days."""
    start = _date(schedule.get("start_date"))
    if start is not None and day < start:
        return False
    elapsed = 0 if start is None else (day - start).days
    kind = schedule.get("type", "daily")
    if kind == "as_needed":
        return False
    if kind == "weekly":
        return _on_weekday(schedule.get("on_days"), day)
    if kind == "every_n_days":
        every = _count(schedule.get("interval_days"))
        return every is None or elapsed % every == 0
    if kind == "on_off":
        return _on_off(schedule, day, elapsed)
    return _phased(schedule, day, elapsed) if kind == "phased" else True


def _on_off(schedule: Mapping[str, Any], day: date, elapsed: int) -> bool:
    """Days of the week by name, or so many on and so many off since the start."""
    on, off = _count(schedule.get("on_days")), _count(schedule.get("off_days"))
    if on is None:
        return _on_weekday(schedule.get("on_days"), day)
    return off is None or elapsed % (on + off) < on


def _phased(schedule: Mapping[str, Any], day: date, elapsed: int) -> bool:
    loading, maintenance = schedule.get("loading"), schedule.get("maintenance")
    weeks = _count(loading.get("duration_weeks")) if isinstance(loading, Mapping) else None
    phase = loading if weeks is not None and elapsed < weeks * WEEK else maintenance
    return _on_weekday(phase.get("days"), day) if isinstance(phase, Mapping) else True


def _on_weekday(days: Any, day: date) -> bool:
    """Names in any case and length, or numbers with 0 and 7 for Sunday. No list is every day."""
    if not isinstance(days, Sequence) or isinstance(days, str) or not days:
        return True
    return any(named == DAYS[day.weekday()] for named in map(weekday, days))


def is_open(schedules: Sequence[tuple[Mapping[str, Any], int]], slot: str, day: date) -> bool:
    """Whether anything of `(schedule, how often it was taken today)` is still to be done by that time of day, earlier
    ones that were missed included.
    """
    return any(
        falls_on(schedule, day) and taken < _wanted(schedule.get("time_of_day"), slot) for schedule, taken in schedules
    )


def _wanted(times: Any, slot: str) -> int:
    """How often it is to be taken up to and in that time of day; once where none is named."""
    named = [times] if isinstance(times, str) else times
    if not isinstance(named, Sequence) or not named:
        return 1
    return sum(SLOTS.index(one) <= SLOTS.index(slot) for one in named if one in SLOTS)


def plans_of(manifest: Mapping[str, Any], data: Any, day: date) -> list[tuple[Mapping[str, Any], int]]:
    """The schedules of a card with how often each was taken on that date: its items', or its own."""
    items = data.get("items") if isinstance(data, Mapping) else None
    if isinstance(items, Sequence):
        return [
            (item["schedule"], _taken(item.get("doses"), day))
            for item in items
            if isinstance(item, Mapping) and isinstance(item.get("schedule"), Mapping)
        ]
    schedule = manifest["meta"].get("schedule")
    if not isinstance(schedule, Mapping):
        return []
    rows = data if isinstance(data, Sequence) and not isinstance(data, str) else []
    return [(schedule, sum(isinstance(row, Mapping) and row.get("date") == day.isoformat() for row in rows))]


def _taken(doses: Any, day: date) -> int:
    if not isinstance(doses, Sequence) or isinstance(doses, str):
        return 0
    return sum(
        isinstance(dose, Mapping) and dose.get("scheduledDate") == day.isoformat() and bool(dose.get("takenAt"))
        for dose in doses
    )


def _date(value: Any) -> date | None:
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
