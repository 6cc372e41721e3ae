"""The field names of a card's rows: which are orphaned, and renaming one."""

from typing import Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from deckhand.domain.activity import STRUCTURAL, Orphans, orphans
from deckhand.domain.errors import InvalidRequest, NoMatch, NotAList, StaleVersion, StorageUnavailable
from deckhand.operations.arguments import CardId
from deckhand.operations.caller import Caller
from deckhand.operations.card_data import WHOLE_TRIES, replace_all
from deckhand.operations.registry import Http, operation


class Renaming(CardId):
    from_key: str = Field(min_length=1, max_length=200, description="The field's name as rows have it now.")
    to_key: str = Field(min_length=1, max_length=200, description="Its new name; no row may have it yet.")


class OrphanReport(Orphans):
    id: str


# `from` is no name that a class body can have.
RenamedField = TypedDict("RenamedField", {"ok": Literal[True], "id": str, "from": str, "to": str, "rowsRenamed": int})


@operation(
    summary="Find fields that nothing shows",
    description="Lists fields that rows of a card have but neither its inputs nor its displays name.",
    input=CardId,
    http=Http("GET", "/api/manifests/{id}/orphans"),
    agent=True,
    card="id",
    label="Looking for orphaned fields",
)
def orphan_report(caller: Caller, given: CardId) -> OrphanReport:
    """Raises `UnknownManifest`."""
    card = caller.cards.find(given.id)
    return {"id": given.id, **orphans(card.manifest, card.state.recency)}


@operation(
    summary="Rename a field in all rows",
    description="Renames a field in every row of a card. Ask the person once before.",
    input=Renaming,
    agent=True,
    mutates=True,
    destructive=True,
    card="id",
    change="changed",
    label="Renaming a field",
)
def rename_data_field(caller: Caller, given: Renaming) -> RenamedField:
    """Raises `UnknownManifest`, `NotAList`, `NoMatch`, `InvalidRequest` (a structural name, the same name, a name that
    a row has).
    """
    if given.from_key == given.to_key:
        raise InvalidRequest("Both names are the same.")
    if taken := {given.from_key, given.to_key} & STRUCTURAL:
        raise InvalidRequest(f"{sorted(taken)[0]} has a meaning of its own and cannot be renamed or taken.")
    for _ in range(WHOLE_TRIES):
        card = caller.cards.find(given.id)
        if card.state.shape != "rows":
            raise NotAList()
        rows = [row.value for row in caller.cards.rows(card)]
        renamed = [_renamed(row, given.from_key, given.to_key) for row in rows]
        count = sum(1 for before, after in zip(rows, renamed, strict=True) if before is not after)
        if count == 0:
            raise NoMatch(f"No row has a field {given.from_key!r}.")
        try:
            replace_all(caller, given.id, renamed, version=card.state.version)
        except StaleVersion:
            continue
        return {"ok": True, "id": given.id, "from": given.from_key, "to": given.to_key, "rowsRenamed": count}
    raise StorageUnavailable()


def _renamed(row: Any, old: str, new: str) -> Any:
    """The row with the field in its old place; the row itself when it has none."""
    if not isinstance(row, dict) or old not in row:
        return row
    if new in row:
        raise InvalidRequest(f"A row has both {old!r} and {new!r}.")
    return {new if name == old else name: value for name, value in row.items()}
