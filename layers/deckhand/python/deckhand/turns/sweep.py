"""Once a minute: turns whose process is gone are closed, and queues that nobody woke are woken."""

from dataclasses import dataclass

from deckhand.domain.errors import UnknownConversation
from deckhand.domain.job import Actor
from deckhand.domain.turn import Head
from deckhand.storage.conversations import Owner
from deckhand.storage.turns import Running
from deckhand.turns.context import TurnContext
from deckhand.turns.lost import close_lost
from deckhand.turns.queued import wake_queue


@dataclass(frozen=True, slots=True)
class Swept:
    closed: int
    woken: int


def sweep(context: TurnContext, tenant: str = "main", *, all_dead: bool = False) -> Swept:
    """`all_dead`: every process that could run a turn is known to be gone, so no lease is waited for."""
    closed = woken = 0
    for entry in context.turns.running(tenant):
        owner = Owner(tenant, entry.user)
        stored = context.turns.head(owner, entry.conversation)
        if stored is not None and stored.head.status is None and (all_dead or stored.head.lost(context.now())):
            close_lost(context, owner, entry.conversation, stored)
            closed += 1
        elif stored is not None and stored.head.status is None:
            continue
        woken += _wake(context, owner, entry)
    return Swept(closed, woken)


def _wake(context: TurnContext, owner: Owner, entry: Running) -> bool:
    try:
        header = context.conversations.find(owner, entry.conversation).header
    except UnknownConversation:
        return False
    if header.queued == 0:
        return False
    # Who speaks is in the queue; this only says whose conversation it is.
    actor = Actor(kind="schedule", id="sweep", user=owner.user, role="agent", tenant=owner.tenant)
    wake_queue(context, owner, entry.conversation, actor)
    return True


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
