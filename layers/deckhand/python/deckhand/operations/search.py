"""Searching the conversations: a bounded scan, side by side; the caps of 100 conversations and 200 messages keep it
cheap without an index.
"""

import re
from concurrent.futures import ThreadPoolExecutor

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from deckhand.domain.conversation import ConversationSummary
from deckhand.domain.search import needle, snippet
from deckhand.operations.caller import Caller
from deckhand.operations.permission import visible_conversations
from deckhand.operations.registry import Http, operation
from deckhand.storage.conversations import StoredHeader

IN_FLIGHT = 8


class Query(BaseModel):
    model_config = ConfigDict(extra="forbid")
    q: str = Field(description="What to look for; only its first 200 characters count.")


class Match(ConversationSummary):
    """`snippet` is the place in the transcript. Where only the title has what was looked for there is none."""

    snippet: str


class Matches(TypedDict):
    conversations: list[ConversationSummary | Match]


@operation(summary="Search the conversations", input=Query, http=Http("POST", "/api/conversations/search"))
def search_conversations(caller: Caller, given: Query) -> Matches:
    """Newest activity first; an empty query gives the whole list."""
    headers = visible_conversations(caller, "search_conversations")
    pattern = needle(given.q)
    if pattern is None:
        return {"conversations": [stored.header.summary() for stored in headers]}
    with ThreadPoolExecutor(IN_FLIGHT) as threads:
        found = list(threads.map(lambda stored: _match(caller, pattern, stored), headers))
    return {"conversations": [summary for summary in found if summary is not None]}


def _match(caller: Caller, pattern: re.Pattern[str], stored: StoredHeader) -> ConversationSummary | Match | None:
    summary = stored.header.summary()
    for text in caller.conversations.texts(caller.owner, stored.header):
        if (shown := snippet(pattern, text)) is not None:
            return {**summary, "snippet": shown}
    return summary if pattern.search(str(summary["title"] or "")) else None
