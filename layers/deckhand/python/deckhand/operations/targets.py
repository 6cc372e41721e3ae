"""What a call is about to change, as a person should see it before they agree: by the time they do, the place that the
call names may hold something else, and that is left alone.

Each raises what reading the place raises: a call that leads nowhere is not worth asking about.
"""

from typing import TYPE_CHECKING, Any

from deckhand.domain.audit import hash_of
from deckhand.domain.errors import TargetChanged, UnknownManifest
from deckhand.domain.loss import lost_parts
from deckhand.domain.merge_patch import merge
from deckhand.domain.row_path import at_place, locate, to_last_position
from deckhand.domain.times import iso
from deckhand.operations.caller import Caller
from deckhand.storage.cards import Card, CardState

if TYPE_CHECKING:
    from deckhand.operations.arguments import CardId
    from deckhand.operations.card_data import At, NewData
    from deckhand.operations.manifests import Patch


def at_path(caller: Caller, given: "At") -> Any:
    """The row, or what is in it. Two reads."""
    return _at(caller, given.id, given.path)


def at_position(caller: Caller, given: "At") -> Any:
    """The element that the path names by its position; None where all of it is named by what it is. Two reads."""
    path = to_last_position(given.path)
    return _at(caller, given.id, path) if path else None


def whole(caller: Caller, given: "NewData") -> Any:
    """How much there is, and since when it is as it is. One read."""
    return extent(caller.cards.state(given.id))


def extent(state: CardState) -> Any:
    written = {} if state.written_at is None else {"writtenAt": iso(state.written_at)}
    return {"rows": state.count, **written} if state.shape == "rows" else written or None


def card(caller: Caller, given: "CardId") -> Any:
    """The card as it is known to people, and how much is in it; nothing to show where there is none, and one that is
    made until then is another one. Two reads.
    """
    try:
        return known(caller.cards.find(given.id))
    except UnknownManifest:
        return []


def known(found: Card) -> Any:
    return {"label": found.manifest["meta"]["label"], **(extent(found.state) or {})}


def parts(caller: Caller, given: "Patch") -> Any:
    """What a manifest loses by the patch. Two reads."""
    manifest = caller.cards.find(given.id).manifest
    return lost_parts(manifest, merge(manifest, given.patch))


def _at(caller: Caller, card: str, path: str) -> Any:
    data = caller.cards.data_of(card, caller.cards.state(card))
    return at_place(data, locate(data, path))


def check_target(caller: Caller, value: Any) -> None:
    """Raises `TargetChanged` when a person agreed to a change of something else."""
    if caller.target is not None and hash_of(value) != caller.target:
        raise TargetChanged()
