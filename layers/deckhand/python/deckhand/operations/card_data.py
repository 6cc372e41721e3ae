"""A card's data: whole reads and writes, rows by id over HTTP, rows by path for the model."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from deckhand.domain import json_text
from deckhand.domain.cards import has_type
from deckhand.domain.data_write import check_dates, check_writeable
from deckhand.domain.errors import (
    AlreadyApplied,
    InvalidData,
    InvalidJson,
    NotAList,
    OrderMismatch,
    StaleVersion,
    StorageUnavailable,
    TargetChanged,
    UnknownManifest,
    WrongType,
)
from deckhand.domain.merge_patch import merge
from deckhand.domain.recency import date_field, of_rows
from deckhand.domain.row_path import Place, at_place, locate, replaced, to_last_position
from deckhand.operations import losses, targets
from deckhand.operations.arguments import CardId, ChangedCard
from deckhand.operations.caller import Caller
from deckhand.operations.manifests import CARD_BODY, NamedCard, state_of
from deckhand.operations.registry import Http, operation
from deckhand.operations.shapes import Done
from deckhand.operations.targets import check_target
from deckhand.storage.cards import Card, CardState, Change, Row

PATH = (
    'Where: "" is the data itself, items is a name, [date="2026-04-20"] is the one row of that date, '
    'items[name="Zinc"].doses goes deeper, [index=0] is a position.'
)
MODEL_ROWS = 10
WHOLE_TRIES = 10


class NewData(ChangedCard):
    data: Any = Field(description="All of the data: it replaces what is there.")


class RowRange(CardId):
    limit: int = Field(default=100, ge=1, le=1000)
    order: Literal["asc", "desc"] = "asc"
    after: str | None = None


class NewRow(ChangedCard):
    value: Any


class RowChanges(ChangedCard):
    rowId: str
    changes: dict[str, Any]


class RowId(ChangedCard):
    rowId: str


class RowOrder(ChangedCard):
    order: list[str]


class At(CardId):
    path: str = Field(default="", description=PATH)


class RowsAt(At):
    order: Literal["asc", "desc"] = Field(default="asc", description="desc gives the last rows.")


class ValueAt(At):
    value: Any = Field(description='What to add, usually an object such as {"date": "2026-04-20", "kg": 85.5}.')


class ChangesAt(At):
    changes: dict[str, Any] = Field(description="A merge patch: only the fields that change; null removes one.")


class OrderAt(At):
    key: str = Field(description="The field that names the rows.")
    order: list[str | int | float | bool] = Field(
        description="The values of that field, all of them, in the new order."
    )


class CardData(TypedDict):
    """As it was written."""

    data: Any


class WrittenCard(NamedCard):
    version: int


class NamedRow(TypedDict):
    """`rowId` holds until all of the card's data is replaced or put into another order."""

    rowId: str
    value: Any


class RowPage(TypedDict):
    """`next` is the `after` of the next page, null at the end; `total` counts all rows."""

    rows: list[NamedRow]
    total: int
    next: str | None


class RowCount(Done):
    total: int
    version: int


class AddedRow(RowCount):
    rowId: str


class ChangedRow(Done):
    """`value` is the whole row as it is now."""

    value: Any
    version: int


class Elements(TypedDict):
    """Of a list: `total` counts all of its elements."""

    rows: list[Any]
    total: int
    truncated: bool


class Element(TypedDict):
    """An object; in the place of a long list stands `{omittedArray: true, count}`."""

    row: dict[str, Any]


class Value(TypedDict):
    value: Any


class Appended(NamedCard):
    """`totalAfter` counts the elements of the list that the new one is in."""

    added: Literal[1]
    totalAfter: int


class ChangedElement(NamedCard):
    """`after` is the whole object as it is now."""

    after: dict[str, Any]


class RemovedElement(NamedCard):
    """`removed` is what was there, `totalAfter` counts what is left of its list."""

    removed: Any
    totalAfter: int


class OrderedElements(NamedCard):
    """`reordered` counts the elements of the list."""

    reordered: int


# -- whole data


@operation(summary="Read a card's data", input=CardId, card="id", http=Http("GET", "/api/manifests/{id}/data"))
def read_data(caller: Caller, given: CardId) -> CardData:
    """Raises `UnknownManifest`."""
    return {"data": caller.cards.steady(given.id, caller.cards.data)[1]}


