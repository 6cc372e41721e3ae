"""How long a server asks to be left alone (RFC 9110, section 10.2.3; `retry-after-ms` is OpenAI's)."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?")


def retry_after(headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds; None when nothing usable is said. Plain numbers and dates only: `float` would also take `inf`, `nan`
    and `1e9` (bug case 17).
    """
    milliseconds = headers.get("retry-after-ms", "").strip()
    if _NUMBER.fullmatch(milliseconds):
        return float(milliseconds) / 1000
    value = headers.get("retry-after", "").strip()
    if _NUMBER.fullmatch(value):
        return float(value)
    try:
        wait = parsedate_to_datetime(value).timestamp() - now
    except (ValueError, TypeError, OverflowError):
        return None
    return wait if wait >= 0 else None
