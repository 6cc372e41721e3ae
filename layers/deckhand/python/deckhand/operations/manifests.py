"""Cards: list, read, create, patch, hide and show, order, delete, validate."""

from typing import Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from deckhand.domain.cards import SCHEMA, check_manifest, enabled, every_fault, first_line
from deckhand.domain.errors import InvalidManifest, InvalidOrder, ProtectedField, UnknownKey, UnknownManifest
from deckhand.domain.faults import Fault
from deckhand.domain.loss import lost_parts
from deckhand.domain.merge_patch import merge
from deckhand.domain.recency import date_field, of_rows
from deckhand.operations import losses, manifest_schema, targets
from deckhand.operations.arguments import Arguments, CardId, ChangedCard, Nothing
from deckhand.operations.caller import Caller
from deckhand.operations.permission import visible_cards
from deckhand.operations.registry import Http, operation
from deckhand.operations.schema import HTTP_SCHEMA
from deckhand.operations.shapes import Done
from deckhand.storage.cards import Card, CardState, Change

CARD_BODY = 6 * 1024 * 1024
MANIFEST = (
    f'The whole manifest: {{"$schema": "{SCHEMA}", "meta": {{"id", "label", "emoji", "view", "writeable"}}, '
    '"description", "data": []}.'
)
WELCOME = "welcome"


class NewManifest(Arguments):
    manifest: dict[str, Any] = Field(description=MANIFEST, json_schema_extra={HTTP_SCHEMA: manifest_schema.MANIFEST})


class Patch(ChangedCard):
    patch: dict[str, Any] = Field(
        description=(
            'A JSON merge patch with "meta" and/or "description": only what changes; null removes, lists replace whole.'
        ),
        json_schema_extra={HTTP_SCHEMA: manifest_schema.PATCH},
    )


class Order(Arguments):
    order: list[str] = Field(description="Card ids in their new order. Cards that are not named keep their place.")


class CardName(TypedDict):
    """`description` is the first line, at most 200 characters."""

    id: str
    label: str
    description: str
    enabled: bool


class CardNames(TypedDict):
    cards: list[CardName]


class CardEntry(TypedDict):
    """`version` moves with every change of the card or its data."""

    id: str
    meta: dict[str, Any]
    description: str | None
    hasData: bool
    enabled: bool
    version: int


class CardEntries(TypedDict):
    entries: list[CardEntry]


class Manifest(TypedDict):
    meta: dict[str, Any]
    description: str | None
    schema: dict[str, Any] | None


class WholeCard(Manifest):
    """`data` is what was written."""

    data: Any
    version: int


class NamedCard(Done):
    id: str


class NewCard(NamedCard):
    """`welcomeAutoHidden`: the welcome card has hidden itself, as this is the first other one."""

    source: str
    welcomeAutoHidden: NotRequired[Literal[True]]


class RemovedCard(NamedCard):
    removed: Literal[True]


class Visibility(Done):
    enabled: bool


class MovedCards(Done):
    """`updated` are the ids of the cards whose place changed."""

    updated: list[str]


class Refusal(TypedDict):
    """Every fault, each with its path in the manifest."""

    ok: Literal[False]
    errors: list[Fault]


@operation(
    summary="List all cards",
    description="Lists all cards: id, label, first line of the description, and whether the card is shown.",
    input=Nothing,
    agent=True,
    label="Looking through the cards",
)
def list_manifests(caller: Caller, _: Nothing) -> CardNames:
    """In the person's order."""
    cards: list[CardName] = [
        {
            "id": card.id,
            "label": card.manifest["meta"]["label"],
            "description": first_line(card.manifest.get("description", ""), 200),
            "enabled": enabled(card.manifest),
        }
        for card in visible_cards(caller, "list_manifests")
    ]
    return {"cards": cards}


@operation(summary="List cards with their manifests", input=Nothing, http=Http("GET", "/api/manifests"))
def list_cards(caller: Caller, _: Nothing) -> CardEntries:
    """In the person's order."""
    entries: list[CardEntry] = [
        {
            "id": card.id,
            "meta": card.manifest["meta"],
            "description": card.manifest.get("description"),
            "hasData": has_data(card),
            "enabled": enabled(card.manifest),
            "version": card.state.version,
        }
        for card in visible_cards(caller, "list_cards")
    ]
    return {"entries": entries}


def has_data(card: Card) -> bool:
    return card.state.shape == "value" or card.state.count > 0


@operation(
    summary="Read a whole card",
    description=(
        "Reads one card whole: meta, description, schema and all of its data. "
        "Prefer read_manifest_meta and read_manifest_rows."
    ),
    input=CardId,
    http=Http("GET", "/api/manifests/{id}"),
    agent=True,
    card="id",
    label="Reading the card",
)
def read_manifest(caller: Caller, given: CardId) -> WholeCard:
    """Raises `UnknownManifest`."""
    card, data = caller.cards.steady(given.id, caller.cards.data)
    return {**_meta(card), "data": data, "version": card.state.version}


