"""A short title for a conversation, asked of the model, never trusted (bug case 33)."""

import re
from contextlib import aclosing

from deckhand.agent.chat import Answer, ChatGateway, StepLimits, StepRequest

EXCERPT_CHARS = 500
TIMEOUT_S = 20.0
MAX_TITLE_CHARS = 60
MAX_WORDS = 6

_SYSTEM = (
    "Write a title for the conversation below: two to six plain words in its own language. "
    "Answer with the title alone: no quotes, no label, no full stop."
)
_LABEL = re.compile(r"^(?:title|subject|titel|título|titre)\s*[::]\s*", re.IGNORECASE)
_WRAPPING = "\"'“”‘’«»„*_` "
_CHATTER = re.compile(r"\b(?:the user|i need to|i should|let me|we need to|okay|here(?:'s| is))\b", re.IGNORECASE)


async def ask_title(gateway: ChatGateway, question: str, reply: str) -> str | None:
    """One call without tools; None when nothing usable came back. Raises gateway errors."""
    exchange = f"Person: {question[:EXCERPT_CHARS]}\n\nAssistant: {reply[:EXCERPT_CHARS]}"
    request = StepRequest(
        messages=[{"role": "system", "content": _SYSTEM}, {"role": "user", "content": exchange}],
        tools=[],
        limits=StepLimits(idle=TIMEOUT_S, deadline=TIMEOUT_S, ceiling=TIMEOUT_S),
    )
    async with aclosing(gateway.stream(request)) as stream:  # type: ignore[type-var]
        async for item in stream:
            if isinstance(item, Answer):
                return clean_title(item.text) if item.finish != "length" else None
    return None


def clean_title(text: str) -> str | None:
    """The first line without label and wrapping; None for reasoning, half sentences and anything that is no short
    title.
    """
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if not lines:
        return None
    # A heading's marks come first only: C# is a word.
    title = _LABEL.sub("", lines[0].lstrip("#").strip(_WRAPPING)).strip(_WRAPPING).rstrip(".")
    title = " ".join(title.split())
    words = title.split()
    if not words or len(words) > MAX_WORDS or len(title) > MAX_TITLE_CHARS or _CHATTER.search(title):
        return None
    return title if "<" not in title else None
