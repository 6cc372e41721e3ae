"""Cards on the store: all manifests in one partition, each card's rows in one of their own.

    deck  <tenant>#cards                 meta#<id>    manifest without its data
    deck  <tenant>#cards                 state#<id>   version, row count, next order, generation
    deck  <tenant>#card#<id>#g<gen>      r#<order>    one row: [row id, value]

Appending writes the row and the small state item, whatever the card's size. Data that is not a list is one `value`
item of its generation.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from deckhand.domain.cards import MAX_ROW_BYTES
from deckhand.domain.errors import (
    ConditionFailed,
    DuplicateId,
    NotAList,
    RowTooLarge,
    StorageUnavailable,
    UnknownManifest,
)
from deckhand.domain.json_text import dumps
from deckhand.domain.model import Model
from deckhand.storage.port import ABSENT, Item, ItemStore, Key, Put, VersionIs

ATTEMPTS = 200


class CardState(Model):
    """`shape`: whether the data is a list of rows, one value, or absent. `version` moves with every change of the
    card.
    """

    version: int = 1
    shape: Literal["rows", "value", "none"] = "none"
    count: int = 0
    next_order: int = 1
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Card:
    """`manifest` is everything but the data."""

    id: str
    manifest: dict[str, Any]
    state: CardState
    state_version: int


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    order: int
    value: Any


class Cards:
    """Blocking. Raises `UnknownManifest`, `DuplicateId`, `NotAList`, `RowTooLarge` and storage errors."""

    def __init__(self, store: ItemStore, tenant: str) -> None:
        self._store, self._tenant = store, tenant

    def all(self) -> list[Card]:
        """In the order that people set, then by label. One query."""
        items = self._store.query("deck", f"{self._tenant}#cards").items
        states = {item.sk.removeprefix("state#"): item for item in items if item.sk.startswith("state#")}
        metas = {item.sk.removeprefix("meta#"): item for item in items if item.sk.startswith("meta#")}
        cards = [_card(card, metas[card], states[card]) for card in metas if card in states]
        return sorted(cards, key=_order)

    def find(self, card: str) -> Card:
        meta, state = self._store.get(self._key("meta", card)), self._store.get(self._key("state", card))
        if meta is None or state is None:
            raise UnknownManifest()
        return _card(card, meta, state)

    def create(
        self, card: str, manifest: dict[str, Any], data: Any, *, row_ids: Sequence[str], token: str
    ) -> CardState:
        """`data` None: no data. Rows are written before the card can be seen."""
        rows = data if isinstance(data, list) else []
        shape: Literal["rows", "value", "none"] = (
            "rows" if isinstance(data, list) else "none" if data is None else "value"
        )
        state = CardState(shape=shape, count=len(rows), next_order=len(rows) + 1)
        if self._store.get(self._key("meta", card)) is not None:
            raise DuplicateId()
        puts = [
            self._put_row(card, state.generation, Row(row_id, order, value))
            for order, (row_id, value) in enumerate(zip(row_ids, rows, strict=True), start=1)
        ]
        if shape == "value":
            puts.append(Put(Item("deck", self._rows_pk(card, state.generation), "value", dumps(data))))
        for start in range(0, len(puts), 25):
            self._store.write(puts[start : start + 25], token=f"{token}.{start}")
        meta_key, state_key = self._key("meta", card), self._key("state", card)
        try:
            self._store.write(
                [
                    Put(Item("deck", meta_key.pk, meta_key.sk, dumps(manifest)), ABSENT),
                    Put(Item("deck", state_key.pk, state_key.sk, state.to_json()), ABSENT),
                ],
                token=token,
            )
        except ConditionFailed:
            raise DuplicateId() from None
        return state

    def rows(self, card: Card) -> list[Row]:
        items = self._store.query("deck", self._rows_pk(card.id, card.state.generation), prefix="r#").items
        return [_row(item) for item in items]

    def data(self, card: Card) -> Any:
        """The whole data block as it was written; None without data."""
        if card.state.shape == "rows":
            return [row.value for row in self.rows(card)]
        if card.state.shape == "none":
            return None
        item = self._store.get(Key("deck", self._rows_pk(card.id, card.state.generation), "value"))
        return None if item is None else json.loads(item.body)

    def append(self, card: str, row_id: str, value: Any, *, token: str) -> CardState:
        """Adds one row at the end and returns the state after it. Writers that collide try again; none is lost."""
        for _ in range(ATTEMPTS):
            item = self._store.get(self._key("state", card))
            if item is None:
                raise UnknownManifest()
            state = CardState.model_validate_json(item.body)
            if state.shape == "value":
                raise NotAList()
            moved = state.model_copy(
                update={
                    "version": state.version + 1,
                    "shape": "rows",
                    "count": state.count + 1,
                    "next_order": state.next_order + 1,
                }
            )
            ops = [
                Put(Item("deck", item.pk, item.sk, moved.to_json(), item.version + 1), VersionIs(item.version)),
                self._put_row(card, state.generation, Row(row_id, state.next_order, value)),
            ]
            try:
                self._store.write(ops, token=f"{token}.{item.version}")
            except ConditionFailed:
                continue
            return moved
        raise StorageUnavailable()

    def _put_row(self, card: str, generation: int, row: Row) -> Put:
        body = dumps([row.id, row.value])
        if len(body.encode()) > MAX_ROW_BYTES + 64:
            raise RowTooLarge()
        return Put(Item("deck", self._rows_pk(card, generation), f"r#{row.order:012d}", body))

    def _key(self, kind: str, card: str) -> Key:
        return Key("deck", f"{self._tenant}#cards", f"{kind}#{card}")

    def _rows_pk(self, card: str, generation: int) -> str:
        return f"{self._tenant}#card#{card}#g{generation}"


def _card(card: str, meta: Item, state: Item) -> Card:
    return Card(card, json.loads(meta.body), CardState.model_validate_json(state.body), state.version)


def _row(item: Item) -> Row:
    row_id, value = json.loads(item.body)
    return Row(row_id, int(item.sk[2:]), value)


def _order(card: Card) -> tuple[float, str, str]:
    meta = card.manifest["meta"]
    order = meta.get("order")
    return (order if isinstance(order, int | float) else 1000, str(meta.get("label", "")), card.id)
