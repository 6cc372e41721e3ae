"""The keys of a push subscription (RFC 8291, section 3): a point on P-256 and a secret of 16 bytes."""

import base64
import binascii

from deckhand.domain.errors import InvalidSubscription

POINT_BYTES, SECRET_BYTES = 65, 16
# P-256's field and its constant (FIPS 186-5): y² = x³ - 3x + b.
_P = 2**256 - 2**224 + 2**192 + 2**96 - 1
_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B


def checked_point(text: str) -> str:
    """`p256dh` as unpadded base64url. Raises `InvalidSubscription`."""
    raw = _bytes(text, "p256dh")
    if len(raw) != POINT_BYTES or raw[0] != 4 or not _on_curve(raw):
        raise InvalidSubscription("keys.p256dh must be an uncompressed point on P-256, in base64url.")
    return unpadded(raw)


def checked_secret(text: str) -> str:
    """`auth` as unpadded base64url. Raises `InvalidSubscription`."""
    raw = _bytes(text, "auth")
    if len(raw) != SECRET_BYTES:
        raise InvalidSubscription("keys.auth must have 16 bytes, in base64url.")
    return unpadded(raw)


def unpadded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str, name: str) -> bytes:
    """From base64 or base64url, padded or not."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidSubscription(f"keys.{name} is not base64url.") from None


def _on_curve(raw: bytes) -> bool:
    x, y = int.from_bytes(raw[1:33]), int.from_bytes(raw[33:])
    return x < _P and y < _P and (y * y - (x * x * x - 3 * x + _B)) % _P == 0