@operation(
    summary="Replace a card's data",
    description=(
        "Replaces ALL data of a card. Prefer append_row, update_row and remove_row: they send less and lose "
        "nothing. Ask the "
        "person once before if rows would be lost."
    ),
    input=NewData,
    http=Http("POST", "/api/manifests/{id}/data", limit=CARD_BODY),
    agent=True,
    mutates=True,
    destroys=losses.replacing,
    target=targets.whole,
    card="id",
    change="changed",
    label="Writing the data",
    rescue=("data",),
)
def write_manifest_data(caller: Caller, given: NewData) -> WrittenCard:
    """Raises `UnknownManifest`, `InvalidData`, `WrongType`, `NotWriteable`, `OutsideDateWindow`, `RowTooLarge`,
    `StaleVersion`.
    """
    if isinstance(given.data, str):
        raise InvalidData()
    card = caller.cards.find(given.id)
    _check_type(card, given.data)
    check_writeable(card.manifest)
    if isinstance(given.data, list) and caller.principal.kind == "user":
        name = date_field(card.manifest)
        check_dates(card.manifest, _dates(given.data, name), caller.today, known=lambda: _known_dates(caller, card))
    changed = replace_all(
        caller,
        given.id,
        given.data,
        version=given.if_match,
        check=lambda now: check_target(caller, targets.extent(now.state)),
    )
    return {"ok": True, "id": given.id, "version": changed.state.version}


def _check_type(card: Card, data: Any) -> None:
    schema = card.manifest.get("schema")
    wanted = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(wanted, str) and not has_type(data, wanted):
        raise WrongType(f"This card's data must be of the type {wanted!r}.")


def _dates(rows: Iterable[Any], name: str) -> list[str]:
    return [row[name] for row in rows if isinstance(row, dict) and isinstance(row.get(name), str)]


def _known_dates(caller: Caller, card: Card) -> set[str]:
    name = date_field(card.manifest)
    return set(_dates((row.value for row in caller.cards.rows(card)), name)) if card.state.shape == "rows" else set()


def replace_all(
    caller: Caller,
    card: str,
    data: Any,
    *,
    version: int | None = None,
    check: Callable[[Card], None] = lambda _: None,
) -> Card:
    """Writes a new generation and moves the card to it; the old one is removed by a job. `check` raises when the card
    as it is must not be replaced.
    """
    found = caller.cards.find(card)
    state = state_of(caller, found.manifest, data)
    caller.cards.write_generation(card, state.generation, data, token=caller.new_id())
    old: list[str] = []

    def edit(now: Card) -> Change:
        check(now)
        old[:] = [now.state.generation]
        return Change(state.model_copy(update={"version": now.state.version, "written_at": caller.now()}))

    try:
        changed = caller.cards.change(card, edit, token=caller.new_id(), version=version)
    except (AlreadyApplied, StaleVersion, TargetChanged, UnknownManifest):
        caller.drop_rows(card, state.generation)
        raise
    caller.drop_rows(card, old[0])
    return changed


# -- rows over HTTP


@operation(summary="Read rows", input=RowRange, card="id", http=Http("GET", "/api/manifests/{id}/rows"))
def list_rows(caller: Caller, given: RowRange) -> RowPage:
    """Raises `UnknownManifest`, `NotAList`, `UnknownRow` (a stale `after`)."""

    def read(card: Card) -> tuple[list[Row], str | None]:
        _check_list(card)
        return caller.cards.page(card, limit=given.limit, after=given.after, backwards=given.order == "desc")

    card, (rows, cursor) = caller.cards.steady(given.id, read)
    shown: list[NamedRow] = [{"rowId": row.id, "value": row.value} for row in rows]
    return {"rows": shown, "total": card.state.count, "next": cursor}


@operation(
    summary="Add a row",
    input=NewRow,
    mutates=True,
    card="id",
    http=Http("POST", "/api/manifests/{id}/rows", status=201, limit=CARD_BODY),
)
def add_row(caller: Caller, given: NewRow) -> AddedRow:
    """Raises as `append_row`, and `OutsideDateWindow`, `StaleVersion`."""
    card = append(caller, given.id, given.value, version=given.if_match)
    row_id = f"{card.state.generation}.{card.state.next_order - 1}"
    return {"ok": True, "rowId": row_id, "total": card.state.count, "version": card.state.version}


