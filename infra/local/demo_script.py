"""What the demo gateway says: a handful of plain requests, answered by rules. No model is in here, and it says so.

Pure: from the messages and tools of a chat-completions request to the next step, a text or one tool call.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

ABILITIES = (
    "I am Deckhand's demo: a small script, not a language model. I understand “log 85.5 kg”, “how is my weight”, "
    "“make a card for mood” and “what cards do I have”. Set CHAT_ENDPOINT_URL to talk to a real model."
)
WEIGHT = "weight"
EMOJI = {WEIGHT: "⚖️", "mood": "🙂", "sleep": "😴", "water": "💧", "steps": "👟"}
SHOWN_VALUES = 5

LOG_WEIGHT = re.compile(r"\blog\s+(\d+(?:[.,]\d+)?)\s*kg\b")
TELL_WEIGHT = re.compile(r"\bmy weight\b")
MAKE_CARD = re.compile(r"\b(?:make|create|add)\s+(?:me\s+)?an?\s+card\s+for\s+(?:my\s+)?(\w[\w -]{0,40})")
LIST_CARDS = re.compile(r"\b(?:what|which|list|show)\b.*\bcards\b")


@dataclass(frozen=True)
class ToolUse:
    """A tool call to make."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Exchange:
    """A call made since the user last spoke, with what the tool answered (None where that is no JSON)."""

    name: str
    result: Any

    @property
    def error(self) -> str | None:
        """The tool's own sentence about what went wrong."""
        if isinstance(self.result, dict) and (self.result.get("error") or self.result.get("ok") is False):
            return str(self.result.get("error") or "it was refused")
        return None

    @property
    def unknown_card(self) -> bool:
        return isinstance(self.result, dict) and self.result.get("code") == "unknown_manifest"


@dataclass(frozen=True)
class Scene:
    """Where the conversation stands: what the user said last, what tools answered since, which tools are offered."""

    request: str
    exchanges: tuple[Exchange, ...]
    tools: frozenset[str]
    today: date

    def last(self, name: str) -> Exchange | None:
        return next((exchange for exchange in reversed(self.exchanges) if exchange.name == name), None)

    def count(self, name: str) -> int:
        return sum(exchange.name == name for exchange in self.exchanges)


def next_step(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], clock: date) -> str | ToolUse:
    """The answer's text, or the tool to call. `clock` is today where the system message names no date."""
    scene = read_scene(messages, tools, clock)
    if title := _title(messages, scene):
        return title
    said = scene.request.lower()
    if amount := LOG_WEIGHT.search(said):
        step = _log_weight(scene, float(amount[1].replace(",", ".")))
    elif TELL_WEIGHT.search(said):
        step = _tell_weight(scene)
    elif wanted := MAKE_CARD.search(said):
        step = _make_card(scene, wanted[1].strip())
    elif LIST_CARDS.search(said):
        step = _list_cards(scene)
    else:
        step = ABILITIES
    if isinstance(step, ToolUse) and step.name not in scene.tools:
        return f"I would call {step.name} for that, but this request does not offer it to me. (I am only a demo.)"
    return step


def read_scene(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], clock: date) -> Scene:
    """Reads a request's messages; content may be text or a list of parts."""
    spoke = max((index for index, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    system = "\n".join(_text(message) for message in messages if message.get("role") == "system")
    names: dict[str, str] = {}
    exchanges = []
    for message in messages[spoke + 1 :]:
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        if message.get("role") == "tool":
            exchanges.append(Exchange(names.get(message.get("tool_call_id", ""), ""), _json(_text(message))))
    return Scene(
        request=_text(messages[spoke]) if spoke >= 0 else "",
        exchanges=tuple(exchanges),
        tools=frozenset(tool["function"]["name"] for tool in tools if "function" in tool),
        today=_dated(system) or clock,
    )


def _title(messages: Sequence[Mapping[str, Any]], scene: Scene) -> str | None:
    """For a request that wants a title: the person's first words."""
    system = "\n".join(_text(message) for message in messages if message.get("role") == "system")
    if scene.tools or not system.startswith("Write a title"):
        return None
    words = re.findall(r"[\w.,'-]+", scene.request.removeprefix("Person:"))[:4]
    return " ".join(words).capitalize()


def _log_weight(scene: Scene, kilograms: float) -> str | ToolUse:
    row = {"date": scene.today.isoformat(), "kg": kilograms}
    append = ToolUse("append_row", {"id": WEIGHT, "path": "", "value": row})
    tried, made = scene.last("append_row"), scene.last("create_manifest")
    if tried is None:
        return append
    if tried.error is None:
        new = "There was no weight card, so I made one. " if made is not None else ""
        return f"{new}I logged {kilograms:g} kg for {scene.today}."
    if tried.unknown_card and made is None:
        return ToolUse("create_manifest", {"manifest": _card(WEIGHT)})
    if made is not None and made.error is not None:
        return f"There is no weight card, and making one did not work: {made.error}"
    if made is not None and scene.count("append_row") == 1:
        return append
    return f"I could not log that: {tried.error}"


def _tell_weight(scene: Scene) -> str | ToolUse:
    read = scene.last("read_manifest")
    if read is None:
        return ToolUse("read_manifest", {"id": WEIGHT})
    if read.unknown_card:
        return "There is no weight card yet. Say “log 85.5 kg” and I will make one."
    if read.error is not None:
        return f"I could not read the weight card: {read.error}"
    values = [row for row in _rows(read.result) if isinstance(row, dict) and "kg" in row]
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
    return f"Done: there is a card for {label} now."


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


def _rows(result: Any) -> list[Any]:
    """The rows of a card as a tool tells them: a list, or rows with their ids."""
    if not isinstance(result, dict):
        return []
    rows = result.get("data", result.get("rows"))
    if isinstance(rows, dict):
        rows = rows.get("rows")
    return [row["value"] if isinstance(row, dict) and "value" in row else row for row in rows or []]


def _dated(text: str) -> date | None:
    found = re.search(r"Today is [^\n]*?(\d{4}-\d{2}-\d{2})", text)
    try:
        return date.fromisoformat(found[1]) if found else None
    except ValueError:
        return None


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
