"""Long texts, read part by part."""

from typing import Any

from deckhand.domain.json_text import dumps

PART_CHARS = 40_000
# A tool's result has 48,000 characters as JSON, in which line ends and quotes count twice.
PART_JSON_CHARS = 46_000


def text_part(text: str, offset: int) -> dict[str, Any]:
    """`{content, truncated, totalChars, nextOffset?}`: as much from `offset` on, in characters, as one result holds."""
    part = text[offset : offset + PART_CHARS]
    while (size := len(dumps(part))) > PART_JSON_CHARS:
        part = part[: len(part) * PART_JSON_CHARS // (size + PART_CHARS // 10)]
    end = offset + len(part)
    result = {"content": part, "truncated": end < len(text), "totalChars": len(text)}
    return {**result, "nextOffset": end} if end < len(text) else result
