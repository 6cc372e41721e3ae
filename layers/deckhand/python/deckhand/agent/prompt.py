"""The system message in ordered segments: what never changes first, what changes with every request last (seed 000,
prompt caching).

`static` and `instance` each end in a cache mark; `volatile` has none. A mark caches everything before it, so a new
card still hits the first one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from deckhand.agent.history import CACHE_MARK
from deckhand.agent.voice import ENVELOPE

BASE = """\
You are {name}, the assistant of a deck of personal data cards. A card holds what a person tracks: weight, mood,
medication, training, anything. Each card has a manifest (meta and description) and rows of data. Trust a card's own
description of its rows.

How you work
- Answer from the person's data. Read the card before you answer about it or write to it, in the same turn.
- Act by calling tools. Never print JSON for the person to save, and never say that something is done before a tool
  said so.
- Use the narrowest tool that does the job: one new value is one append_row.
- A row is usually {{"date": "YYYY-MM-DD", …}} with the same field names as the rows before it. Take dates from the
  table below, not from memory.
- When an entry has no card yet, offer to make one, or make it when the person asked for it.
- Ask at most one question, and only when you cannot go on without the answer.
- When no tool can do what is asked, say so in one or two sentences and name the closest thing that can be done.
- When a tool answers with an error, read it, correct the call once or twice, then tell the person plainly what is
wrong.
- Quote the values that you used. Keep answers short; light Markdown, no headers, no tables.
- You are not a doctor. In an emergency, say that the person should get help at once.
"""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the prompt says of the deployment and of this request. `cards` are `(id, emoji and label, first line of
    the description)`.
    """

    agent_name: str
    base: str | None
    cards: Sequence[tuple[str, str, str]]
    now: datetime
    focus: tuple[str, str] | None = None
    voice: bool = False


def segments(around: Surroundings) -> tuple[str, str, str]:
    """`static`, `instance` and `volatile`, in this order."""
    base = around.base if around.base is not None else BASE.format(name=around.agent_name)
    static = f"{ENVELOPE}{base}" if around.voice else base
    return static.rstrip() + "\n", _cards(around.cards), _volatile(around)


def system_messages(around: Surroundings, *, cache: bool) -> list[dict[str, Any]]:
    """One system message: blocks with two cache marks, or one flat string in the same order."""
    static, instance, volatile = segments(around)
    if not cache:
        return [{"role": "system", "content": "\n".join((static, instance, volatile))}]
    parts = [
        {"type": "text", "text": static, "cache_control": CACHE_MARK},
        {"type": "text", "text": instance, "cache_control": CACHE_MARK},
        {"type": "text", "text": volatile},
    ]
    return [{"role": "system", "content": parts}]


def _cards(cards: Sequence[tuple[str, str, str]]) -> str:
    lines = [f"- {card} ({label}): {about}" if about else f"- {card} ({label})" for card, label, about in cards]
    return "\n".join(["Cards in this deck", *(lines or ["(none yet)"])]) + "\n"


def _volatile(around: Surroundings) -> str:
    today = around.now.date()
    days = [today + timedelta(days=offset) for offset in range(-7, 8)]
    names = {0: "today", -1: "yesterday", 1: "tomorrow"}
    table = [
        f"{day:%A} {day.isoformat()}{f' ({names[(day - today).days]})' if (day - today).days in names else ''}"
        for day in days
    ]
    lines = [f"Today is {today:%A}, {today.isoformat()} in the person's time zone ({around.now.tzinfo}).", *table]
    if around.focus is not None:
        lines += ["", f"The person is looking at the card {around.focus[0]} ({around.focus[1]})."]
    return "\n".join(lines) + "\n"
