"""A device that takes pushes."""

import hashlib

from deckhand.domain.model import Model

MAX_SUBSCRIPTIONS = 20


class Subscription(Model):
    """`endpoint` and keys as the browser's `PushSubscription` has them, keys as unpadded base64url. Instants are ISO
    8601; `seen_at` moves whenever the device is heard of.
    """

    endpoint: str
    p256dh: str
    auth: str
    nickname: str = ""
    created_at: str
    seen_at: str

    @property
    def id(self) -> str:
        return subscription_id(self.endpoint)


def subscription_id(endpoint: str) -> str:
    """An endpoint may be longer than a key, and whoever has it can push."""
    return hashlib.sha256(endpoint.encode()).hexdigest()
