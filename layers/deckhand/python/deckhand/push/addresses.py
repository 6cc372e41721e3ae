"""Where host names lead."""

import socket

from deckhand.domain.errors import UnknownHost


def addresses(host: str) -> list[str]:
    """All addresses of a host, in the system's order of preference. Raises `UnknownHost`."""
    try:
        found = socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UnknownHost() from None
    return [str(address[0]) for *_, address in found]