@operation(
    summary="Change a row",
    input=RowChanges,
    mutates=True,
    destroys=losses.changing_row,
    card="id",
    http=Http("PATCH", "/api/manifests/{id}/rows/{rowId}", limit=CARD_BODY),
)
def change_row(caller: Caller, given: RowChanges) -> ChangedRow:
    """Raises `NotAList`, `UnknownRow`, `WrongType` (the row is no object), `NotWriteable`,
    `OutsideDateWindow`, `RowTooLarge`, `StaleVersion`.
    """
    after: list[Any] = []

    def edit(card: Card) -> Change:
        _check_list(card)
        check_writeable(card.manifest)
        row = caller.cards.row(card, given.rowId)
        after[:] = [_merged(row.value, given.changes)]
        _check_window(caller, card, after[0])
        return _set_row(caller, card, row.order, after[0])

    card = caller.cards.change(given.id, edit, token=caller.new_id(), version=given.if_match)
    return {"ok": True, "value": after[0], "version": card.state.version}


@operation(
    summary="Remove a row",
    input=RowId,
    mutates=True,
    destructive=True,
    card="id",
    http=Http("DELETE", "/api/manifests/{id}/rows/{rowId}"),
)
def delete_row(caller: Caller, given: RowId) -> RowCount:
    """Raises `NotAList`, `UnknownRow`, `NotWriteable`, `StaleVersion`."""

    def edit(card: Card) -> Change:
        _check_list(card)
        check_writeable(card.manifest)
        return _drop_row(caller, card, caller.cards.row(card, given.rowId).order)

    card = caller.cards.change(given.id, edit, token=caller.new_id(), version=given.if_match)
    return {"ok": True, "total": card.state.count, "version": card.state.version}


@operation(
    summary="Order the rows",
    input=RowOrder,
    mutates=True,
    card="id",
    http=Http("POST", "/api/manifests/{id}/rows/reorder", limit=CARD_BODY),
)
def order_rows(caller: Caller, given: RowOrder) -> RowCount:
    """The rows get new ids. Raises `OrderMismatch`, `NotAList`, `NotWriteable`, `StaleVersion`."""
    card = caller.cards.find(given.id)
    _check_list(card)
    check_writeable(card.manifest)
    rows = {row.id: row.value for row in caller.cards.rows(card)}
    if sorted(rows) != sorted(given.order):
        raise OrderMismatch()
    # Bound to what was read: a row that comes in meanwhile must not be lost.
    version = card.state.version if given.if_match is None else given.if_match
    changed = replace_all(caller, given.id, [rows[row_id] for row_id in given.order], version=version)
    return {"ok": True, "total": changed.state.count, "version": changed.state.version}


def _check_list(card: Card) -> None:
    if card.state.shape == "value":
        raise NotAList()


def _check_window(caller: Caller, card: Card, row: Any) -> None:
    """For people only: programs write what they are told to."""
    if caller.principal.kind == "user":
        new = _dates([row], date_field(card.manifest))
        check_dates(card.manifest, new, caller.today, known=lambda: _known_dates(caller, card))


# -- rows for the model


@operation(
    summary="Read rows of a card",
    description=(
        f"Reads what is at a path. A list gives its first {MODEL_ROWS} elements (the last {MODEL_ROWS} with "
        f"order desc) and how many there are; an "
        "object gives itself, with long lists in it left out; anything else its value."
    ),
    input=RowsAt,
    agent=True,
    card="id",
    label="Reading rows",
)
def read_manifest_rows(caller: Caller, given: RowsAt) -> Elements | Element | Value:
    """Raises `UnknownManifest`, `BadPath`, `NoMatch`, `Ambiguous`, `WrongType`."""
    return caller.cards.steady(given.id, lambda card: _rows_at(caller, card, given))[1]


def _rows_at(caller: Caller, card: Card, given: RowsAt) -> Elements | Element | Value:
    if card.state.shape == "rows" and not given.path:
        rows, _ = caller.cards.page(card, limit=MODEL_ROWS, after=None, backwards=given.order == "desc")
        values = [row.value for row in (reversed(rows) if given.order == "desc" else rows)]
        return {"rows": values, "total": card.state.count, "truncated": card.state.count > len(values)}
    data = caller.cards.data(card)
    value = at_place(data, locate(data, given.path))
    if isinstance(value, list):
        shown = value[-MODEL_ROWS:] if given.order == "desc" else value[:MODEL_ROWS]
        return {"rows": shown, "total": len(value), "truncated": len(value) > len(shown)}
    return {"row": _without_long_lists(value)} if isinstance(value, dict) else {"value": value}


def _without_long_lists(value: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"omittedArray": True, "count": len(one)} if isinstance(one, list) and len(one) > MODEL_ROWS else one
        for name, one in value.items()
    }


