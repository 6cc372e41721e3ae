"""The legacy single transcript of a user: written whole, read whole.

deck  <tenant>#u#<user>        history             pointer: generation, count
deck  <tenant>#history#<user>  <generation>#<n>    message as JSON
"""

from collections.abc import Sequence
from typing import Any

from deckhand.domain import json_text
from deckhand.domain.model import Model
from deckhand.storage.conversations import Owner
from deckhand.storage.parts import join, split
from deckhand.storage.port import EXISTS, Delete, Item, ItemStore, Key, Op, Put


class Pointer(Model):
    generation: str
    count: int


class History:
    """Blocking. Replacing writes the new messages, moves the pointer, removes the old ones: readers never see a mix."""

    def __init__(self, store: ItemStore) -> None:
        self._store = store

    def read(self, owner: Owner) -> list[dict[str, Any]]:
        pointer = self._pointer(owner)
        if pointer is None:
            return []
        items = self._store.query("deck", _pk(owner), prefix=f"{pointer.generation}#").items
        return [json_text.loads(item.body) for item in join(items)]

    def replace(self, owner: Owner, messages: Sequence[dict[str, Any]], *, generation: str) -> None:
        puts = [
            Put(part)
            for n, message in enumerate(messages)
            for part in split(Item("deck", _pk(owner), f"{generation}#{n:06d}", json_text.dumps(message)))
        ]
        for start in range(0, len(puts), 25):
            self._store.write(puts[start : start + 25], token=f"{generation}.{start}")
        key = _key(owner)
        pointer = Pointer(generation=generation, count=len(messages))
        self._store.write([Put(Item(key.table, key.pk, key.sk, pointer.to_json()))], token=generation)
        self._drop_all_but(owner, generation)

    def remove(self, owner: Owner, *, token: str) -> None:
        self._store.write([Delete(_key(owner))], token=token)
        self._drop_all_but(owner, None)

    def taking(self, owner: Owner) -> Op:
        """Ends the transcript as part of another write, on the condition that nobody did so before."""
        return Delete(_key(owner), EXISTS)

    def _pointer(self, owner: Owner) -> Pointer | None:
        item = self._store.get(_key(owner))
        return None if item is None else Pointer.model_validate_json(item.body)

    def _drop_all_but(self, owner: Owner, generation: str | None) -> None:
        items = self._store.query("deck", _pk(owner)).items
        old = [item for item in items if generation is None or not item.sk.startswith(f"{generation}#")]
        self._store.delete_many([Key("deck", item.pk, item.sk) for item in old])


def _key(owner: Owner) -> Key:
    return Key("deck", f"{owner.tenant}#u#{owner.user}", "history")


def _pk(owner: Owner) -> str:
    return f"{owner.tenant}#history#{owner.user}"
