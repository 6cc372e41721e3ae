"""The feedback log: what went wrong, what was missing, never what a person wrote or tracks."""

from typing import Literal

from pydantic import Field
from typing_extensions import TypedDict

from deckhand.domain.errors import InvalidRequest
from deckhand.domain.times import epoch, iso
from deckhand.operations.arguments import Arguments
from deckhand.operations.caller import Caller
from deckhand.operations.registry import Http, operation
from deckhand.storage.feedback import Feedback, FeedbackEntry

MAX_INTENT, MAX_CONTEXT, MAX_TOOLS, MAX_TOOL = 280, 500, 12, 64
FILLER = {
    "",
    "-",
    "n/a",
    "na",
    "none",
    "null",
    "nothing",
    "skip",
    "test",
    "todo",
    "tbd",
    "unknown",
    "no feedback",
    "...",
}


class Note(Arguments):
    kind: Literal["bug", "feature"] = "feature"
    intent: str = Field(
        description="What the person wanted, in your own words, without any of their data; at most 280 characters."
    )
    context: str | None = Field(default=None, description="What happened instead; at most 500 characters.")
    toolsConsidered: list[str] | None = Field(default=None, description="Names of tools that did not fit.")


class Since(Arguments):
    since: str | None = Field(default=None, description="An instant in ISO 8601; without a zone it is UTC.")


class LoggedNote(TypedDict):
    logged: Literal[True]


class FeedbackLog(TypedDict):
    entries: list[FeedbackEntry]
    count: int


@operation(
    summary="Log a bug or a wish",
    description=(
        "Logs a bug, or a wish that no tool can fulfil, for the operator. Paraphrase; never any data of the "
        "person. Say nothing "
        "of it unless asked."
    ),
    input=Note,
    http=Http("POST", "/api/feedback"),
    agent=True,
    mutates=True,
    label="Noting feedback",
)
def note_feedback(caller: Caller, given: Note) -> LoggedNote:
    """Raises `InvalidRequest` for an intent that says nothing."""
    intent = " ".join(given.intent.split())
    if intent.lower().strip(".!") in FILLER:
        raise InvalidRequest("The intent says nothing, so nothing was logged.")
    entry: FeedbackEntry = {"ts": iso(caller.now()), "kind": given.kind, "intent": intent[:MAX_INTENT]}
    if given.context:
        entry["context"] = given.context[:MAX_CONTEXT]
    if given.toolsConsidered:
        entry["toolsConsidered"] = [tool[:MAX_TOOL] for tool in given.toolsConsidered[:MAX_TOOLS]]
    Feedback(caller.store, caller.principal.tenant).add(entry, entry_id=caller.new_id())
    return {"logged": True}


@operation(summary="Read the feedback log", input=Since, http=Http("GET", "/api/admin/feedback", admin=True))
def read_feedback(caller: Caller, given: Since) -> FeedbackLog:
    """Oldest first, those later than `since`. Raises `InvalidRequest` when that is no instant."""
    since = None if given.since is None else _instant(given.since)
    entries = Feedback(caller.store, caller.principal.tenant).entries(since=since)
    return {"entries": entries, "count": len(entries)}


def _instant(text: str) -> str:
    """As entries have it in `ts`. In a query + means a blank, so one before the zone's hours is taken for it."""
    try:
        return iso(epoch(text.replace(" ", "+") if "T" in text else text))
    except (ValueError, OverflowError):
        raise InvalidRequest("since must be an instant such as 2026-04-20T08:00:00Z.") from None
