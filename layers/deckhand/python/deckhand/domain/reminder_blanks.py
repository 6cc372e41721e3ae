"""The blanks that a reminder's text may have, which are filled in when it fires."""

import re

from deckhand.domain.open_plan import Left

DUE, MISSED = "{schedule_due}", "{missed_earlier}"
ENDS = (".", "!", "?", ":", ";", ",", "…", "-", "–", "—", "(")
"""What a sentence may stand behind without another full stop."""
MAX_FILLED = 160
"""A text grows by the names that it is filled with: lock screens show about so much of one."""


def has_blanks(text: str) -> bool:
    return DUE in text or MISSED in text


def filled(text: str, left: Left) -> str:
    """The text with `{schedule_due}` and `{missed_earlier}` as they are now. The second brings its own beginning, so
    that it follows a sentence ("Time for Zinc. Missed earlier: Iron"), whose end the text may have written, and leaves
    nothing, no space before it either, where nothing was missed.
    Where it is the time for nothing, what was missed is what to do. Names that are not written in the text are not
    looked at by the rules of copy: they are what to do, no reading.
    """
    if not has_blanks(text):
        return text
    due, missed = left.due, left.missed
    if not due and DUE in text:
        due, missed = missed, ()

    def stands(found: re.Match[str]) -> str:
        if found[0] == DUE:
            return ", ".join(due)
        before = text[: found.start()]
        beginning = "" if not before else " " if before.endswith(ENDS) else ". "
        return f"{beginning}Missed earlier: {', '.join(missed)}" if missed else ""

    return _cut(re.sub(rf"{re.escape(DUE)}|\s*{re.escape(MISSED)}", stands, text).strip())


def _cut(text: str) -> str:
    return text if len(text) <= MAX_FILLED else text[: MAX_FILLED - 1].rstrip() + "…"
