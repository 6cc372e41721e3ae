"""Overviews made from what cards remember of their rows: recency, hygiene. Pure, and without reading a row."""

import re
from collections.abc import Mapping
from datetime import date
from typing import Any, Literal

from typing_extensions import TypedDict

from deckhand.domain.recency import Recency

GROWTH_ROWS = 730
MIN_STALE_ROWS = 3
STRUCTURAL = {
    "date",
    "added",
    "takenAt",
    "scheduledDate",
    "offSchedule",
    "takenDates",
    "time",
    "id",
    "createdAt",
    "deletedAt",
    "source",
}

Source = Literal["rows", "updatedAt"]
Kind = Literal["stale", "growth", "orphaned-input"]
Severity = Literal["info", "warn"]


class Delta(TypedDict):
    """The change of a field over its newest `n` entries."""

    field: str
    n: int
    delta: int | float
    latest: int | float


class Finding(TypedDict):
    cardId: str
    kind: Kind
    severity: Severity
    detail: str


class Orphans(TypedDict):
    """Fields that rows have and neither inputs nor displays name; all that those name; the aliases as they are written,
    which count as known.
    """

    orphans: list[str]
    referenced: list[str]
    aliases: dict[str, Any]


def age_days(recency: Recency, written: date | None, today: date) -> tuple[int | None, Source | None]:
    """Whole days since the newest entry, and where that comes from: `rows`, `updatedAt` (the last write) or None."""
    if recency.newest:
        return (today - date.fromisoformat(recency.newest[0].date)).days, "rows"
    return ((today - written).days, "updatedAt") if written is not None else (None, None)


def last_delta(recency: Recency) -> Delta | None:
    """The change over the newest entries of the one number that the newest entry has; None when there is no such
    number.
    """
    if not recency.newest or recency.newest[0].field is None:
        return None
    field = recency.newest[0].field
    numbers = [entry.number for entry in recency.newest if entry.field == field and entry.number is not None]
    if len(numbers) < 2:
        return None
    return {"field": field, "n": len(numbers), "delta": round(numbers[0] - numbers[-1], 6), "latest": numbers[0]}


def findings(
    card: str, manifest: Mapping[str, Any], *, count: int, is_rows: bool, recency: Recency, today: date
) -> list[Finding]:
    """`stale` only for cards that declare a cadence, `growth`, `orphaned-input`; hidden cards have none."""
    meta = manifest["meta"]
    if meta.get("enabled") is False:
        return []
    writeable = meta.get("writeable") if isinstance(meta.get("writeable"), Mapping) else {}
    found: list[Finding] = []
    cadence = meta.get("cadence")
    expect = cadence.get("expectDays") if isinstance(cadence, Mapping) else None
    age, source = age_days(recency, None, today)
    watched = isinstance(expect, int) and writeable.get("fromWebapp") is True and count >= MIN_STALE_ROWS
    if watched and isinstance(expect, int) and source == "rows" and age is not None and age > expect:
        severity: Severity = "warn" if age > 2 * expect else "info"
        found.append(_finding(card, "stale", severity, f"Last entry {age} days ago; expected every {expect}."))
    if count > GROWTH_ROWS:
        found.append(_finding(card, "growth", "info", f"{count} rows."))
    unused = [key for key in _input_keys(meta) if key not in recency.fields] if is_rows and count else []
    return found + [_finding(card, "orphaned-input", "info", f"The input {key!r} is in no row.") for key in unused]


def _input_keys(meta: Mapping[str, Any]) -> list[str]:
    writeable = meta.get("writeable")
    inputs = writeable.get("inputs") if isinstance(writeable, Mapping) else None
    listed = inputs if isinstance(inputs, list) else []
    return [one["key"] for one in listed if isinstance(one, Mapping) and isinstance(one.get("key"), str)]


def _finding(card: str, kind: Kind, severity: Severity, detail: str) -> Finding:
    return {"cardId": card, "kind": kind, "severity": severity, "detail": detail}


def orphans(manifest: Mapping[str, Any], recency: Recency) -> Orphans:
    meta = manifest["meta"]
    aliases = meta.get("data", {}).get("aliases", {}) if isinstance(meta.get("data"), Mapping) else {}
    aliases = aliases if isinstance(aliases, Mapping) else {}
    referenced = sorted(_referenced(meta))
    fields = [field for field in recency.fields if field not in STRUCTURAL]
    lost = [field for field in fields if field not in referenced and field not in aliases]
    return {"orphans": lost, "referenced": referenced, "aliases": dict(aliases)}


_FIELD_NAMES = ("field", "ifField", "primaryField", "alias", "accessor", "dateField", "xAxis")


def _referenced(meta: Mapping[str, Any]) -> set[str]:
    """Every name that inputs, series, markers, emoji maps and display templates use."""
    names = set(_input_keys(meta))
    view = meta.get("view")
    display = view.get("display") if isinstance(view, Mapping) else None
    emojis = display.get("emojiMap") if isinstance(display, Mapping) else None
    if isinstance(emojis, Mapping):
        names.update(str(name) for name, one in emojis.items() if isinstance(one, Mapping))
    for view in ("view", "trends", "calendar", "reports", "dayDetail"):
        for name, text in _texts(meta.get(view)):
            if name in _FIELD_NAMES:
                names.add(text)
            names.update(re.findall(r"{([A-Za-z_][A-Za-z0-9_-]*)[^{}]*}", text))
    return names


def _texts(value: Any, name: str = "") -> list[tuple[str, str]]:
    if isinstance(value, str):
        return [(name, value)]
    if isinstance(value, Mapping):
        return [found for key, one in value.items() for found in _texts(one, str(key))]
    if isinstance(value, list):
        return [found for one in value for found in _texts(one, name)]
    return []
