"""Voice turns: the model answers one JSON object with `speak` and `display`."""

import json
import re
from dataclasses import dataclass

ENVELOPE = """\
The person is listening, so answer with exactly one JSON object and nothing else: {"speak": "...", "display": "..."}.
- "speak" is read aloud: one to three short sentences, at most 40 words, no markup, emoji, links or abbreviations.
- "display" is shown on the screen: the whole answer, light Markdown allowed.
- Never mention buttons, screens or the microphone. Answer small talk naturally.
The rules for everything else follow.

"""

_EMOJI = re.compile(r"[\U0001F000-\U0001FAFF\u2600-\u27BF\uFE0F\u200D]")


@dataclass(frozen=True, slots=True)
class Spoken:
    speak: str
    display: str


def unwrap(text: str) -> Spoken:
    """The last complete object with a string `speak` or `display`; text without one is shown whole and spoken
    without emoji.
    """
    for candidate in reversed(list(_objects(text))):
        speak, display = candidate.get("speak"), candidate.get("display")
        speak = speak if isinstance(speak, str) and speak.strip() else None
        display = display if isinstance(display, str) and display.strip() else None
        if speak or display:
            return Spoken(speak=speak or display or "", display=display or speak or "")
    return Spoken(speak=" ".join(_EMOJI.sub("", text).split()), display=text)


def _objects(text: str) -> list[dict[str, object]]:
    # strict=False: models put raw newlines inside strings.
    decoder, found, at = json.JSONDecoder(strict=False), [], 0
    while (start := text.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            at = start + 1
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
