"""JSON as Deckhand accepts and keeps it: nothing that cannot be read back exactly (api.md section 4, Fidelity)."""

import json
import math
from collections.abc import Iterable
from typing import Any

from deckhand.domain.errors import InvalidJson

MAX_DEPTH = 64


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise InvalidJson("A name stands twice in one object.")
        found[name] = value
    return found


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise InvalidJson("A number is too large.")
    return value


def _no_constant(name: str) -> Any:
    raise InvalidJson(f"{name} is not JSON.")


def _integer(text: str) -> int:
    # int() refuses more than 4,300 digits to bound its quadratic time (CVE-2020-10735).
    try:
        return int(text)
    except ValueError:
        raise InvalidJson("A number has too many digits.") from None


def _depth_over(text: str, limit: int) -> bool:
    """Whether brackets outside strings nest deeper than `limit`; checked first, as the parser itself recurses."""
    depth, in_string, escaped = 0, False, False
    for char in text:
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            if depth > limit:
                return True
        elif char in "]}":
            depth -= 1
    return False


def loads(text: str | bytes) -> Any:
    """Parses strictly. Raises `InvalidJson` for anything that is not JSON, and for NaN, infinities, a name twice in
    one object,
    nesting over 64, lone surrogates and bytes that are not UTF-8."""
    try:
        if isinstance(text, bytes):
            text = text.decode()
        else:
            text.encode()
        # Cheap bound first: only a text with that many opening brackets can nest that deep.
        if text.count("[") + text.count("{") > MAX_DEPTH and _depth_over(text, MAX_DEPTH):
            raise InvalidJson("The JSON nests too deep.")
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite, parse_int=_integer
        )
        if "\\u" in text:
            # Escaped lone surrogates parse in Python, but no UTF-8 text can hold them.
            dumps(value).encode()
    except (UnicodeError, ValueError, RecursionError):
        raise InvalidJson() from None
    return value


def dumps(value: Any) -> str:
    """Compact JSON text; any Unicode as it is. NaN and infinities are refused with `ValueError`."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