@operation(
    summary="Append a row to a card",
    description=(
        "Adds one element at the end of a list: the card's rows, or a list inside them. "
        "Use the field names that are there."
    ),
    input=ValueAt,
    agent=True,
    mutates=True,
    target=targets.at_position,
    card="id",
    change="changed",
    label="Adding a row",
)
def append_row(caller: Caller, given: ValueAt) -> Appended:
    """Raises `UnknownManifest`, `NotAList`, `NotWriteable`, `BadPath`, `NoMatch`, `Ambiguous`, `WrongType`,
    `RowTooLarge`.
    """
    if not given.path:
        card = append(caller, given.id, given.value, rescue=True)
        return {"ok": True, "id": given.id, "added": 1, "totalAfter": card.state.count}
    total: list[int] = []

    def change(data: Any, place: Place) -> Any:
        target = at_place(data, place)
        if not isinstance(target, list):
            raise WrongType("There is no list at this path.")
        _check_position(caller, data, given.path)
        _same_kind(target, given.value)
        total[:] = [len(target) + 1]
        return replaced(data, place, [*target, given.value])

    _edit_at(caller, given, change)
    return {"ok": True, "id": given.id, "added": 1, "totalAfter": total[0]}


def append(caller: Caller, card: str, value: Any, *, version: int | None = None, rescue: bool = False) -> Card:
    """One small write, whatever the card's size. `rescue`: a text that holds an object is one, on a card whose rows
    are objects or that is empty.
    """

    def edit(found: Card) -> Change:
        return _appended(caller, found, _object_in(value) if rescue and _takes_objects(found.state) else value)

    return caller.cards.change(card, edit, token=caller.new_id(), version=version)


def _takes_objects(state: CardState) -> bool:
    return state.recency.objects == state.count


