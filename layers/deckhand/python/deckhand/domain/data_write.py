"""Who may write which data: the card's own switches."""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from deckhand.domain.errors import NotWriteable, OutsideDateWindow


def check_writeable(manifest: Mapping[str, Any]) -> None:
    """Raises `NotWriteable` unless `meta.writeable.fromWebapp` is true."""
    writeable = manifest["meta"].get("writeable")
    if not isinstance(writeable, Mapping) or writeable.get("fromWebapp") is not True:
        raise NotWriteable()


def check_dates(manifest: Mapping[str, Any], known: Iterable[str], new: Iterable[str], today: date) -> None:
    """New rows of a person must lie in the card's window; rows of dates that are there may always be edited.

    `todayAllowed` is true unless it says false; `pastAllowed` and `futureAllowed` must say true. Raises
    `OutsideDateWindow`.
    """
    writeable = manifest["meta"].get("writeable")
    window = writeable if isinstance(writeable, Mapping) else {}
    there, now = set(known), today.isoformat()
    for day in new:
        if day in there:
            continue
        allowed = (
            window.get("todayAllowed") is not False
            if day == now
            else window.get("pastAllowed") is True
            if day < now
            else window.get("futureAllowed") is True
        )
        if not allowed:
            raise OutsideDateWindow(f"This card does not take entries for {day}.")
