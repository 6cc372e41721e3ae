"""What a reminder may say: it lights up on a locked phone, so it invites to act and tells nothing of past entries."""

import re

_DOSE = r"(?:mg|ml|cl|l|g|mcg|µg|iu|units?|tablets?|tabs?|pills?|capsules?|cups?|glass(?:es)?|drops?|km|min|hours?|h)\b"
_UNIT = r"(?:kg|kgs|lbs?|st|stone|mmhg|bpm|mg/dl|mmol(?:/l)?|kcal|cal|°\s?[cf]?|%|ms)(?![a-z])"
READINGS = (
    (re.compile(r"\b\d{2,3}\s?/\s?\d{2,3}\b"), "a reading of two values"),
    (re.compile(r"\b\d{4}-\d{1,2}-\d{1,2}\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b"), "a date"),
    (re.compile(rf"\d\s?{_UNIT}", re.IGNORECASE), "a number with the unit of a reading"),
    (re.compile(rf"\b\d+[.,](?!\d{{3}}\b)\d+(?!\s?{_DOSE})(?![.,:]?\d)", re.IGNORECASE), "a decimal number"),
    (
        re.compile(
            r"\b(?:yesterday|last (?:time|night|week|month|entry|reading|value)|previous(?:ly)?|was|were|average)\b"
            r"\D{0,20}\d(?!\d?:\d\d)",
            re.IGNORECASE,
        ),
        "a number from a past entry",
    ),
)


def telling(text: str) -> str | None:
    """What in the text looks like a reading or a past entry, in words; None when nothing does. Times of day, counts and
    doses may stand there.
    """
    for pattern, what in READINGS:
        if pattern.search(text):
            return what
    return None
