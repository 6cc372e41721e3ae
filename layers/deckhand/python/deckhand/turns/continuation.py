"""Turns whose calls are all decided, and that nobody has gone on from yet."""

from collections.abc import Iterator
from itertools import groupby

from deckhand.domain.job import Job
from deckhand.domain.proposal import Proposal
from deckhand.storage.conversations import Owner
from deckhand.storage.proposals import Proposals
from deckhand.storage.turns import continued_key
from deckhand.turns.context import TurnContext


def waiting_turn(context: TurnContext, owner: Owner, conversation: str, turn_id: str) -> bool:
    """Whether some call of a turn has not come to its end."""
    now = context.now()
    made = (stored.proposal for stored in Proposals(context.store).all(owner, conversation))
    return any(one.turn_id == turn_id and one.is_open(now) for one in made)


def decided_turns(context: TurnContext, owner: Owner, conversation: str) -> Iterator[Proposal]:
    """One proposal, decided, of each such turn. What was decided while another turn ran is found by that turn's end."""
    proposals, now = Proposals(context.store), context.now()
    made = sorted((stored.proposal for stored in proposals.all(owner, conversation)), key=lambda one: one.turn_id)
    for turn_id, group in groupby(made, key=lambda one: one.turn_id):
        every = list(group)
        decided = [one for one in every if one.result is not None]
        waits = any(one.is_open(now) for one in every)
        if decided and not waits and context.store.get(continued_key(owner, conversation, turn_id)) is None:
            yield decided[-1]


def go_on(context: TurnContext, owner: Owner, conversation: str) -> bool:
    """Asks the worker to go on from what is decided, if anything is. Raises storage errors."""
    decided = next(decided_turns(context, owner, conversation), None)
    if decided is not None:
        context.jobs.send(Job(kind="continued_turn", actor=decided.actor, conversation=conversation))
    return decided is not None
