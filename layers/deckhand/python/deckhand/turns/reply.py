"""From an outcome to what is stored and what is told. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from deckhand.agent.chat import Usage
from deckhand.agent.outcome import Outcome
from deckhand.agent.voice import unwrap
from deckhand.agent.wording import AWAITING, CappedBy
from deckhand.domain.conversation import Message
from deckhand.domain.errors import DeckhandError, TurnLost
from deckhand.domain.events import Event
from deckhand.domain.followup import Followup
from deckhand.domain.proposal import Decision, ShownProposal
from deckhand.domain.turn import Status


class TokenUsage(TypedDict):
    """Summed over the steps. Cached and written tokens are part of the input; no `costUsd` where a price is unknown."""

    inputTokens: int
    outputTokens: int
    cachedTokens: int
    cacheWriteTokens: int
    costUsd: NotRequired[float]


class CardChange(TypedDict):
    id: str
    change: Literal["created", "changed", "removed"]


class Reply(TypedDict):
    """The ids are of a stored turn, `messageId` the stored reply's. `usage` is null when the gateway reported none.
    `speak` is the text of a voice turn that is read aloud. `interrupted`: the model fell silent after what it had said;
    `capped`: the turn ran into one of its limits, `cappedBy` which; `filtered`: the provider's filter took the answer.
    `cards` are those that the turn changed. `proposals` wait for a yes or a no, and the answer is still to come;
    `decisions` tell of each of several that this turn went on from.
    """

    reply: str
    conversationId: NotRequired[str]
    messageId: NotRequired[str]
    turnId: NotRequired[str]
    model: str | None
    usage: TokenUsage | None
    speak: NotRequired[str]
    capped: NotRequired[Literal[True]]
    interrupted: NotRequired[Literal[True]]
    followup: NotRequired[Followup]
    cappedBy: NotRequired[CappedBy]
    filtered: NotRequired[Literal[True]]
    cards: NotRequired[list[CardChange]]
    proposals: NotRequired[list[ShownProposal]]
    decisions: NotRequired[list[Decision]]


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


def usage_fields(usage: Usage | None) -> TokenUsage | None:
    if usage is None:
        return None
    fields: TokenUsage = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cachedTokens": usage.cached_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
    }
    if usage.cost is not None:
        fields["costUsd"] = float(usage.cost)
    return fields