@operation(
    summary="Read a card's manifest",
    description="Reads a card's meta, description and schema without its data: what to read before you write to it.",
    input=CardId,
    agent=True,
    card="id",
    label="Reading the card",
)
def read_manifest_meta(caller: Caller, given: CardId) -> Manifest:
    """Raises `UnknownManifest`."""
    return _meta(caller.cards.find(given.id))


def _meta(card: Card) -> Manifest:
    manifest = card.manifest
    return {"meta": manifest["meta"], "description": manifest.get("description"), "schema": manifest.get("schema")}


@operation(
    summary="Create a card",
    description=(
        "Creates a card from a whole manifest. meta.id is lower case with digits, dots and dashes; meta.label is what "
        "people see; meta.writeable.fromWebapp must be true for entries to be taken. Put into the description "
        "what a row "
        "looks like. Call validate_manifest first."
    ),
    input=NewManifest,
    http=Http("POST", "/api/manifests", status=201, body="manifest", limit=CARD_BODY),
    agent=True,
    mutates=True,
    card="manifest.meta.id",
    change="created",
    label="Making the card",
)
def create_manifest(caller: Caller, given: NewManifest) -> NewCard:
    """Raises `InvalidManifest`, `InvalidManifestId`, `InvalidManifestField`, `DuplicateId`, `RowTooLarge`."""
    check_manifest(given.manifest)
    card = given.manifest["meta"]["id"]
    data = given.manifest.get("data")
    kept = {name: value for name, value in given.manifest.items() if name != "data"}
    caller.cards.create(card, kept, state_of(caller, kept, data), data, token=caller.new_id())
    caller.reminders.card_changed(card)
    result: NewCard = {"ok": True, "id": card, "source": f"{card}.json"}
    if card != WELCOME and _hide_welcome(caller):
        result["welcomeAutoHidden"] = True
    return result


def state_of(caller: Caller, manifest: dict[str, Any], data: Any) -> CardState:
    """The state of a card that holds exactly `data`, under a fresh generation."""
    rows = data if isinstance(data, list) else []
    return CardState(
        shape="rows" if isinstance(data, list) else "none" if data is None else "value",
        count=len(rows),
        next_order=len(rows) + 1,
        generation=caller.new_id()[:12],
        recency=of_rows(rows, date_field(manifest)),
        written_at=None if data is None or data == [] else caller.now(),
    )


def _hide_welcome(caller: Caller) -> bool:
    """The welcome card hides itself once, when the first other card is there."""

    def hide(card: Card) -> Change | None:
        welcome = card.manifest["meta"].get("welcome")
        if not isinstance(welcome, dict) or welcome.get("autoHideApplied"):
            return None
        patch = {"meta": {"enabled": False, "welcome": {"autoHideApplied": True}}}
        return Change(card.state, merge(card.manifest, patch))

    try:
        before = caller.cards.find(WELCOME)
    except UnknownManifest:
        return False
    return caller.cards.change(WELCOME, hide, token=caller.new_id()).meta_version != before.meta_version


@operation(
    summary="Change a card's manifest",
    description=(
        "Changes a card's meta or description by a JSON merge patch: send only what changes, null removes a "
        "field, lists are "
        "replaced whole. Never for rows. Ask the person first before you remove inputs or switch fromWebapp off."
    ),
    input=Patch,
    http=Http("PATCH", "/api/manifests/{id}", body="patch", limit=CARD_BODY),
    agent=True,
    mutates=True,
    destroys=losses.patching,
    target=targets.parts,
    card="id",
    change="changed",
    label="Changing the card",
)
def patch_manifest(caller: Caller, given: Patch) -> NamedCard:
    """Raises `UnknownManifest`, `UnknownKey`, `ProtectedField`, `InvalidManifest…`, `StaleVersion`."""
    _check_patch(given.patch)

    def edit(card: Card) -> Change:
        manifest = merge(card.manifest, given.patch)
        check_manifest(manifest)
        targets.check_target(caller, lost_parts(card.manifest, manifest))
        state = card.state
        if date_field(manifest) != date_field(card.manifest) and state.shape == "rows":
            values = (row.value for row in caller.cards.rows(card))
            state = state.model_copy(update={"recency": of_rows(values, date_field(manifest))})
        return Change(state, manifest)

    caller.cards.change(given.id, edit, token=caller.new_id(), version=given.if_match)
    caller.reminders.card_changed(given.id)
    return {"ok": True, "id": given.id}


