"""Closing a turn whose process is gone. A lost turn is never resumed: it gets its last events, and what was visible
is kept.
"""

from contextlib import suppress

from deckhand.domain.conversation import Message
from deckhand.domain.errors import ConditionFailed, StorageError, UnknownConversation
from deckhand.domain.times import iso
from deckhand.domain.turn import LOST_ID_GAP
from deckhand.storage.conversations import Owner, put_header, put_messages
from deckhand.storage.port import Delete, Op
from deckhand.storage.repeat import write_surely
from deckhand.storage.turns import Numbered, StoredHead, put_batch, put_head, running_key
from deckhand.turns.context import TurnContext
from deckhand.turns.continuation import go_on
from deckhand.turns.reply import gone_events
from deckhand.turns.withdrawal import withdraw


def close_lost(context: TurnContext, owner: Owner, conversation: str, stored: StoredHead) -> None:
    """Ends the turn as lost, on the condition that its head is still the one that was read; else somebody else did,
    and that is fine.
    """
    head = stored.head
    last, text = _read_log(context, owner, conversation, stored)
    base = max(head.last_event_id, last) + LOST_ID_GAP
    told = gone_events(conversation, head.turn_id, deleted=False)
    events = [Numbered(base + n, event) for n, event in enumerate(told, start=1)]
    now = context.now()
    ops: list[Op] = [
        put_head(owner, conversation, head.ended(now, "failed", last_event_id=base + 2), after=stored),
        *put_batch(owner, conversation, events, now),
    ]
    ops += _transcript_ops(context, owner, conversation, head.generation, text, now)
    if head.stop:
        # Whoever stopped it was told so, though its process did not live to do it.
        ops += withdraw(context, owner, conversation, head.turn_id)
    try:
        write_surely(context.store, ops, token=context.new_id())
    except ConditionFailed:
        return
    with suppress(StorageError):
        # Its end would have looked at what was decided while it ran.
        go_on(context, owner, conversation)


def _read_log(context: TurnContext, owner: Owner, conversation: str, stored: StoredHead) -> tuple[int, str]:
    """The last stored event id, and the text that watchers saw last."""
    last, texts = stored.head.first_event_id - 1, list[str]()
    while found := context.turns.events(owner, conversation, after=last, start=stored.head.first_event_id):
        for numbered in found:
            if numbered.event.name == "token":
                texts.append(numbered.event.data["text"])
            elif numbered.event.name == "reset":
                texts.clear()
        last = found[-1].id
    return last, "".join(texts)


def _transcript_ops(
    context: TurnContext, owner: Owner, conversation: str, generation: str | None, text: str, now: float
) -> list[Op]:
    """Keeps what was visible, marked as interrupted; the entry among the running turns stays while messages wait."""
    try:
        stored = context.conversations.find(owner, conversation)
    except UnknownConversation:
        return [Delete(running_key(owner, conversation))]
    header = stored.header
    ops: list[Op] = [] if header.queued else [Delete(running_key(owner, conversation))]
    if text.strip() and generation in (None, header.generation):
        message = Message(
            seq=header.next_seq,
            id=context.new_id(),
            role="assistant",
            content=text,
            created_at=iso(now),
            interrupted=True,
        )
        moved = header.appended(1, iso(now))
        ops += [put_header(owner, moved, after=stored), *put_messages(owner, header, [message])]
    return ops
