"""Who pushes: the key pair with which this deployment signs (VAPID, RFC 8292). The only file that imports py_vapid,
and late, since cryptography takes its time.

A key is 32 bytes in base64url, as `deckhand vapid` prints it; PEM and DER in base64 are taken as well.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from deckhand.domain.base64url import to_base64url
from deckhand.domain.errors import PushNotConfigured

if TYPE_CHECKING:
    from py_vapid import Vapid02  # type: ignore[import-untyped]


def new_key() -> str:
    from cryptography.hazmat.primitives.asymmetric import ec

    return to_base64url(ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value.to_bytes(32))


def public_key(secret: str) -> str:
    """The point that browsers want as `applicationServerKey`, in unpadded base64url. Raises `PushNotConfigured`."""
    from cryptography.hazmat.primitives import serialization

    encoding, form = serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    return to_base64url(_read(secret).public_key.public_bytes(encoding, form))


def key_id(public: str) -> str:
    """Changes with the key, so that a page knows when to subscribe anew."""
    return hashlib.sha256(public.encode()).hexdigest()[:8]


def signed(secret: str, claims: Mapping[str, Any]) -> dict[str, str]:
    """The headers that prove it; the claims are copied, never written to (bug case 63). Raises `PushNotConfigured`."""
    headers: dict[str, str] = _read(secret).sign(dict(claims))
    return headers


@lru_cache(maxsize=4)
def _read(secret: str) -> "Vapid02":
    from py_vapid import Vapid02

    text = secret.strip()
    try:
        if text.startswith("-----BEGIN"):
            return Vapid02.from_pem(text.encode())
        return Vapid02.from_string(text)
    except (ValueError, TypeError):
        raise PushNotConfigured("The key for pushes cannot be read.") from None
