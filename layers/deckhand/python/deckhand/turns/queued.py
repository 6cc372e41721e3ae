"""Messages that come while a turn runs: stored at once, answered together by the next turn, whoever starts it."""

from deckhand.domain.conversation import MAX_QUEUED, MAX_QUEUED_BYTES, Message, Queued
from deckhand.domain.errors import ConditionFailed, StorageError, StorageUnavailable, TurnRunning
from deckhand.domain.job import Actor, Job
from deckhand.domain.times import iso
from deckhand.storage.conversations import Owner, StoredHeader, put_header, put_queued
from deckhand.storage.port import Op
from deckhand.storage.repeat import write_surely
from deckhand.storage.turns import StoredHead, check_head
from deckhand.turns.context import TurnContext
from deckhand.turns.idempotency import Claimed, claimed
from deckhand.turns.start import ATTEMPTS, NewTurn, Turn, folded, start_turn


def start_or_queue(context: TurnContext, wanted: NewTurn) -> Turn | Claimed:
    """Starts a turn or, while one runs, queues the messages behind it; then `message_id` of the result names the
    last of them.

    The running turn's head is checked in the transaction, so a message is either queued while its turn still has to
    finish, which
    looks at the queue afterwards, or starts a turn itself. Raises as `start_turn`; `TurnRunning` only when the
    queue is full.
    """
    for _ in range(ATTEMPTS):
        try:
            return start_turn(context, wanted)
        except TurnRunning:
            pass
        head = context.turns.head(wanted.owner, wanted.conversation)
        stored = context.conversations.find(wanted.owner, wanted.conversation)
        if head is None or not head.head.running(context.now()):
            continue
        if _is_full(context, wanted, stored):
            raise TurnRunning("Too many messages wait in this conversation already.", turnId=head.head.turn_id)
        try:
            return _enqueue(context, wanted, stored, head)
        except ConditionFailed:
            # Perhaps the same key in another request.
            if wanted.claim is not None and (known := claimed(context, wanted.claim)) is not None:
                return known
    raise StorageUnavailable()


def _is_full(context: TurnContext, wanted: NewTurn, stored: StoredHeader) -> bool:
    """A queue holds what the transaction of the next start can take over."""
    texts = folded(wanted.texts)
    if stored.header.queued + len(texts) > MAX_QUEUED:
        return True
    waiting = context.conversations.queue(wanted.owner, wanted.conversation) if stored.header.queued else []
    every = [*(one.queued.message.content for one in waiting), *texts]
    return sum(len(text.encode()) for text in every) > MAX_QUEUED_BYTES


def _enqueue(context: TurnContext, wanted: NewTurn, stored: StoredHeader, head: StoredHead) -> Claimed:
    now, header = context.now(), stored.header
    ops: list[Op] = [check_head(wanted.owner, wanted.conversation, head)]
    message_id = ""
    texts = folded(wanted.texts)
    for n, text in enumerate(texts):
        message_id = context.new_id()
        message = Message(seq=0, id=message_id, role="user", content=text, created_at=iso(now), context=wanted.page)
        queued = Queued(message=message, actor=Actor.of(wanted.principal))
        ops += put_queued(wanted.owner, wanted.conversation, header.next_queued + n, queued)
    count = len(texts)
    moved = header.model_copy(
        update={"queued": header.queued + count, "next_queued": header.next_queued + count, "updated_at": iso(now)}
    )
    ops.append(put_header(wanted.owner, moved, after=stored))
    result = Claimed(
        body_hash=wanted.claim.body_hash if wanted.claim else "",
        conversation=wanted.conversation,
        message_id=message_id,
    )
    if wanted.claim is not None:
        ops.append(wanted.claim.put(result, now))
    write_surely(context.store, ops, token=context.new_id())
    return result


def wake_waiting(context: TurnContext, owner: Owner, conversation: str) -> bool:
    """Wakes the queue of a conversation whose turn is over, if anything waits. Raises `UnknownConversation`."""
    if not context.conversations.find(owner, conversation).header.queued:
        return False
    # Who speaks is in the queue; this only says whose conversation it is.
    actor = Actor(kind="schedule", id="sweep", user=owner.user, role="agent", tenant=owner.tenant)
    wake_queue(context, owner, conversation, actor)
    return True


def wake_queue(context: TurnContext, owner: Owner, conversation: str, actor: Actor) -> None:
    """Asks the worker to answer what waits. Called by whoever finds a queue and no running turn; a failure is made
    good by the sweep.
    """
    try:
        context.jobs.send(Job(kind="queued_turn", actor=actor, conversation=conversation))
    except StorageError:
        return
