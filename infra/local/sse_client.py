"""Reading server-sent events as the specification says: lines end at LF, CR or CRLF and nowhere else. Pure.

https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_LINE_END = re.compile(rb"\r\n?|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ID_DIGITS = 15


class MalformedEventError(Exception):
    """The stream holds an event whose data is no JSON object: whoever speaks there is not Deckhand."""


@dataclass(frozen=True)
class Message:
    """One event. `id` is None for what has none."""

    id: int | None
    event: str
    data: dict[str, Any]


@dataclass
class EventReader:
    """Feed it bytes as they come; it gives whole events. What a stream holds after its last blank line is no event."""

    _rest: list[bytes] = field(default_factory=list)
    _after_cr: bool = False
    _first: bool = True
    _id: int | None = None
    _event: str = ""
    _data: list[str] = field(default_factory=list)

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Raises MalformedEventError."""
        for line in self._lines(chunk):
            if line:
                self._field(line.decode("utf-8", "replace"))
            elif (message := self._dispatch()) is not None:
                yield message

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that end in `chunk`. A CR ends one at once; an LF that follows it belongs to it."""
        if self._after_cr and chunk:
            chunk, self._after_cr = chunk.removeprefix(b"\n"), False
        start = 0
        for end in _LINE_END.finditer(chunk):
            yield self._whole(chunk[start : end.start()])
            start = end.end()
            self._after_cr = start == len(chunk) and end[0] == b"\r"
        if start < len(chunk):
            self._rest.append(chunk[start:])

    def _whole(self, end: bytes) -> bytes:
        line = b"".join([*self._rest, end])
        self._rest.clear()
        if self._first:
            line, self._first = line.removeprefix(_BYTE_ORDER_MARK), False
        return line

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and value.isascii() and value.isdigit() and len(value) <= _ID_DIGITS:
            self._id = int(value)

    def _dispatch(self) -> Message | None:
        text, event, event_id = "\n".join(self._data), self._event or "message", self._id
        self._data, self._event, self._id = [], "", None
        if not text:
            return None
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise MalformedEventError("the data of an event is not a JSON object")
        return Message(event_id, event, data)
