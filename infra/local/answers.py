"""What comes back from a function, before it is HTTP again: a status with headers, then a body."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DELIMITER = b"\0" * 8
PRELUDE_LIMIT_BYTES = 16 * 1024
"""API Gateway wants the prelude and its delimiter within the first 16 KB."""
FRAMING = frozenset({"content-length", "transfer-encoding", "connection", "keep-alive"})
"""Headers that are the server's to write, never a function's."""


class MalformedAnswerError(Exception):
    """The function answered something that API Gateway would not accept."""


@dataclass(frozen=True)
class Prelude:
    """Status and headers of an answer. Header names are in lower case and may repeat (`set-cookie` does)."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()


@dataclass
class PreludeReader:
    """Takes the bytes of a streamed answer and parts the prelude from the body."""

    prelude: Prelude | None = None
    _head: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> bytes:
        """The body bytes in `data`; empty while the prelude is not complete. Raises MalformedAnswerError."""
        if self.prelude is not None:
            return data
        self._head += data
        head, delimiter, body = bytes(self._head).partition(DELIMITER)
        if len(head) > PRELUDE_LIMIT_BYTES:
            raise MalformedAnswerError("no delimiter within the first 16 KB")
        if not delimiter:
            return b""
        self.prelude = parse_prelude(_json_object(head))
        self._head.clear()
        return body


def parse_plain(raw: bytes) -> tuple[Prelude, bytes]:
    """A proxy answer that came whole, as the stock runtime or a buffered mode sends it. Raises MalformedAnswerError."""
    answer = _json_object(raw)
    body = answer.get("body")
    if body is not None and not isinstance(body, str):
        raise MalformedAnswerError("the body is not text")
    try:
        text = body or ""
        content = base64.b64decode(text, validate=True) if answer.get("isBase64Encoded") else text.encode()
    except ValueError as error:
        raise MalformedAnswerError("the body is not base64") from error
    return parse_prelude(answer), content


def parse_prelude(answer: Mapping[str, Any]) -> Prelude:
    """Status, headers and cookies. A pair in both header maps counts once, as API Gateway merges them."""
    status = answer.get("statusCode")
    if not isinstance(status, int) or not 200 <= status <= 599:
        raise MalformedAnswerError("statusCode is missing or not one")
    many = [
        (name.lower(), str(value))
        for name, values in (answer.get("multiValueHeaders") or {}).items()
        for value in (values if isinstance(values, list) else [values])
    ]
    single = [(name.lower(), str(value)) for name, value in (answer.get("headers") or {}).items()]
    cookies = [("set-cookie", str(cookie)) for cookie in answer.get("cookies") or ()]
    pairs = [pair for pair in single if pair not in many] + many + cookies
    return Prelude(status, tuple(pair for pair in pairs if pair[0] not in FRAMING))


def _json_object(raw: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError as error:
        raise MalformedAnswerError("the answer is not JSON") from error
    if not isinstance(value, dict):
        raise MalformedAnswerError("the answer is not an object")
    return value
