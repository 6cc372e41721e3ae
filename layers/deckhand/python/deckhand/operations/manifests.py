"""Cards: list, read, create, append."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from deckhand.domain.cards import check_manifest, first_line
from deckhand.domain.errors import BadPath
from deckhand.operations.caller import Caller
from deckhand.operations.registry import operation


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Nothing(Arguments):
    """No arguments."""


class CardId(Arguments):
    id: str = Field(description="The card's id, as list_manifests shows it.")


class NewManifest(Arguments):
    manifest: dict[str, Any] = Field(
        description=(
            'The whole manifest: {"$schema": "klebb.datafile.v1", "meta": {"id", "label", "emoji"}, '
            '"description", "data": []}.'
        )
    )


class NewRow(Arguments):
    id: str = Field(description="The card's id.")
    path: str = Field(default="", description="Where the rows are: an empty text for the card's data itself.")
    value: Any = Field(description='The row, usually an object such as {"date": "2026-04-20", "kg": 85.5}.')


@operation(
    summary="List all cards",
    description="Lists all cards: id, label, first line of the description, and whether the card is enabled.",
    input=Nothing,
    agent=True,
    label="Looking through the cards",
)
def list_manifests(caller: Caller, _: Nothing) -> dict[str, Any]:
    """`{cards: [{id, label, description, enabled}]}`, in the person's order."""
    cards = [
        {
            "id": card.id,
            "label": card.manifest["meta"]["label"],
            "description": first_line(card.manifest.get("description", ""), 200),
            "enabled": card.manifest["meta"].get("enabled") is not False,
        }
        for card in caller.cards.all()
    ]
    return {"cards": cards}


@operation(
    summary="Read a whole card",
    description="Reads one card whole: meta, description, schema and all of its data.",
    input=CardId,
    agent=True,
    card="id",
    label="Reading the card",
)
def read_manifest(caller: Caller, given: CardId) -> dict[str, Any]:
    """`{meta, description, schema, data}`. Raises `UnknownManifest`."""
    card = caller.cards.find(given.id)
    manifest = card.manifest
    return {
        "meta": manifest["meta"],
        "description": manifest.get("description"),
        "schema": manifest.get("schema"),
        "data": caller.cards.data(card),
    }


@operation(
    summary="Create a card",
    description=(
        "Creates a card from a whole manifest. meta.id is lower case with digits, dots and dashes; meta.label is what "
        "people see. Put into the description what a row looks like."
    ),
    input=NewManifest,
    agent=True,
    mutates=True,
    card="manifest.meta.id",
    change="created",
    label="Making the card",
)
def create_manifest(caller: Caller, given: NewManifest) -> dict[str, Any]:
    """`{ok, id}`. Raises `InvalidManifest`, `InvalidManifestId`, `DuplicateId`, `RowTooLarge`."""
    check_manifest(given.manifest)
    card = given.manifest["meta"]["id"]
    data = given.manifest.get("data")
    kept = {name: value for name, value in given.manifest.items() if name != "data"}
    row_ids = [caller.new_id() for _ in data] if isinstance(data, list) else []
    caller.cards.create(card, kept, data, row_ids=row_ids, token=caller.new_id())
    return {"ok": True, "id": card}


@operation(
    summary="Append a row to a card",
    description="Adds one row at the end of a card's data. Use the same field names as the rows that are there.",
    input=NewRow,
    agent=True,
    mutates=True,
    card="id",
    change="changed",
    label="Adding a row",
)
def append_row(caller: Caller, given: NewRow) -> dict[str, Any]:
    """`{ok, id, added, totalAfter}`. Raises `UnknownManifest`, `BadPath`, `NotAList`, `RowTooLarge`."""
    if given.path:
        raise BadPath("Only the empty path is known: it means the card's data itself.")
    state = caller.cards.append(given.id, caller.new_id(), given.value, token=caller.new_id())
    return {"ok": True, "id": given.id, "added": 1, "totalAfter": state.count}
