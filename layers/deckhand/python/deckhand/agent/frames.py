"""Bytes of a server-sent event stream to the texts of its `data` fields.

Lines end at LF, CR or CRLF and nowhere else (bug case 15): the cut is made on bytes, so a character that is split
over two reads is whole again before it is decoded.
"""

import re
from collections.abc import Iterator

_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
MAX_LINE_BYTES = 32 * 1024 * 1024


class LineTooLong(Exception):
    """No stream of a chat service has a line of this size."""


class Lines:
    """Cuts a stream of bytes into lines, however the bytes were split on their way."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The lines that are complete now, without their ends. Raises `LineTooLong`."""
        if self._after_cr and chunk:
            # The LF of a CRLF that was split ends nothing of its own.
            chunk = chunk[1:] if chunk.startswith(b"\n") else chunk
            self._after_cr = False
        start = 0
        for end in _END.finditer(chunk):
            self._keep(chunk[start : end.start()])
            start = end.end()
            self._after_cr = end.group() == b"\r" and start == len(chunk)
            yield self._line()
        self._keep(chunk[start:])

    def rest(self) -> str:
        """What came after the last line end."""
        return self._line()

    def _keep(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self._size += len(part)
        if self._size > MAX_LINE_BYTES:
            raise LineTooLong()

    def _line(self) -> str:
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        return line.decode("utf-8", "replace")


class Frames:
    """Cuts a stream of bytes into the texts of `data` fields, comments and other fields left out (bug case 13).

    An object that is whole on its own line, and `[DONE]`, do not wait for the blank line that ends their event: some
    gateways never send it.
    """

    def __init__(self) -> None:
        self._lines = Lines()
        self._pending: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The data texts that are complete now. Raises `LineTooLong`."""
        for line in self._lines.feed(chunk):
            yield from self._take(line)

    def rest(self) -> Iterator[str]:
        """What an event holds that the end of the stream left open: whole or not."""
        yield from self._take(self._lines.rest())
        yield from self._flush()

    def _take(self, line: str) -> Iterator[str]:
        if not line:
            yield from self._flush()
            return
        field, _, value = line.partition(":")
        if field != "data":
            return
        value = value.removeprefix(" ")
        alone = value.strip()
        if not self._pending and (alone == "[DONE]" or (alone.startswith("{") and alone.endswith("}"))):
            yield value
        else:
            self._pending.append(value)

    def _flush(self) -> Iterator[str]:
        if self._pending:
            text = "\n".join(self._pending)
            self._pending = []
            if text.strip():
                yield text
