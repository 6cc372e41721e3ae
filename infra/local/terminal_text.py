"""Text on a terminal: what may be shown there, and how much room it takes. Pure."""

import json
import re
import unicodedata

# An escape sequence in an answer, a title or a card's label must not drive the terminal.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Without control characters but line feeds; tabs as spaces."""
    return _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\t", "    "))


def unhidden(text: str) -> str:
    """With what cannot be seen written as JSON escapes, so that a person reads what a program gets. Line feeds stay."""
    return "".join(one if one == "\n" or _is_seen(one) else json.dumps(one)[1:-1] for one in text)


def one_line(text: str) -> str:
    return " ".join(printable(text).split())


def rows(text: str, columns: int) -> int:
    """How many rows a printable text takes when it begins at the left edge."""
    row, column = 1, 0
    for character in text:
        if character == "\n":
            row, column = row + 1, 0
            continue
        width = cells(character)
        if column + width > columns:
            row, column = row + 1, 0
        column += width
    return row


def _is_seen(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] != "C" and category not in ("Zl", "Zp")


def cells(character: str) -> int:
    """Columns of one character: 0 where it joins the one before, 2 for wide ones."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def fitting(text: str, columns: int) -> str:
    """As much of the first line as fits."""
    text, used = text.partition("\n")[0], 0
    for at, character in enumerate(text):
        used += cells(character)
        if used > columns:
            return text[:at]
    return text
