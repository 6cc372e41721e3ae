"""Which addresses a push may be sent to: whoever subscribes names one, so it must never lead into a private network
(bug case 65).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

from deckhand.domain.errors import InvalidSubscription

MAX_LENGTH = 2_048
PUSH_HOSTS = (
    "fcm.googleapis.com",
    "android.googleapis.com",
    "push.services.mozilla.com",
    "push.apple.com",
    "notify.windows.com",
)
"""The push services of the browsers; each stands for itself and all names below it."""

_PRINTABLE = re.compile(r"[!-\[\]-~]+")
"""Printable ASCII without the backslash, which some clients read as a slash."""
_NAME = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMERIC = re.compile(r"\d+|0x[0-9a-f]*")
"""A last label of which clients make an IPv4 address, in whatever form the others have."""
_UNICAST = IPv6Network("2000::/3")
_LOOPBACK = ("127.0.0.1", "localhost")

Resolve = Callable[[str], Sequence[str]]
"""All addresses of a host, as text. Raises `UnknownHost`."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`target` is what follows the origin. A `trusted` host is sent to by its name, whatever that resolves to."""

    url: str
    scheme: str
    host: str
    port: int
    target: str
    trusted: bool

    @property
    def origin(self) -> str:
        """In the form of VAPID's `aud` (RFC 8292, section 2)."""
        usual = self.port == (443 if self.scheme == "https" else 80)
        return f"{self.scheme}://{self.host}" if usual else f"{self.scheme}://{self.host}:{self.port}"


def parse_endpoint(url: str, *, allow_loopback: bool = False) -> Endpoint:
    """Raises `InvalidSubscription`. `allow_loopback` lets plain http to this machine pass, for tests."""
    if len(url) > MAX_LENGTH:
        raise InvalidSubscription(f"The endpoint has over {MAX_LENGTH:,} characters.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise InvalidSubscription("The endpoint is no address.") from None
    if not _PRINTABLE.fullmatch(url) or "@" in parts.netloc or parts.fragment:
        raise InvalidSubscription("The endpoint is no address of a push service.")
    if allow_loopback and parts.scheme == "http" and host in _LOOPBACK:
        return Endpoint(url, "http", host, port or 80, _target(parts), trusted=True)
    if parts.scheme != "https" or port not in (None, 443):
        raise InvalidSubscription("The endpoint must be an https address on port 443.")
    if not _is_public_name(host):
        raise InvalidSubscription("The endpoint must be on a public host.")
    known = any(host == name or host.endswith(f".{name}") for name in PUSH_HOSTS)
    return Endpoint(url, "https", host, 443, _target(parts), trusted=known)


def connect_to(endpoint: Endpoint, resolve: Resolve) -> str:
    """The host or address to connect to: of a host that nobody knows, an address that was looked at here, so that no
    second look-up can lead elsewhere. Raises `InvalidSubscription`, and what `resolve` raises.
    """
    if endpoint.trusted:
        return endpoint.host
    addresses = resolve(endpoint.host)
    if not addresses or not all(is_public(address) for address in addresses):
        raise InvalidSubscription("The endpoint must be on a public host.")
    return addresses[0]


def is_public(address: str) -> bool:
    """Whether the address is one of the open internet, by IANA's registries of special addresses."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv4Address):
        return found.is_global and not found.is_multicast
    return found in _UNICAST and found.is_global and _carries_public(found)


def _carries_public(address: IPv6Address) -> bool:
    """A 6to4 address leads to the IPv4 address in it."""
    return address.sixtofour is None or is_public(str(address.sixtofour))


def _is_public_name(host: str) -> bool:
    if not _NAME.fullmatch(host):
        return False
    return not _NUMERIC.fullmatch(host.rpartition(".")[2]) or is_public(host)


def _target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
