"""The keys of a push subscription (RFC 8291, section 3): a point on P-256 and a secret of 16 bytes."""

from deckhand.domain.base64url import from_base64, to_base64url
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
    return to_base64url(raw)


def checked_secret(text: str) -> str:
    """`auth` as unpadded base64url. Raises `InvalidSubscription`."""
    raw = _bytes(text, "auth")
    if len(raw) != SECRET_BYTES:
        raise InvalidSubscription("keys.auth must have 16 bytes, in base64url.")
    return to_base64url(raw)


def _bytes(text: str, name: str) -> bytes:
    raw = from_base64(text)
    if raw is None:
        raise InvalidSubscription(f"keys.{name} is not base64url.")
    return raw


def _on_curve(raw: bytes) -> bool:
    x, y = int.from_bytes(raw[1:33]), int.from_bytes(raw[33:])
    return x < _P and y < _P and (y * y - (x * x * x - 3 * x + _B)) % _P == 0
