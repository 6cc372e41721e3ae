"""What people read when a turn does not end with a plain answer. Short, kind, and naming the true cause."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from deckhand.domain.json_text import dumps

CappedBy = Literal["steps", "deadline", "size", "early"]

RESUME: dict[CappedBy, str] = {
    "steps": "This took more steps than one turn allows, so I stopped here. Say “keep going” and I will carry on.",
    "deadline": "I stopped here because the time for one turn was over. Say “keep going” and I will carry on.",
    "size": "The answer was cut off because it grew too long. Say “keep going” for the rest.",
    "early": "This answer ended early. Say “keep going” and I will try to finish it.",
}
STEP_IDLE = (
    "The AI service went quiet in the middle of a step, so I stopped waiting. Please ask again, perhaps for less."
)
STEP_IDLE_AFTER_TEXT = "The AI service went quiet here, so the answer is not complete."
EMPTY = "No answer came back this time. Please say it in other words."
FILTERED = "The AI service’s content filter stopped this answer."
CUT_CALL = "This call was cut off because the answer grew too long, so it was not run. Send it again in smaller parts."
NOT_RUN_STOPPED = "This call was not run: the person stopped the turn."
NOT_RUN_BEHIND = (
    "This call was not run: an earlier call of the same step waits for the person's yes. Call it again once that is "
    "decided."
)
NOBODY_TO_ASK = "This needs a person's yes, and nobody can be asked here. It was not done."
TOO_LARGE_TO_PROPOSE = "This is too large to be shown to the person for a yes. Do it in smaller parts."
WAITS_IN_WORDS = "Not done yet, as it needs a yes:"
YES_IN_WORDS = (
    "To have it done, say yes in the next message of this session, before {until}. There is no button for it, and "
    "nobody else can say yes in its place."
)
AWAITING = "This needs your yes before it is done."
WAITING = (
    "Not decided yet, and not done. The person was shown this call. If they agree in their next message, call the same "
    "tool with exactly the same arguments and this confirmationId; otherwise leave it."
)
EXPIRED = "The person did not decide in time. It was not done."
EDITED = "The person changed the arguments before they said yes. It was run with these, not with yours."
REJECTED = "The person said no. It was not done. Do not ask for the same again unless they want it."
EFFECT_KNOWN = "It was done; what it answered was lost with its process."
UNKNOWN_CONFIRMATION = (
    "Nothing was done, and nobody was asked: no call waits under this confirmationId. Call the tool again without one."
)
OTHER_CONFIRMATION = (
    "This confirmation is for another call: the person agreed to exactly what they were shown. Call the tool without "
    "confirmationId; they will be asked again."
)
TOO_EARLY = "The person has not answered yet. Wait for their next message."
DECIDED = "[The person has decided on what was waiting: {decisions}. Go on from there.]"
UNKNOWN_OUTCOME = (
    "The process ended during this call. Whether it took effect is not known; read before you write again."
)
CALL_AS_TEXT = (
    "You wrote a tool call as plain text, so nothing was run. "
    "If you meant to call a tool, call it properly now; otherwise answer in plain words."
)
CALL_AS_TEXT_FAILED = "The model wrote its tool call as text twice, so nothing was done."

WAKING = "The AI service is waking up. This message was not answered yet; it can be sent again once the service is up."

_OURS = {STEP_IDLE, EMPTY, FILTERED, WAKING, *RESUME.values()}


def is_ours(reply: str) -> bool:
    """Whether no word of a reply is a model's."""
    return reply in _OURS


def waiting_in_words(text: str, proposals: Sequence[Mapping[str, Any]]) -> str:
    """A reply where there is no button: all that waits, whole, and how to say yes to it."""
    asked = [f"- {one['summary']} ({one['tool']}) {dumps(one['arguments'])}" for one in proposals]
    asked = [
        f"{line}, which changes {dumps(one['target'])}" if "target" in one else line
        for line, one in zip(asked, proposals, strict=True)
    ]
    until = min(one["expiresAt"] for one in proposals)
    return "\n".join([text.rstrip(), "", WAITS_IN_WORDS, *asked, YES_IN_WORDS.format(until=until)])


def capped(text: str, cause: CappedBy) -> str:
    """The progress so far, and how to go on."""
    return f"{text.rstrip()}\n\n{RESUME[cause]}" if text.strip() else RESUME[cause]
