"""Characters outside the first plane that a gateway wrote as two JSON escapes, perhaps in two chunks."""


class SurrogateJoiner:
    """Feed it pieces of text; it gives pieces without halves of characters. A half without its other becomes U+FFFD."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        text, self._half = self._half + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return whole(text)

    def rest(self) -> str:
        half, self._half = self._half, ""
        return whole(half)


def whole(text: str) -> str:
    """Pairs joined, lone halves replaced: text that can be encoded."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
