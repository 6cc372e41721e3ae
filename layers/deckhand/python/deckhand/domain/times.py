"""Instants as text and the user's calendar day. The clock itself is always an argument."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def epoch(text: str) -> float:
    """The instant of an ISO 8601 text in epoch seconds; without a zone it is UTC. Raises `ValueError`."""
    return in_utc(datetime.fromisoformat(text)).timestamp()


def in_utc(given: datetime) -> datetime:
    """Without a zone it is UTC. Raises `ValueError` for one beyond the years 1 to 9999 there, which no text tells."""
    try:
        return (given if given.tzinfo else given.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise ValueError("is out of range") from None


def iso(instant: float) -> str:
    """Epoch seconds as ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def exact(instant: float) -> str:
    """The same with microseconds: texts of instants in a process are in the order of what happened."""
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def zone(name: str) -> ZoneInfo:
    """The IANA zone; `ValueError` when there is none of that name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name!r}") from None


def zone_or(name: str, other: ZoneInfo) -> ZoneInfo:
    """The IANA zone, or another where this machine has none of that name, although one may have had it."""
    try:
        return zone(name)
    except ValueError:
        return other


def local(instant: float, tz: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(instant, tz)
