"""Starting a turn: one transaction takes the conversation's lock and stores the user's messages. A refused turn
leaves no trace.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from deckhand.domain.conversation import Message
from deckhand.domain.errors import ConditionFailed, StorageUnavailable, TurnRunning
from deckhand.domain.principal import Principal
from deckhand.domain.times import iso
from deckhand.domain.turn import next_head
from deckhand.storage.conversations import Owner, StoredHeader, put_header, put_messages
from deckhand.storage.turns import StoredHead, put_head
from deckhand.turns.context import TurnContext
from deckhand.turns.lost import close_lost

ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that holds its conversation: `head` and `header` as they were written by the start."""

    owner: Owner
    conversation: str
    head: StoredHead
    header: StoredHeader

    @property
    def id(self) -> str:
        return self.head.head.turn_id


def owner_of(principal: Principal) -> Owner:
    return Owner(principal.tenant, principal.user)


def start_turn(
    context: TurnContext, principal: Principal, conversation: str, texts: Sequence[str], *, page: str | None = None
) -> Turn:
    """Takes the lock and appends the user's messages, all or nothing. `page` says where in the app the person is.

    Raises `UnknownConversation`, `TurnRunning` (with `turnId`), `StorageUnavailable`.
    """
    owner = owner_of(principal)
    for _ in range(ATTEMPTS):
        stored = context.conversations.find(owner, conversation)
        previous = context.turns.head(owner, conversation)
        now = context.now()
        if previous is not None and previous.head.running(now):
            raise TurnRunning(turnId=previous.head.turn_id)
        if previous is not None and previous.head.lost(now):
            close_lost(context, owner, conversation, previous)
            continue
        header = stored.header
        messages = [
            Message(
                seq=header.next_seq + n,
                id=context.new_id(),
                role="user",
                content=text,
                created_at=iso(now),
                context=page if n == len(texts) - 1 else None,
            )
            for n, text in enumerate(texts)
        ]
        moved = header.appended(len(messages), iso(now))
        head = next_head(
            previous.head if previous else None,
            turn_id=context.new_id(),
            principal=principal.name,
            user=principal.user,
            anchor=messages[-1].seq,
            now=now,
        )
        ops = [
            put_head(owner, conversation, head, after=previous),
            put_header(owner, moved, after=stored),
            *put_messages(owner, header, messages),
        ]
        try:
            context.store.write(ops, token=head.turn_id)
        except ConditionFailed:
            continue
        return Turn(
            owner,
            conversation,
            StoredHead(head, 1 if previous is None else previous.version + 1),
            StoredHeader(moved, stored.version + 1),
        )
    raise StorageUnavailable()
