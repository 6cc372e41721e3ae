"""The blanks that a reminder's text may have, which are filled in when it fires."""

import re

from deckhand.domain.open_plan import Left

DUE, MISSED = "{schedule_due}", "{missed_earlier}"
MAX_FILLED = 160
"""A text grows by the names that it is filled with: lock screens show about so much of one."""


def has_blanks(text: str) -> bool:
    return DUE in text or MISSED in text


def filled(text: str, left: Left) -> str:
    """The text with `{schedule_due}` and `{missed_earlier}` as they are now. The second brings its own beginning, so
    that it follows a sentence ("Time for Zinc. Missed earlier: Iron") and leaves nothing where nothing was missed.
    Where it is the time for nothing, what was missed is what to do. Names that are not written in the text are not
    looked at by the rules of copy: they are what to do, no reading.
    """
    if not has_blanks(text):
        return text
    due, missed = left.due, left.missed
    if not due and DUE in text:
        due, missed = missed, ()
    stands = {DUE: ", ".join(due), MISSED: f". Missed earlier: {', '.join(missed)}" if missed else ""}
    pattern = "|".join(map(re.escape, stands))
    return _cut(re.sub(pattern, lambda found: stands[found[0]], text).strip())


def _cut(text: str) -> str:
    return text if len(text) <= MAX_FILLED else text[: MAX_FILLED - 1].rstrip() + "…"
