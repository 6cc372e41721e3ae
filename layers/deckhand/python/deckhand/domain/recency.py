"""What a card remembers of its rows, so that overviews read no rows: newest dates, their numbers, the field names
in use.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from deckhand.domain.model import Model

NEWEST = 7
MAX_FIELDS, MAX_FIELD = 200, 200
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class Entry(Model):
    """A dated row; `field` and `number` only when exactly one field is a number."""

    date: str
    field: str | None = None
    number: int | float | None = None


class Recency(Model):
    """`newest` are at most seven entries, newest first; `fields` the names that rows have used, at most 200 of at
    most 200 characters; `objects` how many rows are objects.
    """

    newest: tuple[Entry, ...] = ()
    fields: tuple[str, ...] = ()
    objects: int = 0

    def with_row(self, row: Any, date_field: str) -> "Recency":
        """After one more row."""
        if not isinstance(row, Mapping):
            return self
        named = (name for name in row if len(name) <= MAX_FIELD)
        fields = tuple(dict.fromkeys((*self.fields, *named)))[:MAX_FIELDS]
        objects = self.objects + 1
        entry = _entry(row, date_field)
        if entry is None:
            return Recency(newest=self.newest, fields=fields, objects=objects)
        # A stable sort: of one date the row that came last counts as newer.
        newest = sorted((entry, *self.newest), key=lambda e: e.date, reverse=True)[:NEWEST]
        return Recency(newest=tuple(newest), fields=fields, objects=objects)


def of_rows(rows: Iterable[Any], date_field: str) -> Recency:
    """As adding the rows one by one would give it, in one pass."""
    fields: dict[str, None] = {}
    entries: list[Entry] = []
    objects = 0
    for row in rows:
        if not isinstance(row, Mapping):
            continue
        objects += 1
        if len(fields) < MAX_FIELDS:
            fields |= dict.fromkeys(name for name in row if len(name) <= MAX_FIELD)
        if (entry := _entry(row, date_field)) is not None:
            entries.append(entry)
    entries.reverse()
    newest = sorted(entries, key=lambda e: e.date, reverse=True)[:NEWEST]
    return Recency(newest=tuple(newest), fields=tuple(fields)[:MAX_FIELDS], objects=objects)


def date_field(manifest: Mapping[str, Any]) -> str:
    """`meta.view.dateField`, else `date`."""
    view = manifest["meta"].get("view")
    named = view.get("dateField") if isinstance(view, Mapping) else None
    return named if isinstance(named, str) and named else "date"


def _is_date(text: str) -> bool:
    try:
        return _DATE.fullmatch(text) is not None and date.fromisoformat(text) is not None
    except ValueError:
        return False


def _entry(row: Mapping[str, Any], name: str) -> Entry | None:
    day = row.get(name)
    if not isinstance(day, str) or not _is_date(day[:10]):
        return None
    numbers = {
        str(key): value for key, value in row.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }
    if len(numbers) != 1:
        return Entry(date=day[:10])
    ((field, number),) = numbers.items()
    if len(field) > MAX_FIELD:
        return Entry(date=day[:10])
    # Only a summary: huge integers would not survive a comparison with doubles.
    return Entry(date=day[:10], field=field, number=number if abs(number) < 2**53 else None)
