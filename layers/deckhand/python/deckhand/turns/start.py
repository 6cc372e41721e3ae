"""Starting a turn: one transaction takes the conversation's lock and stores the user's messages. A refused turn
leaves no trace.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deckhand.domain.conversation import Header, Message, first_words
from deckhand.domain.errors import ConditionFailed, StorageUnavailable, TurnRunning
from deckhand.domain.principal import Principal
from deckhand.domain.times import iso
from deckhand.domain.turn import Head, next_head
from deckhand.storage.conversations import Owner, StoredHeader, Waiting, put_header, put_messages
from deckhand.storage.port import Delete, Op
from deckhand.storage.repeat import write_surely
from deckhand.storage.turns import StoredHead, put_continued, put_head, put_running
from deckhand.turns.context import TurnContext
from deckhand.turns.idempotency import Claim, Claimed, claimed
from deckhand.turns.lost import close_lost

ATTEMPTS = 20
MAX_NEW = 20
_CONTINUED = 3
"""The place in a start's transaction of what says that a turn was gone on from."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that holds its conversation: `head` and `header` as they were written by the start, and the ids of its new
    messages.
    """

    owner: Owner
    conversation: str
    head: StoredHead
    header: StoredHeader
    message_ids: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.head.head.turn_id


@dataclass(frozen=True, slots=True)
class NewTurn:
    """Who starts a turn, where, with which texts. `page` says where in the app the person is; `admit` raises
    `AllowanceUsedUp` when they have nothing left for it; `answers` names a turn that this one goes on from without a
    new text, as all its waiting calls are decided; `sent_at` is when the texts came (epoch seconds), None for now.
    """

    principal: Principal
    conversation: str
    texts: Sequence[str]
    page: str | None = None
    claim: Claim | None = None
    admit: Callable[[], None] = lambda: None
    answers: str | None = None
    sent_at: float | None = None

    @property
    def owner(self) -> Owner:
        return owner_of(self.principal)


def owner_of(principal: Principal) -> Owner:
    return Owner(principal.tenant, principal.user)


def start_turn(context: TurnContext, wanted: NewTurn) -> Turn | Claimed:
    """Takes the lock and appends the principal's queued messages and the new ones, all or nothing.

    A key that was claimed before gives what it stands for. Raises `UnknownConversation`, `IdempotencyMismatch`,
    `TurnRunning` (with `turnId`), `AllowanceUsedUp`, `StorageUnavailable`.
    """
    for _ in range(ATTEMPTS):
        stored = context.conversations.find(wanted.owner, wanted.conversation)
        if wanted.claim is not None and (known := claimed(context, wanted.claim)) is not None:
            return known
        try:
            previous = free_head(context, wanted.owner, wanted.conversation)
            wanted.admit()
            return _take(context, wanted, stored, previous)
        except ConditionFailed:
            continue
        except TurnRunning:
            # Perhaps it is this key's own turn, started by the same request a moment ago.
            if wanted.claim is not None and (known := claimed(context, wanted.claim)) is not None:
                return known
            raise
    raise StorageUnavailable()


def start_continuation(context: TurnContext, wanted: NewTurn) -> Turn | Claimed | None:
    """The turn after the last decision; None when it was started before. Raises as `start_turn` does."""
    for _ in range(ATTEMPTS):
        stored = context.conversations.find(wanted.owner, wanted.conversation)
        if wanted.claim is not None and (known := claimed(context, wanted.claim)) is not None:
            return known
        previous = free_head(context, wanted.owner, wanted.conversation)
        wanted.admit()
        try:
            return _take(context, wanted, stored, previous)
        except ConditionFailed as failed:
            if failed.index == _CONTINUED:
                return None
    raise StorageUnavailable()


def start_queued(context: TurnContext, owner: Owner, conversation: str) -> tuple[Turn, Principal] | None:
    """A turn for the messages that queued, as the principal of the first; None when none waits. Raises as
    `start_turn` does.
    """
    for _ in range(ATTEMPTS):
        stored = context.conversations.find(owner, conversation)
        waiting = context.conversations.queue(owner, conversation)
        if not waiting:
            return None
        principal = waiting[0].queued.actor.principal()
        previous = free_head(context, owner, conversation)
        try:
            return _take(context, NewTurn(principal, conversation, []), stored, previous), principal
        except ConditionFailed:
            continue
    raise StorageUnavailable()


def free_head(context: TurnContext, owner: Owner, conversation: str) -> StoredHead | None:
    """The head of a turn that has ended, or None before the first; a lost turn is closed first. Raises
    `TurnRunning`.
    """
    for _ in range(ATTEMPTS):
        previous = context.turns.head(owner, conversation)
        if previous is None or previous.head.status is not None:
            return previous
        if previous.head.running(context.now()):
            raise TurnRunning(turnId=previous.head.turn_id)
        close_lost(context, owner, conversation, previous)
    raise StorageUnavailable()


def _take(context: TurnContext, wanted: NewTurn, stored: StoredHeader, previous: StoredHead | None) -> Turn:
    """The transaction. Raises `ConditionFailed` when something moved since it was read."""
    now, owner, conversation = context.now(), wanted.owner, wanted.conversation
    waiting = _own(context, wanted, stored.header)
    messages = _messages(context, wanted, stored.header, waiting, now)
    if not messages and wanted.answers is None:
        # What waited was taken by another process since it was seen.
        raise ConditionFailed(1)
    header = stored.header.appended(len(messages), iso(now)).model_copy(
        update={
            "queued": stored.header.queued - len(waiting),
            "first_words": stored.header.first_words or (first_words(messages[0].content) if messages else None),
        }
    )
    head = next_head(
        previous.head if previous else None,
        turn_id=context.new_id(),
        principal=wanted.principal.name,
        anchor=header.next_seq - 1,
        now=now,
        generation=header.generation,
        answers=wanted.answers,
    )
    ops: list[Op] = [
        put_head(owner, conversation, head, after=previous),
        put_header(owner, header, after=stored),
        put_running(owner, conversation, head),
        *([] if wanted.answers is None else [put_continued(owner, conversation, wanted.answers, now)]),
        *put_messages(owner, stored.header, messages),
        *(Delete(key) for one in waiting for key in one.keys),
    ]
    if wanted.claim is not None:
        ops.append(wanted.claim.put(_claimed(wanted, wanted.claim, head), now))
    write_surely(context.store, ops, token=head.turn_id)
    version = 1 if previous is None else previous.version + 1
    ids = tuple(message.id for message in messages)
    return Turn(owner, conversation, StoredHead(head, version), StoredHeader(header, stored.version + 1), ids)


def _own(context: TurnContext, wanted: NewTurn, header: Header) -> list[Waiting]:
    """The queued messages of the same principal: nobody's message is answered with another's rights."""
    if header.queued == 0:
        return []
    found = context.conversations.queue(wanted.owner, wanted.conversation)
    return [one for one in found if one.queued.actor.principal() == wanted.principal]


def _messages(
    context: TurnContext, wanted: NewTurn, header: Header, waiting: Sequence[Waiting], now: float
) -> list[Message]:
    texts = folded(wanted.texts)
    sent = iso(now if wanted.sent_at is None else wanted.sent_at)
    new = [Message(seq=0, id=context.new_id(), role="user", content=text, created_at=sent) for text in texts]
    if wanted.page and new:
        new[-1] = new[-1].model_copy(update={"context": wanted.page})
    every = [*(one.queued.message for one in waiting), *new]
    return [message.model_copy(update={"seq": header.next_seq + n}) for n, message in enumerate(every)]


def folded(texts: Sequence[str]) -> list[str]:
    """As many messages as one transaction can hold beside a full queue: the oldest of more are joined, as they would
    be for the gateway.
    """
    spare = len(texts) - MAX_NEW
    return list(texts) if spare <= 0 else ["\n\n".join(texts[: spare + 1]), *texts[spare + 1 :]]


def _claimed(wanted: NewTurn, claim: Claim, head: Head) -> Claimed:
    return Claimed(
        body_hash=claim.body_hash,
        conversation=wanted.conversation,
        turn_id=head.turn_id,
        first_event_id=head.first_event_id,
    )
