"""Long texts, read part by part."""

from typing import NotRequired

from typing_extensions import TypedDict

from deckhand.domain.json_text import dumps

PART_CHARS = 40_000
# A tool's result has 48,000 characters as JSON, in which line ends and quotes count twice.
PART_JSON_CHARS = 46_000


class TextPart(TypedDict):
    """`totalChars` counts the characters of the whole text; `nextOffset`, when some are left, is where to go on."""

    content: str
    truncated: bool
    totalChars: int
    nextOffset: NotRequired[int]


def text_part(text: str, offset: int) -> TextPart:
    """As much from `offset` on, in characters, as one result holds."""
    part = text[offset : offset + PART_CHARS]
    while (size := len(dumps(part))) > PART_JSON_CHARS:
        part = part[: len(part) * PART_JSON_CHARS // (size + PART_CHARS // 10)]
    end = offset + len(part)
    result: TextPart = {"content": part, "truncated": end < len(text), "totalChars": len(text)}
    if end < len(text):
        result["nextOffset"] = end
    return result
