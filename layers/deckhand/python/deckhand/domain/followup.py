"""What could make a card better next: short offers after a change, each with the text that tapping it sends. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import TypedDict

MAX_OFFERS = 3
_NUMBERS = {"number", "stepper", "rating"}


class Offer(TypedDict):
    """`prompt` is the text that tapping it sends."""

    id: str
    label: str
    prompt: str


class Followup(TypedDict):
    text: str
    embellishments: list[Offer]


def offers(card: str, manifest: Mapping[str, Any], *, start: int = 0) -> list[Offer]:
    """At most three, each only when the field is absent and the renderer can take it. `start` rotates them, so that
    others come up next time.
    """
    meta = manifest["meta"]
    label = str(meta.get("label", card))
    view = meta.get("view") if isinstance(meta.get("view"), Mapping) else {}
    component = view.get("component") if isinstance(view, Mapping) else None
    shown = view.get("display") if isinstance(view, Mapping) else None
    display: Mapping[str, Any] = shown if isinstance(shown, Mapping) else {}
    daily = component in ("generic-card", "checklist-card", "schedule-card")
    numeric = _has_number(meta)
    possible: Sequence[tuple[bool, str, str, str]] = (
        (not meta.get("emoji"), "emoji", "Add an emoji", f"Give the {label} card a fitting emoji."),
        (not meta.get("category"), "category", "Set a category", f"Put the {label} card into the category that fits."),
        (daily and "calendar" not in meta, "calendar", "Show it in the calendar", f"Mark {label} in the calendar."),
        (
            component == "generic-card" and numeric and "thresholds" not in display,
            "thresholds",
            "Add coloured ranges",
            f"Add thresholds with colours to the {label} card; ask me for the ranges.",
        ),
        (
            component == "generic-card" and numeric and "trendArrow" not in display,
            "trend-arrow",
            "Show a trend arrow",
            f"Show a trend arrow on the {label} card.",
        ),
        (numeric and "trends" not in meta, "trends", "Draw it as a line", f"Show {label} as a line in the trends."),
        (
            component == "schedule-card" and "reports" not in meta,
            "adherence",
            "Report adherence",
            f"Add an adherence report for {label}.",
        ),
        (daily and "prompt" not in meta, "prompt", "Ask me daily", f"Ask me once a day for {label}."),
    )
    eligible: list[Offer] = [
        {"id": name, "label": text, "prompt": prompt} for fits, name, text, prompt in possible if fits
    ]
    if not eligible:
        return []
    turn = start % len(eligible)
    return (eligible[turn:] + eligible[:turn])[:MAX_OFFERS]


def followup(card: str, manifest: Mapping[str, Any], *, start: int = 0) -> Followup | None:
    """For the card that was touched last; None when there is nothing to offer."""
    found = offers(card, manifest, start=start)
    if not found:
        return None
    return {"text": f"More for {manifest['meta'].get('label', card)}:", "embellishments": found}


def _has_number(meta: Mapping[str, Any]) -> bool:
    writeable = meta.get("writeable")
    inputs = writeable.get("inputs") if isinstance(writeable, Mapping) else None
    return any(isinstance(one, Mapping) and one.get("type") in _NUMBERS for one in inputs or ())
