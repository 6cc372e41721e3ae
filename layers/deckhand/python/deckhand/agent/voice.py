"""Voice turns: the model answers one JSON object with `speak` and `display`."""

import json
import re
from dataclasses import dataclass

from deckhand.agent.surrogates import whole

ENVELOPE = """\
The person is listening, so answer with exactly one JSON object and nothing else: {"speak": "...", "display": "..."}.
- "speak" is read aloud: one to three short sentences, at most 40 words, no markup, emoji, links or abbreviations.
- "display" is shown on the screen: the whole answer, light Markdown allowed.
- Never mention buttons, screens or the microphone. Answer small talk naturally.
The rules for everything else follow.

"""

MAX_FAILED = 50
"""Braces that open no object are tried; each may be read to the end of the text, so only so many."""

_EMOJI = re.compile(r"[\U0001F000-\U0001FAFF\u2600-\u27BF\uFE0F\u200D]")
_OPENING = re.compile(r"\s*(?:```\w*\s*)?\{")
_FIELD = re.compile(r'"(speak|display)"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL)
_HALF_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?$")


@dataclass(frozen=True, slots=True)
class Spoken:
    speak: str
    display: str


def unwrap(text: str) -> Spoken:
    """The last complete object with a string `speak` or `display`, else what there is of one that was cut; text
    without one is shown whole and spoken without emoji.
    """
    for candidate in reversed([*_cut_object(text), *_objects(text)]):
        speak, display = _said(candidate.get("speak")), _said(candidate.get("display"))
        if speak or display:
            return Spoken(speak=speak or display or "", display=display or speak or "")
    return Spoken(speak=" ".join(_EMOJI.sub("", text).split()), display=text)


def _said(value: object) -> str | None:
    # An escaped half of a character parses, but cannot be stored.
    return whole(value) if isinstance(value, str) and value.strip() else None


def _cut_object(text: str) -> list[dict[str, object]]:
    """The texts of an envelope that a length cut left open: nobody wants to read braces."""
    if not _OPENING.match(text):
        return []
    found: dict[str, object] = {}
    for name, raw in _FIELD.findall(text):
        try:
            found[name] = json.loads(f'"{_HALF_ESCAPE.sub("", raw)}"', strict=False)
        except ValueError:
            continue
    return [found]


def _objects(text: str) -> list[dict[str, object]]:
    # strict=False: models put raw newlines inside strings.
    decoder, found, at, failed = json.JSONDecoder(strict=False), [], 0, 0
    while failed < MAX_FAILED and (start := text.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            at, failed = start + 1, failed + 1
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
