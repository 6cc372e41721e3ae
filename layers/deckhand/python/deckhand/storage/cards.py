"""Cards on the store: all manifests in one partition, each card's rows in one of their own.

    deck  <tenant>#cards                 meta#<id>    manifest without its data
    deck  <tenant>#cards                 state#<id>   version, row count, next order, generation, newest entries
    deck  <tenant>#card#<id>#g<gen>      r#<order>    one row, the value's JSON
    deck  <tenant>#card#<id>#g<gen>      value        data that is not a list of rows

Appending writes the row and the small state item, whatever the card's size. Replacing writes a new generation and
moves the state's pointer, and reads look whether the generation is still the card's: they never see a mix. Every
change moves the state on the condition of its version, so of writers that collide none is lost. A change of reminders
leaves a marker for their index in the same write.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from deckhand.domain.cards import MAX_ROW_BYTES, valid_id
from deckhand.domain.errors import (
    ConditionFailed,
    DeckhandError,
    DuplicateId,
    ItemTooLarge,
    RowTooLarge,
    StaleVersion,
    StorageUnavailable,
    UnknownManifest,
    UnknownRow,
)
from deckhand.domain.json_text import bounded_dumps, dumps
from deckhand.domain.model import Model
from deckhand.domain.recency import Recency
from deckhand.domain.reminders import reminders_differ
from deckhand.storage.due import Marked, mark
from deckhand.storage.parts import join, split
from deckhand.storage.port import ABSENT, Check, Condition, Delete, Item, ItemStore, Key, Op, Page, Put, VersionIs

Read = TypeVar("Read")
ATTEMPTS = 300
Shape = Literal["rows", "value", "none"]


class CardState(Model):
    """`shape`: whether the data is a list of rows, one value, or absent. `version` moves with every change of the
    card; `written_at` is the
    last change of the data in epoch seconds."""

    version: int = 1
    shape: Shape = "none"
    count: int = 0
    next_order: int = 1
    generation: str = "0"
    recency: Recency = Recency()
    written_at: float | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """`manifest` is everything but the data."""

    id: str
    manifest: dict[str, Any]
    state: CardState
    meta_version: int
    state_version: int


@dataclass(frozen=True, slots=True)
class Row:
    """`id` names the row within its generation; whole replaces and reorders give new ids."""

    id: str
    order: int
    value: Any


@dataclass(frozen=True, slots=True)
class Change:
    """What a change writes beside the state: a new manifest, row ops. `state` is without the new version."""

    state: CardState
    manifest: dict[str, Any] | None = None
    ops: tuple[Op, ...] = ()


class Cards:
    """Blocking. Raises `UnknownManifest`, `UnknownRow`, `DuplicateId`, `StaleVersion`, `RowTooLarge` and storage
    errors.
    """

    def __init__(self, store: ItemStore, tenant: str, *, bound: tuple[str, int] | None = None) -> None:
        """`bound`: a card that is changed only in this version."""
        self._store, self._tenant, self._bound = store, tenant, bound

    # -- reading

    def all(self) -> list[Card]:
        """In the order that people set, then by label. One query."""
        items = list(join(self._store.query("deck", f"{self._tenant}#cards").items))
        states = {item.sk.removeprefix("state#"): item for item in items if item.sk.startswith("state#")}
        metas = {item.sk.removeprefix("meta#"): item for item in items if item.sk.startswith("meta#")}
        return sorted((_card(card, metas[card], states[card]) for card in metas if card in states), key=_place)

    def find(self, card: str) -> Card:
        if not valid_id(card):
            raise UnknownManifest()
        # The state first: with an older state than manifest a change is refused and tried again, the other way round
        # it would go through on a manifest that has moved on.
        state, meta = self._store.get(self._key("state", card)), self._store.get(self._key("meta", card))
        if meta is None or state is None:
            raise UnknownManifest()
        return _card(card, meta, state)

    def state(self, card: str) -> CardState:
        """One read. Raises `UnknownManifest`."""
        found = self._store.get(self._key("state", card)) if valid_id(card) else None
        if found is None:
            raise UnknownManifest()
        return CardState.model_validate_json(found.body)

    def steady(self, card: str, read: Callable[[Card], Read]) -> tuple[Card, Read]:
        """What `read` makes of the card and its rows, again when the rows were replaced meanwhile: those it found may
        be gone in part.
        """
        for _ in range(ATTEMPTS):
            found = self.find(card)
            result = read(found)
            now = self._store.get(self._key("state", card))
            if now is not None and CardState.model_validate_json(now.body).generation == found.state.generation:
                return found, result
        raise StorageUnavailable()

    def rows(self, card: Card) -> list[Row]:
        return self._rows(card.id, card.state.generation)

    def _rows(self, card: str, generation: str) -> list[Row]:
        items = self._store.query("deck", self._pk(card, generation), prefix="r#").items
        return [_row(generation, item) for item in items]

    def page(self, card: Card, *, limit: int, after: str | None, backwards: bool) -> tuple[list[Row], str | None]:
        """At most `limit` rows behind the row id `after`, and the id to go on after. A row id of another generation
        is unknown.
        """
        bound = None if after is None else f"r#{self._order(card, after):012d}"
        found: Page = self._store.query(
            "deck",
            self._pk(card.id, card.state.generation),
            prefix="r#",
            after=None if backwards else bound,
            before=bound if backwards else None,
            backwards=backwards,
            limit=limit,
        )
        rows = [_row(card.state.generation, item) for item in found.items]
        return rows, rows[-1].id if found.cursor is not None and rows else None

    def row(self, card: Card, row_id: str) -> Row:
        key = self._row_key(card.id, card.state.generation, self._order(card, row_id))
        item = self._store.get(key)
        if item is None:
            raise UnknownRow()
        return _row(card.state.generation, item)

    def data(self, card: Card) -> Any:
        """The whole data block as it was written; None without data."""
        return self.data_of(card.id, card.state)

    def data_of(self, card: str, state: CardState) -> Any:
        if state.shape == "rows":
            return [row.value for row in self._rows(card, state.generation)]
        if state.shape == "none":
            return None
        items = self._store.query("deck", self._pk(card, state.generation), prefix="value").items
        return next((json.loads(item.body) for item in join(items)), None)

    # -- writing

    def create(self, card: str, manifest: dict[str, Any], state: CardState, data: Any, *, token: str) -> None:
        """`state` describes `data` (None: no data), which is written before the card can be seen."""
        if self._store.get(self._key("meta", card)) is not None:
            raise DuplicateId()
        # A card made anew under an old id starts at another version, so that a change begun on the old one is refused.
        first = 1 + zlib.crc32(state.generation.encode())
        meta = dumps(manifest)
        if len(meta.encode()) > MAX_ROW_BYTES:
            raise ItemTooLarge()
        self.write_generation(card, state.generation, data, token=token)
        ops: list[Op] = [
            *self._puts("meta", card, meta, first, ABSENT),
            *self._puts("state", card, state.to_json(), first, ABSENT),
            *self._marked(card, None, manifest, token),
        ]
        try:
            self._store.write(ops, token=token)
        except ConditionFailed:
            self.drop_generation(card, state.generation)
            raise DuplicateId() from None

    def change(
        self, card: str, edit: Callable[[Card], Change | None], *, token: str, version: int | None = None
    ) -> Card:
        """Applies `edit` to the card as it is, again when somebody was quicker. None from `edit` changes nothing.

        `version` is the one that the caller read: raises `StaleVersion` when the card has moved on.
        """
        if version is None and self._bound is not None and self._bound[0] == card:
            version = self._bound[1]
        for attempt in range(ATTEMPTS):
            found = self.find(card)
            if version is not None and found.state.version != version:
                raise StaleVersion(version=found.state.version)
            try:
                wanted = edit(found)
            except DeckhandError:
                if self.find(card).state_version == found.state_version:
                    raise
                continue  # it may have read rows that were being replaced
            if wanted is None:
                return found
            state = wanted.state.model_copy(update={"version": found.state.version + 1})
            ops: list[Op] = [
                *self._puts("state", card, state.to_json(), found.state_version + 1, VersionIs(found.state_version))
            ]
            meta_version = found.meta_version
            if wanted.manifest is not None:
                meta_version += 1
                ops += self._puts("meta", card, dumps(wanted.manifest), meta_version, VersionIs(found.meta_version))
                ops += self._marked(card, found.manifest, wanted.manifest, f"{token}.{attempt}")
            try:
                self._store.write([*ops, *wanted.ops], token=f"{token}.{attempt}")
            except ConditionFailed:
                continue
            return Card(card, wanted.manifest or found.manifest, state, meta_version, found.state_version + 1)
        raise StorageUnavailable()

    def remove(
        self,
        card: str,
        *,
        token: str,
        version: int | None = None,
        check: Callable[[Card], None] = lambda _: None,
    ) -> Card:
        """Takes the card away; its rows are nobody's then and are dropped by `drop_generation`. `check` raises when
        the card as it is must stay.
        """
        for attempt in range(ATTEMPTS):
            found = self.find(card)
            if version is not None and found.state.version != version:
                raise StaleVersion(version=found.state.version)
            check(found)
            ops: list[Op] = [
                Delete(self._key("meta", card), VersionIs(found.meta_version)),
                Delete(self._key("state", card), VersionIs(found.state_version)),
                *self._marked(card, found.manifest, None, f"{token}.{attempt}"),
            ]
            try:
                self._store.write(ops, token=f"{token}.{attempt}")
            except ConditionFailed:
                continue
            return found
        raise StorageUnavailable()

    def write_generation(self, card: str, generation: str, data: Any, *, token: str) -> None:
        """All of `data` under a generation that nobody sees yet."""
        pk = self._pk(card, generation)
        if isinstance(data, list):
            puts = [self.put_row(card, generation, order, value) for order, value in enumerate(data, start=1)]
        elif data is None:
            return
        else:
            puts = [Put(part) for part in split(Item("deck", pk, "value", bounded_dumps(data)))]
        for number, batch in enumerate(_batches(puts)):
            self._store.write(batch, token=f"{token}.g{number}")

    def drop_generation(self, card: str, generation: str) -> None:
        """Removes rows that nobody sees any more; those of the card's present generation stay, whoever asks."""
        state = self._store.get(self._key("state", card))
        if state is not None and CardState.model_validate_json(state.body).generation == generation:
            return
        pk = self._pk(card, generation)
        self._store.delete_many([Key("deck", pk, item.sk) for item in self._store.query("deck", pk).items])

    def put_row(self, card: str, generation: str, order: int, value: Any) -> Put:
        body = bounded_dumps(value)
        if len(body.encode()) > MAX_ROW_BYTES:
            raise RowTooLarge()
        key = self._row_key(card, generation, order)
        return Put(Item(key.table, key.pk, key.sk, body))

    def delete_row(self, card: str, generation: str, order: int) -> Delete:
        return Delete(self._row_key(card, generation, order))

    def unchanged(self, card: str, found: Card | None) -> Check:
        """Holds while the card's manifest is the one that was read, or while there is no such card."""
        return Check(self._key("meta", card), ABSENT if found is None else VersionIs(found.meta_version))

    def _marked(self, card: str, old: dict[str, Any] | None, new: dict[str, Any] | None, change: str) -> list[Op]:
        return [mark(self._tenant, Marked.CARD, card, change)] if reminders_differ(old, new) else []

    # -- keys

    def _puts(self, kind: str, card: str, body: str, version: int, condition: Condition) -> list[Put]:
        key = self._key(kind, card)
        return [Put(Item(key.table, key.pk, key.sk, body, version), condition)]

    def _key(self, kind: str, card: str) -> Key:
        return Key("deck", f"{self._tenant}#cards", f"{kind}#{card}")

    def _pk(self, card: str, generation: str) -> str:
        return f"{self._tenant}#card#{card}#g{generation}"

    def _row_key(self, card: str, generation: str, order: int) -> Key:
        return Key("deck", self._pk(card, generation), f"r#{order:012d}")

    def _order(self, card: Card, row_id: str) -> int:
        generation, _, order = row_id.partition(".")
        known = generation == card.state.generation and order.isascii() and order.isdigit() and len(order) <= 12
        if not known or card.state.shape != "rows":
            raise UnknownRow()
        return int(order)


def _batches(puts: Sequence[Put]) -> Iterable[list[Put]]:
    """Within the bounds of a transaction: 100 ops, 4 MB."""
    batch: list[Put] = []
    size = 0
    for put in puts:
        length = len(put.item.body.encode())
        if batch and (len(batch) == 100 or size + length > 3_000_000):
            yield batch
            batch, size = [], 0
        batch.append(put)
        size += length
    if batch:
        yield batch


def _card(card: str, meta: Item, state: Item) -> Card:
    return Card(card, json.loads(meta.body), CardState.model_validate_json(state.body), meta.version, state.version)


def _row(generation: str, item: Item) -> Row:
    order = int(item.sk[2:])
    return Row(f"{generation}.{order}", order, json.loads(item.body))


def _place(card: Card) -> tuple[float, str, str]:
    meta = card.manifest["meta"]
    order = meta.get("order")
    known = isinstance(order, int | float) and not isinstance(order, bool)
    return (order if known else 1000, str(meta.get("label", "")), card.id)
