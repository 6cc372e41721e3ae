"""The feedback log on the store.

deck  <tenant>#feedback  <instant>#<id>  entry
"""

from typing import Any

from deckhand.domain import json_text
from deckhand.storage.port import Item, ItemStore, Put


class Feedback:
    """Blocking; raises storage errors."""

    def __init__(self, store: ItemStore, tenant: str) -> None:
        self._store, self._pk = store, f"{tenant}#feedback"

    def add(self, entry: dict[str, Any], *, entry_id: str) -> None:
        item = Item("deck", self._pk, f"{entry['ts']}#{entry_id}", json_text.dumps(entry))
        self._store.write([Put(item)], token=entry_id)

    def entries(self, *, since: str | None) -> list[dict[str, Any]]:
        """Those later than `since`, oldest first."""
        after = f"{since}#\uffff" if since else None
        return [json_text.loads(item.body) for item in self._store.query("deck", self._pk, after=after).items]
