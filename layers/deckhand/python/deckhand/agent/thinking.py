"""Parts a model's thinking from what a person may read, where a gateway leaves it in the content (bug case 20).

A tag counts at the beginning of the content or of a line, outside fenced code: an answer may speak of the tags.
"""

import re
from collections.abc import Iterator

OPENERS = ("<think>", "<thinking>", "<thought>")
CLOSERS = ("</think>", "</thinking>", "</thought>")
_FENCES = ("```", "~~~")
_BARE_CLOSER = re.compile(r"^[ \t]*</(?:think|thinking|thought)>", re.MULTILINE)


class ThinkingSplitter:
    """Feed it pieces of content; it gives `(visible, reasoning)` pieces. Any split gives the same texts."""

    def __init__(self) -> None:
        self._held = ""
        self._closer: str | None = None
        self._line_start = True
        self._head = True
        self._trim = False
        self._fenced = False
        self.tagged = False

    def feed(self, text: str) -> Iterator[tuple[str, str]]:
        self._held += text
        while self._held:
            before = self._held
            yield from self._inside() if self._closer else self._outside()
            if self._held == before:
                return

    def rest(self) -> Iterator[tuple[str, str]]:
        """What was held back because it could have been the beginning of a tag."""
        held, self._held = self._held, ""
        if held and self._closer:
            yield "", held
        elif shown := held.lstrip() if self._trim else held:
            yield shown, ""

    def _inside(self) -> Iterator[tuple[str, str]]:
        closer = self._closer or ""
        at = self._held.find(closer)
        if at >= 0:
            thought, self._held = self._held[:at], self._held[at + len(closer) :]
            self._closer, self._line_start, self._trim = None, True, True
        else:
            keep = _open_end(self._held, closer)
            thought, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        if thought:
            yield "", thought

    def _outside(self) -> Iterator[tuple[str, str]]:
        if self._line_start:
            line = self._held.lstrip() if self._head or self._trim else self._held.lstrip(" \t")
            if self._tag(line) or _may_become(line, self._candidates()):
                return
            if self._trim:
                self._held, self._trim = line, False
            if line.startswith(_FENCES):
                self._fenced = not self._fenced
            self._line_start = self._head = False
        end = self._held.find("\n") + 1
        shown = self._held[:end] if end else self._held
        self._held = self._held[len(shown) :]
        self._line_start = bool(end)
        yield shown, ""

    def _candidates(self) -> tuple[str, ...]:
        tags = () if self._fenced else OPENERS
        closers = CLOSERS if self._head or self._trim else ()
        return (*tags, *closers, *_FENCES)

    def _tag(self, line: str) -> bool:
        """Takes a tag off the beginning of the line, when there is one that counts here."""
        for opener, closer in zip(OPENERS, CLOSERS, strict=True):
            if not self._fenced and line.startswith(opener):
                self._closer, self._held, self.tagged = closer, line[len(opener) :], True
                return True
            if (self._head or self._trim) and line.startswith(closer):
                self._held, self._trim, self.tagged = line[len(closer) :], True, True
                return True
        return False


def without_bare_thinking(text: str) -> tuple[str, str]:
    """`(visible, reasoning)` of a whole text in which only the closing tag was written, at the beginning of a line:
    some chat templates write the opening one themselves. Fenced code is left alone.
    """
    for found in reversed(list(_BARE_CLOSER.finditer(text))):
        if text.count("```", 0, found.start()) % 2 == 0:
            return text[found.end() :].lstrip(), text[: found.start()]
    return text, ""


def _may_become(line: str, candidates: tuple[str, ...]) -> bool:
    return any(len(line) < len(candidate) and candidate.startswith(line) for candidate in candidates)


def _open_end(text: str, tag: str) -> int:
    """Length of the longest end of `text` that begins `tag`."""
    return next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:size])), 0)
