"""What operations need to know of pushing."""

from collections.abc import Callable
from dataclasses import dataclass

from deckhand.domain.push_endpoint import Resolve
from deckhand.push.addresses import addresses


def _no_key() -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class PushService:
    """`key` gives the VAPID secret, None where pushing is not set up."""

    key: Callable[[], str | None] = _no_key
    resolve: Resolve = addresses
    allow_loopback: bool = False
