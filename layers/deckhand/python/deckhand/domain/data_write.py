"""Who may write which data: the card's own switches."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date
from typing import Any

from deckhand.domain.errors import NotWriteable, OutsideDateWindow


def check_writeable(manifest: Mapping[str, Any]) -> None:
    """Raises `NotWriteable` unless `meta.writeable.fromWebapp` is true."""
    writeable = manifest["meta"].get("writeable")
    if not isinstance(writeable, Mapping) or writeable.get("fromWebapp") is not True:
        raise NotWriteable()


def check_dates(
    manifest: Mapping[str, Any], new: Iterable[str], today: date, *, known: Callable[[], Collection[str]]
) -> None:
    """New rows of a person must lie in the card's window; rows of dates that are there may always be edited.

    `known` gives those dates, and is asked only when one lies outside. `todayAllowed` is true unless it says false;
    `pastAllowed` and `futureAllowed` must say true. Raises `OutsideDateWindow`.
    """
    writeable = manifest["meta"].get("writeable")
    window = writeable if isinstance(writeable, Mapping) else {}
    outside = [text for text in new if not _allowed(window, text, today)]
    there = known() if outside else ()
    if refused := [text for text in outside if text not in there]:
        raise OutsideDateWindow(f"This card does not take entries for {refused[0][:40]}.")


def _allowed(window: Mapping[str, Any], text: str, today: date) -> bool:
    past, future = window.get("pastAllowed") is True, window.get("futureAllowed") is True
    now = window.get("todayAllowed") is not False
    try:
        day = date.fromisoformat(text[:10])
    except ValueError:
        # What is no date is in no window, so that nothing passes by being written oddly.
        return past and now and future
    return now if day == today else past if day < today else future
