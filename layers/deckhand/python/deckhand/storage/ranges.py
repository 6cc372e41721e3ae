"""Which sort keys a query asks for, as one half-open range in the byte order of UTF-8 (which is the order of code
points), so that both engines seek to it instead of filtering.
"""

from dataclasses import dataclass

from deckhand.storage.port import text_bytes

_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys above `after`, from `start` on, and below `end`; None leaves that side open."""

    start: str | None
    after: str | None
    end: str | None

    @property
    def low(self) -> str | None:
        """The lowest bound, which itself may be in the range or not."""
        return max((bound for bound in (self.start, self.after) if bound is not None), default=None)

    @property
    def is_empty(self) -> bool:
        return self.end is not None and (self.low or "") >= self.end

    def holds(self, sk: str) -> bool:
        return (
            (self.start is None or sk >= self.start)
            and (self.after is None or sk > self.after)
            and (self.end is None or sk < self.end)
        )


def key_range(prefix: str, after: str | None, before: str | None, *, backwards: bool, cursor: str | None) -> KeyRange:
    """A cursor is the last key that was handed out. Raises `StorageError` on a lone surrogate, which has no bytes."""
    for text in (prefix, after, before, cursor):
        text_bytes(text or "")
    lows = [bound for bound in (after, None if backwards else cursor) if bound]
    ends = [bound for bound in (before, cursor if backwards else None, _next_prefix(prefix)) if bound is not None]
    return KeyRange(start=prefix or None, after=max(lows, default=None), end=min(ends, default=None))


def _next_prefix(prefix: str) -> str | None:
    """The first text after everything that begins with `prefix`; None when nothing comes after."""
    stem = prefix.rstrip(chr(_LAST_CODE_POINT))
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    if following in _SURROGATES:
        following = _SURROGATES.stop
    return stem[:-1] + chr(following)