def _object_in(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        found = json_text.loads(value)
    except InvalidJson:
        return value
    return found if isinstance(found, dict) else value


def _appended(caller: Caller, found: Card, value: Any) -> Change:
    check_writeable(found.manifest)
    state = found.state
    if state.shape == "value":
        raise NotAList()
    if state.count and _takes_objects(state) and not isinstance(value, dict):
        raise WrongType("The rows of this card are objects.")
    _check_type(found, [])
    _check_window(caller, found, value)
    name = date_field(found.manifest)
    moved = state.model_copy(
        update={
            "shape": "rows",
            "count": state.count + 1,
            "next_order": state.next_order + 1,
            "recency": state.recency.with_row(value, name),
            "written_at": caller.now(),
        }
    )
    return Change(moved, ops=(caller.cards.put_row(found.id, state.generation, state.next_order, value),))


def _same_kind(target: list[Any], value: Any) -> None:
    if target and all(isinstance(one, dict) for one in target) and not isinstance(value, dict):
        raise WrongType("The elements of this list are objects.")


@operation(
    summary="Change a row of a card",
    description="Changes fields of one object: a row, or an object inside one. Fields that are not named stay.",
    input=ChangesAt,
    agent=True,
    mutates=True,
    destroys=losses.changing,
    target=targets.at_path,
    card="id",
    change="changed",
    label="Changing a row",
)
def update_row(caller: Caller, given: ChangesAt) -> ChangedElement:
    """The root cannot be changed so. Raises as `append_row`."""
    if not given.path:
        raise WrongType("Name one row: the data as a whole is replaced by write_manifest_data.")
    after: list[Any] = []

    def change(data: Any, place: Place) -> Any:
        check_target(caller, at_place(data, place))
        after[:] = [_merged(at_place(data, place), given.changes)]
        return replaced(data, place, after[0])

    _edit_at(caller, given, change)
    return {"ok": True, "id": given.id, "after": after[0]}


@operation(
    summary="Remove a row of a card",
    description="Removes one element of a list. Ask the person once before.",
    input=At,
    agent=True,
    mutates=True,
    destructive=True,
    target=targets.at_path,
    card="id",
    change="changed",
    label="Removing a row",
)
def remove_row(caller: Caller, given: At) -> RemovedElement:
    """The path must end at an element of a list. Raises as `append_row`."""
    removed: list[Any] = []

    def change(data: Any, place: Place) -> Any:
        if not place or not isinstance(place[-1], int):
            raise WrongType("The path must lead to one element of a list.")
        parent = at_place(data, place[:-1])
        check_target(caller, parent[place[-1]])
        removed[:] = [parent[place[-1]], len(parent) - 1]
        return replaced(data, place[:-1], [one for n, one in enumerate(parent) if n != place[-1]])

    _edit_at(caller, given, change)
    return {"ok": True, "id": given.id, "removed": removed[0], "totalAfter": removed[1]}


@operation(
    summary="Order rows of a card",
    description=(
        "Puts the elements of a list into a new order, named by one field: give the values of that field, all of them."
    ),
    input=OrderAt,
    agent=True,
    mutates=True,
    target=targets.at_position,
    card="id",
    change="changed",
    label="Ordering the rows",
)
def reorder_rows(caller: Caller, given: OrderAt) -> OrderedElements:
    """Raises as `append_row`, and `OrderMismatch` when the order is not exactly what is there."""

    def change(data: Any, place: Place) -> Any:
        target = at_place(data, place)
        if not isinstance(target, list):
            raise WrongType("There is no list at this path.")
        _check_position(caller, data, given.path)
        return replaced(data, place, _ordered(target, given.key, given.order))

    _edit_at(caller, given, change)
    return {"ok": True, "id": given.id, "reordered": len(given.order)}


def _check_position(caller: Caller, data: Any, path: str) -> None:
    if position := to_last_position(path):
        check_target(caller, at_place(data, locate(data, position)))


def _ordered(rows: list[Any], key: str, order: list[str | int | float | bool]) -> list[Any]:
    named: dict[tuple[type, Any], Any] = {}
    for row in rows:
        value = row.get(key) if isinstance(row, dict) else None
        if not isinstance(value, str | int | float) or (type(value), value) in named:
            raise OrderMismatch(f"The field {key!r} does not name every row once.")
        named[(type(value), value)] = row
    wanted = [(type(value), value) for value in order]
    if len(wanted) != len(named) or set(wanted) != set(named):
        raise OrderMismatch()
    return [named[one] for one in wanted]


def _merged(value: Any, changes: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WrongType("Only an object can be changed field by field.")
    merged: dict[str, Any] = merge(value, changes)
    return merged


# -- one change of the data at a path, written as narrowly as the shape allows


def _edit_at(caller: Caller, given: At, change: Any) -> None:
    """`change(data, place)` gives the whole new data; only what it touched is written. Raises what `locate` and
    `change` raise.
    """
    fresh: list[str] = []
    old: list[str] = []

    def edit(card: Card) -> Change:
        check_writeable(card.manifest)
        if card.state.shape != "rows":
            data = caller.cards.data(card)
            generation = caller.new_id()[:12]
            fresh.append(generation)
            new = change(data, locate(data, given.path))
            caller.cards.write_generation(given.id, generation, new, token=caller.new_id())
            old[:] = [card.state.generation]
            return Change(card.state.model_copy(update={"generation": generation, "written_at": caller.now()}))
        rows = caller.cards.rows(card)
        data = [row.value for row in rows]
        place = locate(data, given.path)
        new = change(data, place)
        if place and len(new) == len(data):
            index = int(place[0])
            return _set_row(caller, card, rows[index].order, new[index], values=new)
        if place and len(place) == 1:
            return _drop_row(caller, card, rows[int(place[0])].order, values=new)
        raise _Whole(new, card.state.version)

    for _ in range(WHOLE_TRIES):
        try:
            caller.cards.change(given.id, edit, token=caller.new_id())
        except _Whole as whole:
            # Bound to what was read: a row that came in meanwhile must not be lost.
            with suppress(StaleVersion):
                replace_all(caller, given.id, whole.data, version=whole.version)
                break
        else:
            break
    else:
        raise StorageUnavailable()
    for generation in (*fresh[:-1], *old):
        caller.drop_rows(given.id, generation)


class _Whole(Exception):
    """All rows move, so that a new generation is written."""

    def __init__(self, data: Any, version: int) -> None:
        super().__init__()
        self.data, self.version = data, version


def _set_row(caller: Caller, card: Card, order: int, value: Any, values: list[Any] | None = None) -> Change:
    name = date_field(card.manifest)
    if values is None:
        values = [value if row.order == order else row.value for row in caller.cards.rows(card)]
    state = _touched(caller, card.state, of_rows(values, name), card.state.count)
    return Change(state, ops=(caller.cards.put_row(card.id, card.state.generation, order, value),))


def _drop_row(caller: Caller, card: Card, order: int, values: list[Any] | None = None) -> Change:
    if values is None:
        values = [row.value for row in caller.cards.rows(card) if row.order != order]
    state = _touched(caller, card.state, of_rows(values, date_field(card.manifest)), card.state.count - 1)
    return Change(state, ops=(caller.cards.delete_row(card.id, card.state.generation, order),))


def _touched(caller: Caller, state: CardState, recency: Any, count: int) -> CardState:
    return state.model_copy(update={"recency": recency, "count": count, "written_at": caller.now()})
