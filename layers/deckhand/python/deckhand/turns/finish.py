"""Finishing a turn: outcome, reply, header and last events in one transaction, on the condition that the turn is
still ours.
"""

from collections.abc import Callable
from dataclasses import dataclass

from deckhand.domain.conversation import MAX_MESSAGES, Header
from deckhand.domain.errors import ConditionFailed, StorageUnavailable, UnknownConversation
from deckhand.domain.events import Event
from deckhand.domain.times import iso
from deckhand.storage.conversations import put_header, put_messages
from deckhand.storage.port import Op
from deckhand.storage.turns import Numbered, StoredHead, put_batch, put_head
from deckhand.turns.context import TurnContext
from deckhand.turns.reply import Ending
from deckhand.turns.start import ATTEMPTS, Turn


class LeaseLost(Exception):
    """The turn is no longer ours: taken over, or its conversation is deleted. Nothing more may be written."""


class StopWon(Exception):
    """The stop flag was written before the finish could be. `head` is the head to finish on."""

    def __init__(self, head: StoredHead) -> None:
        super().__init__()
        self.head = head


@dataclass(frozen=True, slots=True)
class Finish:
    """`unwritten` are events that are not in the log yet; `last_id` is the highest id handed out; `steps` for the
    head.
    """

    ending: Ending
    message_id: str
    unwritten: tuple[Numbered, ...]
    last_id: int
    steps: int
    make_done: Callable[[Ending], Event]


def finish_turn(context: TurnContext, turn: Turn, head: StoredHead, finish: Finish) -> list[Numbered]:
    """Writes the end and returns its two events. Raises `LeaseLost`, `StopWon`, `StorageUnavailable`."""
    closing = [
        Numbered(finish.last_id + 1, finish.ending.closing),
        Numbered(finish.last_id + 2, finish.make_done(finish.ending)),
    ]
    token = context.new_id()
    for attempt in range(ATTEMPTS):
        now = context.now()
        ended = head.head.ended(now, finish.ending.status, last_event_id=closing[-1].id, steps=finish.steps)
        ops: list[Op] = [
            put_head(turn.owner, turn.conversation, ended, after=head),
            *put_batch(turn.owner, turn.conversation, [*finish.unwritten, *closing], now),
        ]
        header: Header | None = None
        try:
            stored = context.conversations.find(turn.owner, turn.conversation)
            message = finish.ending.message(seq=stored.header.next_seq, id=finish.message_id, created_at=iso(now))
            if message is not None:
                header = stored.header.appended(1, iso(now))
                ops += [
                    put_header(turn.owner, header, after=stored),
                    *put_messages(turn.owner, stored.header, [message]),
                ]
            context.store.write(ops, token=f"{token}.{attempt}")
        except UnknownConversation:
            raise LeaseLost() from None
        except ConditionFailed as failed:
            if failed.index == 0:
                head = _head_again(context, turn, head, stop_matters=finish.ending.status != "stopped")
            continue
        if header is not None and header.next_seq - 1 > MAX_MESSAGES:
            context.conversations.trim(turn.owner, header)
        return closing
    raise StorageUnavailable()


def _head_again(context: TurnContext, turn: Turn, head: StoredHead, *, stop_matters: bool) -> StoredHead:
    found = context.turns.head(turn.owner, turn.conversation)
    if found is None or found.head.turn_id != turn.id or found.head.status is not None:
        raise LeaseLost()
    if found.head.stop and not head.head.stop and stop_matters:
        raise StopWon(found)
    return found
