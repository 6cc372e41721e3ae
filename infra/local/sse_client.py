"""Reading server-sent events as the specification says: lines end at LF, CR or CRLF and nowhere else. Pure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Message:
    """One event. `id` is None for what has none."""

    id: int | None
    event: str
    data: dict[str, Any]


@dataclass
class EventReader:
    """Feed it bytes as they come; it gives whole events."""

    _rest: bytes = b""
    _after_cr: bool = False
    _id: int | None = None
    _event: str = "message"
    _data: list[str] = field(default_factory=list)

    def feed(self, chunk: bytes) -> Iterator[Message]:
        for line in self._lines(chunk):
            if line:
                self._field(line.decode("utf-8", "replace"))
            elif (message := self._dispatch()) is not None:
                yield message

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        start = 0
        for at, byte in enumerate(chunk):
            if byte == 0x0A and self._after_cr:
                start, self._after_cr = at + 1, False
                continue
            self._after_cr = byte == 0x0D
            if byte in (0x0A, 0x0D):
                yield self._rest + chunk[start:at]
                self._rest, start = b"", at + 1
        self._rest += chunk[start:]

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and value.isdigit():
            self._id = int(value)

    def _dispatch(self) -> Message | None:
        data, event, event_id = "\n".join(self._data), self._event, self._id
        self._data, self._event, self._id = [], "message", None
        return Message(event_id, event, json.loads(data)) if data else None
