"""Which single calls destroy something, of operations that as a rule do not. Each costs at most three requests.

Raises storage errors only: what is wrong with a call is the operation's to say.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from deckhand.domain.errors import DeckhandError, StorageError
from deckhand.domain.loss import loses_entries, lost_parts
from deckhand.domain.merge_patch import merge
from deckhand.domain.row_path import at_place, locate
from deckhand.operations.caller import Caller
from deckhand.storage.cards import Card

if TYPE_CHECKING:
    from deckhand.operations.card_data import ChangesAt, NewData, RowChanges
    from deckhand.operations.manifests import Patch


def replacing(caller: Caller, given: "NewData") -> bool:
    """All data is replaced, and something that is there is not in the new data."""

    def loses(card: Card) -> bool:
        if card.state.shape == "rows" and (not isinstance(given.data, list) or len(given.data) < card.state.count):
            return card.state.count > 0
        data = caller.cards.data(card)
        if isinstance(data, list) and card.state.shape == "rows" and len(data) != card.state.count:
            return True  # they are being replaced this moment, so nobody can tell
        return loses_entries(data, given.data, fields=True)

    return _of_card(caller, given.id, loses)


def changing(caller: Caller, given: "ChangesAt") -> bool:
    """A row, or an object in one, is changed so that a list or an object in it loses something."""

    def loses(card: Card) -> bool:
        data = caller.cards.data(card)
        before = at_place(data, locate(data, given.path))
        return isinstance(before, dict) and loses_entries(
            before, merge(before, given.changes), fields=card.state.shape != "rows"
        )

    return _of_card(caller, given.id, loses)


def changing_row(caller: Caller, given: "RowChanges") -> bool:
    """The same over HTTP."""

    def loses(card: Card) -> bool:
        before = caller.cards.row(card, given.rowId).value
        return isinstance(before, dict) and loses_entries(before, merge(before, given.changes), fields=False)

    return _of_card(caller, given.id, loses)


def patching(caller: Caller, given: "Patch") -> bool:
    """A manifest loses an input or a reminder, or takes no entries any more."""
    if not isinstance(given.patch.get("meta", {}), dict):
        return False
    return _of_card(caller, given.id, lambda card: bool(lost_parts(card.manifest, merge(card.manifest, given.patch))))


def _of_card(caller: Caller, card: str, loses: Callable[[Card], bool]) -> bool:
    try:
        return loses(caller.cards.find(card))
    except StorageError:
        raise
    except DeckhandError:
        return False
