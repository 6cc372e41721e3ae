"""The feedback log on the store.

deck  <tenant>#feedback  <instant>#<id>  entry
"""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from deckhand.domain import json_text
from deckhand.storage.port import Item, ItemStore, Put


class FeedbackEntry(TypedDict):
    """`ts` is ISO 8601, in UTC."""

    ts: str
    kind: Literal["bug", "feature"]
    intent: str
    context: NotRequired[str]
    toolsConsidered: NotRequired[list[str]]


class Feedback:
    """Blocking; raises storage errors."""

    def __init__(self, store: ItemStore, tenant: str) -> None:
        self._store, self._pk = store, f"{tenant}#feedback"

    def add(self, entry: FeedbackEntry, *, entry_id: str) -> None:
        item = Item("deck", self._pk, f"{entry['ts']}#{entry_id}", json_text.dumps(entry))
        self._store.write([Put(item)], token=entry_id)

    def entries(self, *, since: str | None) -> list[FeedbackEntry]:
        """Those later than `since`, oldest first."""
        after = f"{since}#\uffff" if since else None
        return [json_text.loads(item.body) for item in self._store.query("deck", self._pk, after=after).items]
