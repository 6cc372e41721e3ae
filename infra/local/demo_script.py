"""What the demo gateway says: a handful of plain requests, answered by rules. No model is in here, and it says so.

Pure: from the messages and tools of a chat-completions request to the next step, a text or one tool call.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from infra.local.demo_scene import Exchange, Scene, ToolUse, read_scene, rows_of

ABILITIES = (
    "I am Deckhand's demo: a small script, not a language model. I understand “log 85.5 kg”, “how is my weight”, "
    "“make a card for mood”, “what cards do I have”, “remove my last weight” and “delete the mood card”. You are asked "
    "before the last two. Set CHAT_ENDPOINT_URL to talk to a real model."
)
UNCLEAR = "I cannot tell whether that was done. Please look before you ask for it again."
WEIGHT = "weight"
EMOJI = {WEIGHT: "⚖️", "mood": "🙂", "sleep": "😴", "water": "💧", "steps": "👟"}
SHOWN_VALUES = 5

LOG_WEIGHT = re.compile(r"\blog\s+(\d+(?:[.,]\d+)?)\s*kg\b")
TELL_WEIGHT = re.compile(r"\bmy weight\b")
MAKE_CARD = re.compile(r"\b(?:make|create|add)\s+(?:me\s+)?an?\s+card\s+for\s+(?:my\s+)?(\w[\w -]{0,40})")
REMOVE_WEIGHT = re.compile(r"\b(?:remove|delete)\s+(?:my|the)\s+last\s+weight\b")
DELETE_CARD = re.compile(r"\b(?:remove|delete)\s+(?:(?:my|the)\s+)?(\w[\w -]{0,40}?)\s+card\b")
DECIDED = "[The person has decided"
"""How Deckhand begins to tell of decisions that came after the conversation had moved on."""
LIST_CARDS = re.compile(r"\b(?:what|which|list|show)\b.*\bcards\b")


def next_step(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], clock: date) -> str | ToolUse:
    """The answer's text, or the tool to call. `clock` is today where the system message names no date."""
    scene = read_scene(messages, tools, clock)
    if title := _title(scene):
        return title
    step = _step(scene)
    if isinstance(step, ToolUse) and step.name not in scene.tools:
        return f"I would call {step.name} for that, but this request does not offer it to me. (I am only a demo.)"
    return step


def _step(scene: Scene) -> str | ToolUse:
    if scene.answer == "no":
        return "All right, nothing was done."
    if scene.waiting:
        return scene.waiting[0]
    if scene.request.startswith(DECIDED):
        return "What you decided on is settled."
    said = scene.request.lower()
    if amount := LOG_WEIGHT.search(said):
        return _log_weight(scene, float(amount[1].replace(",", ".")))
    if REMOVE_WEIGHT.search(said):
        return _remove_weight(scene)
    if TELL_WEIGHT.search(said):
        return _tell_weight(scene)
    return _of_cards(scene, said)


def _of_cards(scene: Scene, said: str) -> str | ToolUse:
    if wanted := MAKE_CARD.search(said):
        return _make_card(scene, wanted[1].strip())
    if unwanted := DELETE_CARD.search(said):
        return _delete_card(scene, unwanted[1].strip())
    return _list_cards(scene) if LIST_CARDS.search(said) else ABILITIES


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _title(scene: Scene) -> str | None:
    """For a request that wants a title: the person's first words."""
    if scene.tools or not scene.system.startswith("Write a title"):
        return None
    words = re.findall(r"[\w.,'-]+", scene.request.removeprefix("Person:"))[:4]
    return " ".join(words).capitalize()


def _log_weight(scene: Scene, kilograms: float) -> str | ToolUse:
    row = {"date": scene.today.isoformat(), "kg": kilograms}
    append = ToolUse("append_row", {"id": WEIGHT, "path": "", "value": row})
    tried, made = scene.last("append_row"), scene.last("create_manifest")
    if tried is None:
        return append
    if tried.unknown_card and tried.edited is None:
        if made is None:
            said = "There is no weight card yet, so nothing is logged. I make the card first."
            return ToolUse("create_manifest", {"manifest": _card(WEIGHT)}, said)
        if not made.done:
            return f"There is no weight card, and nothing is logged. {_told(made, done='', left='No card was made.')}"
        if made.edited is None and scene.count("append_row") == 1:
            return replace(append, saying="The weight card is made. Now I log the weight.")
    new = "There was no weight card, so I made one. " if made is not None else ""
    return new + _told(tried, done=f"I logged {kilograms:g} kg for {scene.today}.", left="Nothing is logged.")


