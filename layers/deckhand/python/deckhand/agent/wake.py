"""A model that sleeps until it is asked for: what a conductor tells of its pod, and when a turn may begin (seed 002).

Pure rules and the port. `agent/conductor.py` is the port over HTTP.
"""

import ipaddress
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol
from urllib.parse import urlsplit

from deckhand.domain.errors import GatewayError

WakeMode = Literal["wait", "resume"]
Standing = Literal["ready", "starting", "stopped"]


class WakeFailed(GatewayError):
    """Nothing reliable is known of the pod, or it could not be started. The message is a word for the log."""

    code = "wake_failed"


@dataclass(frozen=True, slots=True)
class PodStatus:
    """What the conductor said a moment ago. `state` is its own word; `endpoint` the full URL of chat completions;
    `ready_since` an ISO 8601 instant with its offset, None while the model is still loading.
    """

    state: str
    endpoint: str | None = None
    ready_since: str | None = None


class Wakeable(Protocol):
    """One pod behind the model. Blocking, each call a few seconds at most."""

    @property
    def pod(self) -> str: ...

    def status(self) -> PodStatus:
        """Asked anew each time, never from a cache. Raises `WakeFailed` when it cannot be read."""
        ...

    def start(self) -> None:
        """Asks for a start, which costs money, exactly once. Raises `WakeFailed` when it is not sure to have been
        accepted.
        """
        ...


def standing(status: PodStatus, *, now: float) -> Standing:
    """Raises `WakeFailed` on a state that is none of ours, or an instant of readiness that cannot be."""
    if status.state == "stopped":
        return "stopped"
    if status.state not in ("starting", "running"):
        raise WakeFailed("unknown state")
    if status.state == "starting" or status.ready_since is None:
        return "starting"
    since = instant(status.ready_since)
    if since is None or since > now:
        raise WakeFailed("bad readySince")
    return "ready"


def instant(text: str) -> float | None:
    """Epoch seconds of an ISO 8601 instant; None when it is none, or names no offset."""
    try:
        told = datetime.fromisoformat(text)
        return None if told.tzinfo is None else told.timestamp()
    except (ValueError, OverflowError):
        return None


def safe_endpoint(url: str | None, *, configured: str) -> bool:
    """Whether prompts and the gateway's key may be sent there: https at a public host, or whatever scheme and host the
    deployment's own gateway has (plain http on loopback in tests).
    """
    place = _place(url)
    if place is None:
        return False
    scheme, host = place
    return place == _place(configured) or (scheme == "https" and _public(host))


def _place(url: str | None) -> tuple[str, str] | None:
    """Scheme and host of an address without anything odd in it."""
    if url is None or not url.isascii() or not url.isprintable() or any(sign in url for sign in " \\#"):
        return None
    try:
        parts = urlsplit(url)
        if parts.port == 0:
            return None
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        return None
    return parts.scheme, parts.hostname


def _public(host: str) -> bool:
    """A name, or an address of the open internet; never a number that some resolvers read as an address."""
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        last = host.rstrip(".").rpartition(".")[2]
        return last != "localhost" and not last.isdecimal() and not last.startswith("0x")
