"""One push to one device. The only file that imports pywebpush, and itself imported late: it takes its time.

pywebpush encrypts (RFC 8291); the request is made here, since it goes to an address that was checked, follows no
redirect, and must not read what the other side likes to answer.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pywebpush import WebPusher  # type: ignore[import-untyped]
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, Timeout
from urllib3.exceptions import HTTPError

from deckhand.agent.retry_after import retry_after
from deckhand.domain.errors import InvalidSubscription, PushNotConfigured, UnknownHost
from deckhand.domain.push_endpoint import Endpoint, Resolve, connect_to, parse_endpoint
from deckhand.domain.subscription import Subscription
from deckhand.push.outcome import Outcome
from deckhand.push.vapid import signed

logger = logging.getLogger(__name__)

TTL_S = 12 * 3600
"""How long the push service keeps it for a device that is off, and how long the signature holds; services refuse one
that holds over 24 hours."""
CONNECT_S, READ_S = 5.0, 10.0


@dataclass(frozen=True, slots=True)
class Sender:
    """`key` gives the VAPID secret, `subject` is whom a push service may write to about us."""

    key: Callable[[], str | None]
    subject: str
    resolve: Resolve
    now: Callable[[], float]
    allow_loopback: bool = False

    def __call__(self, subscription: Subscription, payload: bytes, *, topic: str) -> Outcome:
        """Blocking, for at most some twenty seconds."""
        try:
            endpoint = parse_endpoint(subscription.endpoint, allow_loopback=self.allow_loopback)
            address = connect_to(endpoint, self.resolve)
            headers = self._headers(endpoint, topic)
        except InvalidSubscription:
            return Outcome("failed")
        except PushNotConfigured:
            logger.error("no push can be sent: there is no key for them that can be read")
            return Outcome("failed")
        except UnknownHost:
            return Outcome("later")
        try:
            status, answered = post(endpoint, address, _encrypted(subscription, payload), headers)
        except (HTTPError, OSError):
            return Outcome("later")
        return _outcome(status, retry_after(answered, now=self.now()))

    def _headers(self, endpoint: Endpoint, topic: str) -> dict[str, str]:
        # Claims of its own for each push: their audience is this service, and they run out (bug case 63).
        claims = {"aud": endpoint.origin, "exp": int(self.now()) + TTL_S, "sub": self.subject}
        return {
            **signed(self.key() or "", claims),
            "Host": endpoint.origin.partition("://")[2],
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(TTL_S),
            "Urgency": "normal",
            "Topic": topic,
        }


def _encrypted(subscription: Subscription, payload: bytes) -> bytes:
    keys = {"p256dh": subscription.p256dh, "auth": subscription.auth}
    pusher = WebPusher({"endpoint": subscription.endpoint, "keys": keys})
    body: bytes = pusher.encode(payload)["body"]
    return body


def post(endpoint: Endpoint, address: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str]]:
    """Connects to `address`, in the name of the endpoint's host. Status and headers, which have lower-case names.
    Raises `HTTPError`, `OSError`.
    """
    options: dict[str, Any] = {"timeout": Timeout(connect=CONNECT_S, read=READ_S), "retries": False, "maxsize": 1}
    pool = (
        HTTPSConnectionPool(
            address, endpoint.port, server_hostname=endpoint.host, assert_hostname=endpoint.host, **options
        )
        if endpoint.scheme == "https"
        else HTTPConnectionPool(address, endpoint.port, **options)
    )
    with pool:
        answer = pool.urlopen(
            "POST", endpoint.target, body=body, headers=headers, redirect=False, preload_content=False
        )
        answer.close()
        return answer.status, {name.lower(): value for name, value in answer.headers.items()}


def _outcome(status: int, wait: float | None) -> Outcome:
    if 200 <= status < 300:
        return Outcome("sent")
    if status in (404, 410):
        return Outcome("gone")
    if status == 413:
        return Outcome("too_large")
    if status == 429 or status >= 500:
        return Outcome("later", wait)
    return Outcome("failed")
