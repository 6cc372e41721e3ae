"""From an outcome to what is stored and what is told. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deckhand.agent.chat import Usage
from deckhand.agent.outcome import Outcome
from deckhand.agent.voice import unwrap
from deckhand.agent.wording import AWAITING
from deckhand.domain.conversation import Message
from deckhand.domain.errors import DeckhandError, TurnLost
from deckhand.domain.events import Event
from deckhand.domain.followup import Followup
from deckhand.domain.turn import Status


@dataclass(frozen=True, slots=True)
class Ending:
    """`content` and `marks` make the assistant's message (`content` None: nothing is stored); `closing` comes
    before `done`.
    """

    status: Status
    closing: Event
    content: str | None = None
    marks: Mapping[str, Any] | None = None

    def message(self, *, seq: int, id: str, created_at: str) -> Message | None:
        if self.content is None:
            return None
        return Message(
            seq=seq, id=id, role="assistant", content=self.content, created_at=created_at, **(self.marks or {})
        )


def ending(outcome: Outcome, *, voice: bool, ids: Mapping[str, str], followup: Followup | None = None) -> Ending:
    """`ids` are the fields `conversationId`, `messageId` and `turnId` of a stored turn; empty when nothing is
    stored.
    """
    if outcome.status == "stopped":
        partial = outcome.text if outcome.text.strip() else None
        return Ending("stopped", Event("stopped"), partial, {"stopped": True})
    if outcome.status == "failed":
        error = outcome.error or DeckhandError()
        partial = outcome.text if outcome.text.strip() else None
        return Ending("failed", Event("error", error.as_body()), partial, {"interrupted": True})
    if outcome.status == "awaiting_confirmation":
        return _awaiting(outcome, voice=voice, ids=ids)
    spoken = unwrap(outcome.text) if voice and outcome.text else None
    text = outcome.shown(spoken.display if spoken else None)
    flags = {
        "speak": (spoken.speak or text) if spoken else (text if voice else None),
        "capped": True if outcome.capped_by else None,
        "interrupted": outcome.interrupted or None,
    }
    data: dict[str, Any] = {
        "reply": text,
        **ids,
        "model": outcome.model,
        "usage": usage_fields(outcome.usage),
        **{name: value for name, value in flags.items() if value is not None},
    }
    if followup:
        data["followup"] = followup
    if outcome.capped_by:
        data["cappedBy"] = outcome.capped_by
    if outcome.filtered:
        data["filtered"] = True
    if outcome.changes:
        data["cards"] = [{"id": card, "change": change} for card, change in outcome.changes.items()]
    marks = {**flags, "has_voice": True if voice else None, "tools": list(outcome.tools) or None, "followup": followup}
    return Ending("done", Event("reply", data), text, marks)


def _awaiting(outcome: Outcome, *, voice: bool, ids: Mapping[str, str]) -> Ending:
    """No message is stored: what was said before the calls stays with them, and the answer is still to come."""
    text = outcome.text if outcome.text.strip() and not voice else AWAITING
    data: dict[str, Any] = {
        "reply": text,
        **{name: value for name, value in ids.items() if name != "messageId"},
        "model": outcome.model,
        "usage": usage_fields(outcome.usage),
        "proposals": [proposal.shown() for proposal in outcome.proposals],
    }
    if voice:
        data["speak"] = AWAITING
    if outcome.changes:
        data["cards"] = [{"id": card, "change": change} for card, change in outcome.changes.items()]
    return Ending("awaiting_confirmation", Event("reply", data))


def gone_events(conversation: str, turn_id: str, *, deleted: bool) -> list[Event]:
    """What a watcher is told when the turn ended without its own words: deleted with its conversation, or lost."""
    closing = Event("stopped") if deleted else Event("error", TurnLost().as_body())
    status = "stopped" if deleted else "failed"
    return [closing, Event("done", {"conversationId": conversation, "turnId": turn_id, "status": status})]


def usage_fields(usage: Usage | None) -> dict[str, int | float] | None:
    if usage is None:
        return None
    cost = {} if usage.cost is None else {"costUsd": float(usage.cost)}
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cachedTokens": usage.cached_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
        **cost,
    }
