"""What is still to be taken or done of a plan today: for reminders that come up by a schedule.

A schedule decides by its type whether a date is one of its days; one that cannot be read is due every day, since a
reminder too many does less harm than one too few.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from deckhand.domain.notifications import DAYS, weekday
from deckhand.domain.recency import date_field
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


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do by a schedule, and how often that was done on the day."""

    name: str
    schedule: Mapping[str, Any]
    taken: int


@dataclass(frozen=True, slots=True)
class Left:
    """The names of what is left to do at a time of day: what it is the time for, and what was missed earlier that day.
    A thing that is to be done several times a day can be both.
    """

    due: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.due or self.missed)


def left(steps: Sequence[Step], slot: str, day: date) -> Left:
    """What of the steps is left to do on the date, at that time of day. One whose schedule names no time of day is due
    at all of them, once.
    """
    due, missed = [], []
    for step in steps:
        if not falls_on(step.schedule, day):
            continue
        times = _times(step.schedule.get("time_of_day"))
        earlier = sum(SLOTS.index(one) < SLOTS.index(slot) for one in times)
        now = slot in times or not times
        if now and step.taken < earlier + 1:
            due.append(step.name)
        if step.taken < earlier:
            missed.append(step.name)
    return Left(tuple(due), tuple(missed))


def _times(named: Any) -> list[str]:
    given = [named] if isinstance(named, str) else named
    return [one for one in given if one in SLOTS] if isinstance(given, Sequence) else []


def steps_of(manifest: Mapping[str, Any], data: Any, day: date) -> list[Step]:
    """Of a card, with how often each was done on that date: its items' that are not in a break, or its own."""
    label = manifest["meta"].get("label") or ""
    items = data.get("items") if isinstance(data, Mapping) else None
    if isinstance(items, Sequence):
        return [
            Step(_name(item) or label, item["schedule"], _taken(item, day))
            for item in items
            if isinstance(item, Mapping) and isinstance(item.get("schedule"), Mapping) and _is_on(item, day)
        ]
    schedule = manifest["meta"].get("schedule")
    if not isinstance(schedule, Mapping):
        return []
    rows, field = data if isinstance(data, Sequence) and not isinstance(data, str) else [], date_field(manifest)
    return [Step(label, schedule, sum(isinstance(row, Mapping) and _is_of(row.get(field), day) for row in rows))]


def _name(item: Mapping[str, Any]) -> str:
    names = (item.get("short_name"), item.get("name"))
    return next((" ".join(one.split()) for one in names if isinstance(one, str) and one.strip()), "")


def _is_on(item: Mapping[str, Any], day: date) -> bool:
    """By the item's `cycles`, `{type: "on"|"off", start, end}` with both dates included: no break covers the date, and
    where any are on, one does.
    """
    cycles = item.get("cycles")
    found = [one for one in cycles if isinstance(one, Mapping)] if isinstance(cycles, list) else []
    here = [one.get("type") for one in found if _covers(one, day)]
    return "off" not in here and ("on" in here or all(one.get("type") != "on" for one in found))


def _covers(cycle: Mapping[str, Any], day: date) -> bool:
    start, end = _date(cycle.get("start")), _date(cycle.get("end"))
    return (start is None or start <= day) and (end is None or day <= end)


def _taken(item: Mapping[str, Any], day: date) -> int:
    """By the item's `doses`, or the dates of a list that is only ticked off: `takenDates`."""
    doses, ticks = item.get("doses"), item.get("takenDates")
    taken = sum(
        isinstance(dose, Mapping) and _is_of(dose.get("scheduledDate"), day) and bool(dose.get("takenAt"))
        for dose in (doses if isinstance(doses, list) else [])
    )
    return max(taken, sum(_is_of(tick, day) for tick in (ticks if isinstance(ticks, list) else [])))


def _is_of(value: Any, day: date) -> bool:
    """Whether a date, or the instant that it begins, is the day."""
    return isinstance(value, str) and value[:10] == day.isoformat()


def _date(value: Any) -> date | None:
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
