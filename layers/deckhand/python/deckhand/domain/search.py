"""Finding a text in a transcript: literal, without regard to case or to the kind of white space (bug case 34)."""

import re

MAX_QUERY = 200
BEFORE, AFTER = 30, 60


def needle(query: str) -> re.Pattern[str] | None:
    """None for a query of nothing but white space."""
    words = " ".join(query[:MAX_QUERY].split())
    return re.compile(re.escape(words), re.IGNORECASE) if words else None


def snippet(pattern: re.Pattern[str], text: str) -> str | None:
    """The first hit with 30 characters before and 60 after it, white space folded; None without a hit."""
    folded = " ".join(text.split())
    hit = pattern.search(folded)
    if hit is None:
        return None
    start, end = max(0, hit.start() - BEFORE), min(len(folded), hit.end() + AFTER)
    return f"{'…' if start else ''}{folded[start:end]}{'…' if end < len(folded) else ''}"
