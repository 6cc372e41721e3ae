"""Deleting a conversation: out of reach in one transaction, then item by item; what a killed process left over is
found by the sweep.
"""

from collections.abc import Callable
from contextlib import suppress

from deckhand.domain.conversation import MAX_CONVERSATIONS
from deckhand.domain.errors import ConditionFailed
from deckhand.storage.conversations import Conversations, Owner, StoredHeader, header_key, transcript_pk
from deckhand.storage.port import Condition, Delete, Item, ItemStore, Key, Op, Put, Table, VersionIs
from deckhand.storage.repeat import write_surely
from deckhand.storage.turns import LOG_LIFE_S, Running, Turns, head_key, running_key

_HOMES: tuple[Table, ...] = ("deck", "turns")


def delete_conversation(
    store: ItemStore, owner: Owner, stored: StoredHeader, *, now: float, token: str, unchanged: bool = False
) -> None:
    """Removes header and head together: from then on no start, exchange, queue or finish can write.

    An entry among the running turns stands for what is still to be removed. With `unchanged` only a conversation in
    which nothing happened since it was read is deleted; else raises `ConditionFailed`.
    """
    conversation = stored.header.id
    condition: Condition = VersionIs(stored.version) if unchanged else None
    entry = Running(conversation=conversation, user=owner.user, turn_id="", started_at=now)
    place = running_key(owner, conversation)
    ops: list[Op] = [
        Delete(header_key(owner, conversation), condition),
        Delete(head_key(owner, conversation)),
        Put(Item(place.table, place.pk, place.sk, entry.to_json(), expires=int(now) + LOG_LIFE_S)),
    ]
    write_surely(store, ops, token=token)
    finish_deletion(store, owner, conversation)


def finish_deletion(store: ItemStore, owner: Owner, conversation: str) -> None:
    """Removes every item of a conversation without a header, and last the entry that says so. May be repeated."""
    pk = transcript_pk(owner, conversation)
    for table in _HOMES:
        # Read again until nothing is found: a batch of the log may have been on its way.
        while items := store.query(table, pk).items:
            store.delete_many([Key(table, pk, item.sk) for item in items])
    store.delete_many([running_key(owner, conversation)])


def make_room(store: ItemStore, owner: Owner, *, keep: str, now: float, new_token: Callable[[], str]) -> None:
    """Removes the least recently active of a user's conversations that are over 100, but none with a running turn and
    never `keep`.
    """
    headers = Conversations(store).headers(owner)
    for stored in reversed(headers):
        if len(headers) <= MAX_CONVERSATIONS:
            return
        head = Turns(store).head(owner, stored.header.id)
        if stored.header.id == keep or (head is not None and head.head.running(now)):
            continue
        # Unless a turn starts there at this moment; then the conversation is no longer the least active one.
        with suppress(ConditionFailed):
            delete_conversation(store, owner, stored, now=now, token=new_token(), unchanged=True)
            headers.remove(stored)
