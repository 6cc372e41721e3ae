"""What a card remembers of its rows, so that overviews read no rows: newest dates, their numbers, the field names
in use.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from deckhand.domain.model import Model

NEWEST = 7
MAX_FIELDS = 200
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class Entry(Model):
    """A dated row; `field` and `number` only when exactly one field is a number."""

    date: str
    field: str | None = None
    number: int | float | None = None


class Recency(Model):
    """`newest` are at most seven entries, newest first; `fields` the names that rows have used."""

    newest: tuple[Entry, ...] = ()
    fields: tuple[str, ...] = ()

    def with_row(self, row: Any, date_field: str) -> "Recency":
        """After one more row."""
        if not isinstance(row, Mapping):
            return self
        fields = tuple(dict.fromkeys((*self.fields, *map(str, row))))[:MAX_FIELDS]
        entry = _entry(row, date_field)
        if entry is None:
            return Recency(newest=self.newest, fields=fields)
        # A stable sort: of one date the row that came last counts as newer.
        newest = sorted((entry, *self.newest), key=lambda e: e.date, reverse=True)[:NEWEST]
        return Recency(newest=tuple(newest), fields=fields)


def of_rows(rows: Iterable[Any], date_field: str) -> Recency:
    recency = Recency()
    for row in rows:
        recency = recency.with_row(row, date_field)
    return recency


def date_field(manifest: Mapping[str, Any]) -> str:
    """`meta.view.dateField`, else `date`."""
    view = manifest["meta"].get("view")
    named = view.get("dateField") if isinstance(view, Mapping) else None
    return named if isinstance(named, str) and named else "date"


def _entry(row: Mapping[str, Any], name: str) -> Entry | None:
    date = row.get(name)
    if not isinstance(date, str) or _DATE.match(date) is None:
        return None
    numbers = {
        str(key): value for key, value in row.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }
    if len(numbers) != 1:
        return Entry(date=date[:10])
    ((field, number),) = numbers.items()
    # Only a summary: huge integers would not survive a comparison with doubles.
    return Entry(date=date[:10], field=field, number=number if abs(number) < 2**53 else None)