def _check_patch(patch: dict[str, Any]) -> None:
    for name in patch:
        if name in ("$schema", "data", "schema"):
            raise ProtectedField(f"{name} cannot be patched.")
        if name not in ("meta", "description"):
            raise UnknownKey(f"{name} is not a part that can be patched: only meta and description are.")
    if "meta" in patch and not isinstance(patch["meta"], dict):
        raise InvalidManifest("meta must be an object with what changes.")
    if "meta" in patch and "id" in patch["meta"]:
        raise ProtectedField("meta.id cannot be changed.")
    if not isinstance(patch.get("description", ""), str | None):
        raise InvalidManifest("description must be a text.")
    if not patch:
        raise InvalidManifest("The patch changes nothing: give meta or description.")


@operation(
    summary="Delete a card",
    description=(
        "Removes a card and all of its data for good. Ask the person once before, warn that the data is lost, "
        "and offer "
        "hide_card instead."
    ),
    input=ChangedCard,
    http=Http("DELETE", "/api/manifests/{id}"),
    agent=True,
    mutates=True,
    destructive=True,
    target=targets.card,
    card="id",
    change="removed",
    label="Deleting the card",
)
def delete_manifest(caller: Caller, given: ChangedCard) -> RemovedCard:
    """Raises `UnknownManifest`, `StaleVersion`."""
    gone = caller.cards.remove(
        given.id,
        token=caller.new_id(),
        version=given.if_match,
        check=lambda found: targets.check_target(caller, targets.known(found)),
    )
    caller.drop_rows(given.id, gone.state.generation)
    caller.reminders.card_changed(given.id)
    return {"ok": True, "id": given.id, "removed": True}


@operation(
    summary="Hide a card",
    description="Hides a card from all views. Its data stays, and entries are still taken.",
    input=ChangedCard,
    http=Http("POST", "/api/settings/cards/{id}/disable"),
    agent=True,
    mutates=True,
    card="id",
    change="changed",
    label="Hiding the card",
)
def hide_card(caller: Caller, given: ChangedCard) -> Visibility:
    """Raises `UnknownManifest`, `StaleVersion`."""
    return _show(caller, given, shown=False)


@operation(
    summary="Show a card",
    description="Shows a hidden card again.",
    input=ChangedCard,
    http=Http("POST", "/api/settings/cards/{id}/enable"),
    agent=True,
    mutates=True,
    card="id",
    change="changed",
    label="Showing the card",
)
def show_card(caller: Caller, given: ChangedCard) -> Visibility:
    """Raises `UnknownManifest`, `StaleVersion`."""
    return _show(caller, given, shown=True)


def _show(caller: Caller, given: ChangedCard, *, shown: bool) -> Visibility:
    def edit(found: Card) -> Change | None:
        if enabled(found.manifest) == shown:
            return None
        return Change(found.state, merge(found.manifest, {"meta": {"enabled": shown}}))

    caller.cards.change(given.id, edit, token=caller.new_id(), version=given.if_match)
    caller.reminders.card_changed(given.id)
    return {"ok": True, "enabled": shown}


@operation(
    summary="Order the cards",
    input=Order,
    mutates=True,
    http=Http("POST", "/api/manifests/reorder"),
)
def reorder_manifests(caller: Caller, given: Order) -> MovedCards:
    """`meta.order` is 100, 200, … in the given order; the same order again changes nothing. Raises `InvalidOrder`,
    `UnknownManifest`.
    """
    if not given.order:
        raise InvalidOrder("The order names no card.")
    if len(set(given.order)) != len(given.order):
        raise InvalidOrder("The order names a card twice.")
    known = {card.id: card for card in caller.cards.all()}
    if missing := [card for card in given.order if card not in known]:
        raise UnknownManifest("There is no such card; nothing was changed.", ids=missing)
    updated = []
    for position, card in enumerate(given.order, start=1):
        if known[card].manifest["meta"].get("order") != position * 100:
            patch = {"meta": {"order": position * 100}}
            caller.cards.change(
                card,
                lambda found, patch=patch: Change(found.state, merge(found.manifest, patch)),  # type: ignore[misc]
                token=caller.new_id(),
            )
            updated.append(card)
    return {"ok": True, "updated": updated}


@operation(
    summary="Check a manifest without storing it",
    description=(
        "Checks a candidate manifest without storing anything: ok, or every fault with its path. "
        "Call it before create or patch."
    ),
    input=NewManifest,
    http=Http("POST", "/api/manifests/validate", body="manifest", limit=CARD_BODY),
    agent=True,
    label="Checking the manifest",
)
def validate_manifest(_: Caller, given: NewManifest) -> Done | Refusal:
    """Every fault at once, those too that `create_manifest` lets pass: what a renderer needs."""
    faults = every_fault(given.manifest)
    return {"ok": False, "errors": faults} if faults else {"ok": True}
