"""Instants as text and the user's calendar day. The clock itself is always an argument."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def epoch(text: str) -> float:
    """The instant of an ISO 8601 text in epoch seconds; without a zone it is UTC. Raises `ValueError`."""
    found = datetime.fromisoformat(text)
    try:
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except OverflowError:
        raise ValueError(f"{text!r} is out of range") from None


def iso(instant: float) -> str:
    """Epoch seconds as ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def zone(name: str) -> ZoneInfo:
    """The IANA zone; `ValueError` when there is none of that name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name!r}") from None


def local(instant: float, tz: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(instant, tz)
