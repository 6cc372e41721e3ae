"""JSON as Deckhand accepts and keeps it: nothing that cannot be read back exactly (api.md section 4, Fidelity)."""

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from deckhand.domain.errors import InvalidJson

MAX_DEPTH = 64
# A string that is not closed runs to the end, and nothing is tried twice: the time is linear in any text.
_BRACKET_OR_STRING = re.compile(r'[\[\]{}]|"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


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


def _too_deep(text: str) -> bool:
    """Whether brackets outside strings nest over `MAX_DEPTH`; checked first, as the parser itself recurses."""
    # Cheap bound first: only a text with that many opening brackets can nest that deep.
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    depth = 0
    for found in _BRACKET_OR_STRING.finditer(text):
        bracket = found.group()
        if bracket in ("[", "{"):
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif bracket in ("]", "}"):
            depth -= 1
    return False


def loads(text: str | bytes) -> Any:
    """Parses strictly. Raises `InvalidJson` for anything that is not JSON, and for NaN, infinities, a name twice in
    one object, nesting over 64, lone surrogates and bytes that are not UTF-8.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode()
        else:
            text.encode()
        if _too_deep(text):
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


def bounded_dumps(value: Any) -> str:
    """As `dumps`, for what is put together from parts: raises `InvalidJson` where it nests over 64."""
    text = dumps(value)
    if _too_deep(text):
        raise InvalidJson("The JSON nests too deep.")
    return text
