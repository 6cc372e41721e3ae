"""What is offered for the card that a turn touched last."""

from typing import Any

import pytest

from deckhand.domain.followup import MAX_OFFERS, followup, offers

FULL: dict[str, Any] = {
    "label": "Weight",
    "emoji": "⚖️",
    "category": "body",
    "calendar": {},
    "trends": {},
    "prompt": {},
    "reports": {},
    "view": {"component": "generic-card", "display": {"thresholds": [], "trendArrow": {}}},
    "writeable": {"inputs": [{"key": "kg", "type": "number"}]},
}


def offered(meta: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    for start in range(10):
        found |= {offer["id"] for offer in offers("weight", {"meta": meta}, start=start)}
    return found


def test_a_card_that_has_everything_is_left_alone() -> None:
    assert followup("weight", {"meta": FULL}) is None


@pytest.mark.parametrize("field", ["emoji", "category", "calendar", "trends", "prompt"])
def test_what_is_absent_is_offered(field: str) -> None:
    assert offered({name: value for name, value in FULL.items() if name != field}) == {field}


def test_what_a_renderer_cannot_take_is_not_offered() -> None:
    plain = {"label": "Notes", "view": {"component": "markdown-doc"}}
    assert offered(plain) == {"emoji", "category"}
    assert "adherence" in offered({"label": "Pills", "view": {"component": "schedule-card"}})


def test_at_most_three_are_offered_and_others_the_next_time() -> None:
    bare = {**FULL, "emoji": "", "category": "", "view": {"component": "generic-card"}}
    first = followup("weight", {"meta": bare}, start=0)
    second = followup("weight", {"meta": bare}, start=1)
    assert first is not None
    assert second is not None
    assert len(first["embellishments"]) == MAX_OFFERS
    assert first["embellishments"] != second["embellishments"]
    assert all(set(offer) == {"id", "label", "prompt"} for offer in first["embellishments"])


@pytest.mark.parametrize("meta", [{"label": "x"}, {"label": "x", "view": 3, "writeable": {"inputs": [3]}}])
def test_any_manifest_can_be_asked_for(meta: dict[str, Any]) -> None:
    assert offered(meta) >= {"emoji", "category"}