def _tell_weight(scene: Scene) -> str | ToolUse:
    read = scene.last("read_manifest")
    if read is None:
        return ToolUse("read_manifest", {"id": WEIGHT})
    if read.unknown_card:
        return "There is no weight card yet. Say “log 85.5 kg” and I will make one."
    if read.error is not None:
        return f"I could not read the weight card: {read.error}"
    values = [row for row in rows_of(read.result) if isinstance(row, dict) and _is_number(row.get("kg"))]
    if not values:
        return "The weight card holds no values yet. Say “log 85.5 kg” to add one."
    shown = values[-SHOWN_VALUES:]
    listed = ", ".join(f"{row['kg']:g} kg on {row.get('date', 'an unknown day')}" for row in shown)
    change = shown[-1]["kg"] - shown[0]["kg"]
    trend = f" That is {change:+.1f} kg over these {len(shown)}." if len(shown) > 1 else ""
    return f"Your latest weight is {shown[-1]['kg']:g} kg. Last values: {listed}.{trend}"


def _make_card(scene: Scene, label: str) -> str | ToolUse:
    made = scene.last("create_manifest")
    if made is None:
        return ToolUse("create_manifest", {"manifest": _card(label)})
    if made.error is not None:
        return f"I could not make the card: {made.error}"
    return _told(made, done=f"Done: there is a card for {label} now.", left="No card was made.")


def _list_cards(scene: Scene) -> str | ToolUse:
    listed = scene.last("list_manifests")
    if listed is None:
        return ToolUse("list_manifests", {})
    if listed.error is not None:
        return f"I could not list the cards: {listed.error}"
    cards = listed.result.get("cards", []) if isinstance(listed.result, dict) else []
    names = [card.get("label") or card.get("id", "?") for card in cards]
    if not names:
        return "There are no cards yet. Say “make a card for mood”, for example."
    return f"You have {len(names)} card{'s' if len(names) > 1 else ''}: {', '.join(names)}."


def _remove_weight(scene: Scene) -> str | ToolUse:
    """The row is named by its position, so it is looked up first."""
    removed, read = scene.last("remove_row"), scene.last("read_manifest")
    if removed is not None:
        return _told(removed, done="I removed your last weight.", left="Your last weight stays where it is.")
    if read is None:
        return ToolUse("read_manifest", {"id": WEIGHT})
    if read.error is not None and not read.unknown_card:
        return f"I could not read the weight card: {read.error}"
    rows = rows_of(read.result)
    if not rows:
        return "There is no weight to remove."
    return ToolUse("remove_row", {"id": WEIGHT, "path": f"[index={len(rows) - 1}]"})


def _delete_card(scene: Scene, label: str) -> str | ToolUse:
    deleted, listed = scene.last("delete_manifest"), scene.last("list_manifests")
    if deleted is not None:
        return _told(deleted, done=f"The {label} card is deleted.", left=f"The {label} card stays as it is.")
    if listed is None:
        return ToolUse("list_manifests", {})
    if listed.error is not None:
        return f"I could not list the cards: {listed.error}"
    cards = listed.result.get("cards", []) if isinstance(listed.result, dict) else []
    for card in cards:
        if label in (str(card.get("id")).lower(), str(card.get("label")).lower()):
            return ToolUse("delete_manifest", {"id": card["id"]})
    return f"There is no {label} card."


def _told(exchange: Exchange, *, done: str, left: str) -> str:
    """Of a call that a person may have been asked about: `done` only where it ran as it was asked for and the tool says
    that it did it.
    """
    if exchange.refusal is not None:
        return f"All right. {left}" if exchange.refusal == "rejected" else f"Nobody said yes in time. {left}"
    if exchange.edited is not None:
        return f"You changed what I asked for. {_told_of_edited(exchange)}"
    if exchange.error is not None:
        return f"That did not work: {exchange.error}"
    return done if exchange.done else UNCLEAR


def _told_of_edited(exchange: Exchange) -> str:
    with_what = json.dumps(exchange.edited, ensure_ascii=False)
    if exchange.error is not None:
        return f"That did not work: {exchange.error}"
    if not exchange.done:
        return UNCLEAR
    if exchange.name == "delete_manifest" and isinstance(card := exchange.result.get("id"), str):
        return f"The card {card} is deleted."
    return f"{exchange.name} ran with {with_what}."


def _card(label: str) -> dict[str, Any]:
    key, name, kind = ("kg", "Weight (kg)", "number") if label == WEIGHT else ("value", label.capitalize(), "text")
    return {
        "$schema": "klebb.datafile.v1",
        "meta": {
            "id": re.sub(r"[^a-z0-9]+", "-", label).strip("-"),
            "label": label.capitalize(),
            "emoji": EMOJI.get(label, "🗂️"),
            "view": {"enabled": True, "component": "list-card"},
            "writeable": {
                "fromWebapp": True,
                "todayAllowed": True,
                "pastAllowed": True,
                "inputs": [{"key": key, "label": name, "type": kind, "required": True}],
            },
        },
        "description": f"{label.capitalize()}, made by the demo.",
        "data": [],
    }
