"""Instants as text and the user's calendar day. The clock itself is always an argument."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def epoch(text: str) -> float:
    """The instant of an ISO 8601 text, as `iso` writes it, in epoch seconds."""
    return datetime.fromisoformat(text).timestamp()


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
