"""Finishing a turn: outcome, reply, header and last events in one transaction, on the condition that the turn is
still ours.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from deckhand.domain.conversation import MAX_MESSAGES, Header
from deckhand.domain.errors import ConditionFailed, StorageError, StorageUnavailable, UnknownConversation
from deckhand.domain.events import Event
from deckhand.domain.times import iso
from deckhand.storage.conversations import StoredHeader, header_key, put_header, put_messages
from deckhand.storage.port import Check, Delete, Op, VersionIs
from deckhand.storage.repeat import write_surely
from deckhand.storage.turns import Numbered, StoredHead, put_batch, put_head, running_key
from deckhand.turns.context import TurnContext
from deckhand.turns.reply import Ending
from deckhand.turns.start import ATTEMPTS, Turn
from deckhand.turns.withdrawal import withdraw


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
    head; `asked` whether proposals of this turn may be stored.
    """

    ending: Ending
    message_id: str
    unwritten: tuple[Numbered, ...]
    last_id: int
    steps: int
    make_done: Callable[[Ending], Event]
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """The two closing events, and the header as it is now."""

    closing: tuple[Numbered, ...]
    header: Header


def finish_turn(context: TurnContext, turn: Turn, head: StoredHead, finish: Finish) -> Finished:
    """Writes the end. Raises `LeaseLost`, `StopWon`, `StorageUnavailable`."""
    closing = (
        Numbered(finish.last_id + 1, finish.ending.closing),
        Numbered(finish.last_id + 2, finish.make_done(finish.ending)),
    )
    for _ in range(ATTEMPTS):
        if head.head.stop and finish.ending.status != "stopped":
            # Whoever asked for it was told that the turn stops.
            raise StopWon(head)
        now = context.now()
        try:
            stored = context.conversations.find(turn.owner, turn.conversation)
            ended = head.head.ended(now, finish.ending.status, last_event_id=closing[-1].id, steps=finish.steps)
            transcript, header = _transcript(turn, stored, finish, now)
            ops: list[Op] = [
                put_head(turn.owner, turn.conversation, ended, after=head),
                *put_batch(turn.owner, turn.conversation, [*finish.unwritten, *closing], now),
                *transcript,
            ]
            if header.queued == 0:
                # With messages waiting the entry stays, so that the sweep finds them if nobody else does.
                ops.append(Delete(running_key(turn.owner, turn.conversation)))
            if finish.asked and finish.ending.status == "stopped":
                ops += withdraw(context, turn.owner, turn.conversation, turn.id)
            write_surely(context.store, ops, token=context.new_id())
        except UnknownConversation:
            raise LeaseLost() from None
        except ConditionFailed as failed:
            if failed.index == 0:
                found = context.turns.head(turn.owner, turn.conversation)
                if found is not None and _is_ours(found, turn, closing):
                    return Finished(closing, stored.header)
                head = _still_running(found, turn)
            continue
        if header.next_seq - 1 > MAX_MESSAGES:
            # The next finish removes what this one could not.
            with suppress(StorageError):
                context.conversations.trim(turn.owner, header)
        return Finished(closing, header)
    raise StorageUnavailable()


def _transcript(turn: Turn, stored: StoredHeader, finish: Finish, now: float) -> tuple[list[Op], Header]:
    """Without a message the header is still checked: a message that queues at this moment must not be overlooked."""
    message = finish.ending.message(seq=stored.header.next_seq, id=finish.message_id, created_at=iso(now))
    if message is None:
        key = header_key(turn.owner, turn.conversation)
        return [Check(key, VersionIs(stored.version))], stored.header
    header = stored.header.appended(1, iso(now))
    return [put_header(turn.owner, header, after=stored), *put_messages(turn.owner, stored.header, [message])], header


def _is_ours(found: StoredHead, turn: Turn, closing: tuple[Numbered, ...]) -> bool:
    """Whether this very finish was applied by a try whose answer never came."""
    ended = found.head.turn_id == turn.id and found.head.status is not None
    return ended and found.head.last_event_id == closing[-1].id


def _still_running(found: StoredHead | None, turn: Turn) -> StoredHead:
    if found is None or found.head.turn_id != turn.id or found.head.status is not None:
        raise LeaseLost()
    return found
