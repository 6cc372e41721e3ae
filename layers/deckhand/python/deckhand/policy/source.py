"""Where things stand in a policy text: Cedar's parser says what is wrong, and not where."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TOKEN = re.compile(r'\s+|//[^\n\r]*|"(?:\\.|[^"\\])*"|\w+|::|==|!=|<=|>=|&&|\|\||.', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text that is neither a blank nor a comment; `start` and `end` are offsets."""

    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Statement:
    """One policy's tokens; the last one is its semicolon, unless the text ends before."""

    tokens: Sequence[Token]

    @property
    def start(self) -> int:
        return self.tokens[0].start

    @property
    def end(self) -> int:
        return self.tokens[-1].end


def statements(text: str) -> list[Statement]:
    found: list[Statement] = []
    pending: list[Token] = []
    for match in _TOKEN.finditer(text):
        token = Token(match.group(), match.start())
        if token.text.isspace() or token.text.startswith("//"):
            continue
        pending.append(token)
        if token.text == ";":
            found.append(Statement(pending))
            pending = []
    return [*found, Statement(pending)] if pending else found


def place(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1; columns count characters."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def offset_of(text: str, statement: Statement, words: Sequence[str]) -> int:
    """Where the first of the words stands in a statement, its start where none does."""
    for word in words:
        whole = re.compile(re.escape(word) + (r"\b" if word[-1].isalnum() else ""))
        for token in statement.tokens:
            if whole.match(text, token.start):
                return token.start
    return statement.start
