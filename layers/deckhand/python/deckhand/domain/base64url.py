"""Base64 in its forms: written in one, read in all (bug case 68)."""

import base64
import binascii


def to_base64url(data: bytes) -> str:
    """Unpadded and url-safe: the one form in which ids and keys are kept."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64(text: str) -> bytes | None:
    """From any form: url-safe or standard, padded or not. None when it is none of them."""
    bare = text.rstrip("=").replace("+", "-").replace("/", "_")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
