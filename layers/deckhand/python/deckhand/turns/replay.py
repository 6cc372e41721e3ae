"""Reattaching: the log from a cursor on, event by event as it was, then live until `done`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from deckhand.domain.errors import StorageUnavailable, TurnLost, UnknownConversation
from deckhand.domain.events import reset
from deckhand.domain.job import Actor
from deckhand.domain.principal import Principal
from deckhand.domain.turn import LINGER_S, Head
from deckhand.storage.conversations import Owner
from deckhand.storage.turns import READ_LIMIT, Numbered
from deckhand.turns.context import TurnContext
from deckhand.turns.lost import close_lost
from deckhand.turns.queued import wake_queue, wake_waiting
from deckhand.turns.reply import gone_events
from deckhand.turns.start import owner_of

FOREIGN_CURSOR_WAIT_S = 2.0
FIRST_BATCHES = 5
READ_TRIES = 5

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A turn that there is something to tell of: where its log begins, and the id to go on after."""

    owner: Owner
    conversation: str
    turn_id: str
    start: int
    after: int


def attach(context: TurnContext, principal: Principal, conversation: str, after: int) -> Attachment | None:
    """None when there is nothing to tell: unknown, never ran, ended over 30 s ago, or ended and wholly seen."""
    owner = owner_of(principal)
    try:
        header = context.conversations.find(owner, conversation).header
    except UnknownConversation:
        return None
    stored = context.turns.head(owner, conversation)
    if stored is not None and stored.head.lost(context.now()):
        close_lost(context, owner, conversation, stored)
        stored = context.turns.head(owner, conversation)
    if stored is None:
        return None
    head = stored.head
    if head.status is not None and header.queued:
        wake_queue(context, owner, conversation, Actor.of(principal))
    if _is_of_a_lost_turn(context, owner, conversation, head, after):
        return Attachment(owner, conversation, "", 1, after)
    long_ago = head.finished_at is not None and context.now() - head.finished_at > LINGER_S
    if long_ago or (head.status is not None and after >= head.last_event_id):
        return None
    return Attachment(owner, conversation, head.turn_id, head.first_event_id, after)


def _is_of_a_lost_turn(context: TurnContext, owner: Owner, conversation: str, head: Head, after: int) -> bool:
    """Whether the cursor stands in a lost turn that a newer one has just followed: its watcher hears that it was lost,
    and of the newer one when it asks again.
    """
    if not 0 < after < head.first_event_id - 1 or context.now() - head.started_at > LINGER_S:
        return False
    for numbered in context.turns.events(owner, conversation, after=after, start=1, batches=FIRST_BATCHES):
        if numbered.event.name in ("error", "done"):
            return numbered.event.data.get("code") == TurnLost.code
    return False


async def replay(context: TurnContext, attachment: Attachment) -> AsyncIterator[Numbered]:
    """The events after the cursor, ending with `done`. Events that the log no longer has are announced by a `reset`."""
    owner, conversation, start = attachment.owner, attachment.conversation, attachment.start
    cursor = max(attachment.after, start - 1)
    if attachment.after >= start and await _foreign(context, attachment):
        cursor = start - 1
        yield Numbered(cursor, reset())
    # Few at first, so that a long replay begins at once.
    batches = FIRST_BATCHES
    pause, ended = context.pace.poll_first, False
    while True:
        reading = partial(context.turns.events, owner, conversation, after=cursor, start=start, batches=batches)
        found, batches = await _read(context, reading), READ_LIMIT
        if found and _head_is_gone(found[0], cursor):
            yield Numbered(found[0].id - 1, reset())
        for numbered in found:
            yield numbered
            cursor = numbered.id
            if numbered.event.name == "done":
                return
        if found:
            pause = context.pace.poll_first
        elif ended:
            break
        else:
            # Read the log once more after the end was seen: it may have been written between the two reads.
            ended = await _read(context, partial(_ended, context, attachment))
            if not ended:
                await asyncio.sleep(pause)
                pause = min(context.pace.poll_grown, pause * 1.5)
    deleted = await _read(context, partial(context.turns.head, owner, conversation)) is None
    for event in gone_events(conversation, attachment.turn_id, deleted=deleted):
        cursor += 1
        yield Numbered(cursor, event)


async def _read(context: TurnContext, read: Callable[[], Found]) -> Found:
    """A store that does not answer for a moment must not cut a watcher off. Raises `StorageUnavailable` at last."""
    for _ in range(READ_TRIES - 1):
        try:
            return await asyncio.to_thread(read)
        except StorageUnavailable:
            await asyncio.sleep(context.pace.poll_grown)
    return await asyncio.to_thread(read)


def _head_is_gone(first: Numbered, cursor: int) -> bool:
    """Ids jump where the log was cut to its newest events, and before the last words of a lost turn."""
    return first.id > cursor + 1 and first.event.name not in ("error", "stopped")


async def _foreign(context: TurnContext, attachment: Attachment) -> bool:
    """Whether the cursor is ahead of the log for longer than a log that is being written may lag."""
    owner, conversation, waited = attachment.owner, attachment.conversation, 0.0
    while True:
        stored = await _read(context, partial(context.turns.head, owner, conversation))
        last = await _read(context, partial(context.turns.last_event_id, owner, conversation, attachment.start))
        known = max(last, stored.head.last_event_id if stored else 0)
        if attachment.after <= known:
            return False
        if waited >= FOREIGN_CURSOR_WAIT_S:
            return True
        await asyncio.sleep(context.pace.poll_first)
        waited += context.pace.poll_first


def _ended(context: TurnContext, attachment: Attachment) -> bool:
    """Whether nothing more will be written to the log. Closes the turn when it is lost, and wakes who waits for it."""
    stored = context.turns.head(attachment.owner, attachment.conversation)
    if stored is not None and stored.head.lost(context.now()):
        close_lost(context, attachment.owner, attachment.conversation, stored)
        with suppress(UnknownConversation):
            wake_waiting(context, attachment.owner, attachment.conversation)
        return False
    return stored is None or stored.head.turn_id != attachment.turn_id or stored.head.status is not None
