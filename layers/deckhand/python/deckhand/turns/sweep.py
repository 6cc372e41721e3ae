"""Once a minute: turns whose process is gone are closed, queues that nobody woke are woken, and what was decided is
gone on from where nobody else does: while such a turn still held its conversation, or before the rest ran out of time.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from deckhand.domain.errors import StorageError, UnknownConversation
from deckhand.domain.job import Job
from deckhand.domain.proposal import Proposal
from deckhand.domain.turn import Head
from deckhand.storage.conversations import Owner
from deckhand.storage.deletion import finish_deletion
from deckhand.storage.proposals import Proposals
from deckhand.storage.turns import Running
from deckhand.turns.context import TurnContext
from deckhand.turns.continuation import go_on
from deckhand.turns.lost import close_lost
from deckhand.turns.queued import wake_waiting

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Swept:
    closed: int
    woken: int


def sweep(context: TurnContext, tenant: str = "main", *, all_dead: bool = False) -> Swept:
    """`all_dead`: every process that could run a turn is known to be gone, so no lease is waited for."""
    woken = _continue_expired(context, tenant)
    closed = 0
    for entry in context.turns.running(tenant):
        try:
            swept = _sweep_one(context, Owner(tenant, entry.user), entry, all_dead=all_dead)
        except StorageError:
            # One that cannot be swept now must not keep the others waiting.
            logger.warning("conversation not swept", exc_info=True)
            continue
        closed, woken = closed + swept.closed, woken + swept.woken
    return Swept(closed, woken)


def _continue_expired(context: TurnContext, tenant: str) -> int:
    """Turns whose last undecided call ran out of time, and that nobody touched since."""
    woken, proposals = 0, Proposals(context.store)
    for found in proposals.expiring(tenant, context.now()):
        entry, owner = found.expiring, Owner(tenant, found.expiring.user)
        try:
            calls = [one.proposal for one in proposals.of_turn(owner, entry.conversation, entry.turn_id)]
            if any(one.is_open(context.now()) for one in calls):
                woken += _look_after(context, calls)
                continue
            woken += go_on(context, owner, entry.conversation)
            context.store.delete_many([found.key])
        except StorageError:
            logger.warning("expired proposals not gone on from", exc_info=True)
    return woken


def _look_after(context: TurnContext, calls: Sequence[Proposal]) -> bool:
    """A call is being done; where its process is gone, the worker finds what it did before it goes on from anything."""
    gone = next((one for one in calls if one.is_stranded(context.now())), None)
    if gone is not None:
        context.jobs.send(Job(kind="continued_turn", actor=gone.actor, conversation=gone.conversation))
    return gone is not None


def _sweep_one(context: TurnContext, owner: Owner, entry: Running, *, all_dead: bool) -> Swept:
    stored, closed = context.turns.head(owner, entry.conversation), 0
    if stored is not None and stored.head.status is None:
        if not (all_dead or stored.head.lost(context.now())):
            return Swept(0, 0)
        close_lost(context, owner, entry.conversation, stored)
        closed = 1
    return Swept(closed, int(_wake(context, owner, entry)))


def _wake(context: TurnContext, owner: Owner, entry: Running) -> bool:
    try:
        return wake_waiting(context, owner, entry.conversation)
    except UnknownConversation:
        # Deleted by a process that did not come to the end of it.
        finish_deletion(context.store, owner, entry.conversation)
        return False


def running_turns(context: TurnContext, tenant: str, user: str | None) -> list[tuple[Running, Head]]:
    """The turns that run now, of one user or (None) of all."""
    found = []
    for entry in context.turns.running(tenant):
        if user is not None and entry.user != user:
            continue
        stored = context.turns.head(Owner(tenant, entry.user), entry.conversation)
        if stored is not None and stored.head.running(context.now()):
            found.append((entry, stored.head))
    return found
