"""A store for one look at things: what is read twice is asked for once, and is the same both times."""

from collections.abc import Sequence
from typing import Any

from deckhand.storage.port import Item, ItemStore, Key, Op, Page, Table


class ReadOnce:
    """An `ItemStore` that remembers its reads, until something is written through it. For one thread."""

    def __init__(self, store: ItemStore) -> None:
        self._store = store
        self._items: dict[Key, Item | None] = {}
        self._pages: dict[tuple[Any, ...], Page] = {}

    def get(self, key: Key) -> Item | None:
        if key not in self._items:
            self._items[key] = self._store.get(key)
        return self._items[key]

    def query(self, table: Table, pk: str, **bounds: Any) -> Page:
        asked = (table, pk, *sorted(bounds.items()))
        if asked not in self._pages:
            self._pages[asked] = self._store.query(table, pk, **bounds)
        return self._pages[asked]

    def write(self, ops: Sequence[Op], *, token: str) -> None:
        self._forget()
        self._store.write(ops, token=token)

    def delete_many(self, keys: Sequence[Key]) -> None:
        self._forget()
        self._store.delete_many(keys)

    def _forget(self) -> None:
        self._items.clear()
        self._pages.clear()
