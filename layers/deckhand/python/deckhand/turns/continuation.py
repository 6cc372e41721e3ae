"""Turns whose calls are all decided, and that nobody has gone on from yet."""

from collections.abc import Collection, Iterator
from itertools import groupby

from deckhand.domain.job import Actor, Job
from deckhand.domain.proposal import Proposal
from deckhand.storage.conversations import Owner
from deckhand.storage.proposals import Proposals
from deckhand.storage.turns import continued_key, put_continued
from deckhand.turns.context import TurnContext


def decided_turns(context: TurnContext, owner: Owner, conversation: str) -> Iterator[Proposal]:
    """One proposal, decided, of each such turn. What was decided while another turn ran is found by that turn's end."""
    for every in _decided(context, owner, conversation):
        yield [one for one in every if one.result is not None][-1]


def go_on(
    context: TurnContext,
    owner: Owner,
    conversation: str,
    *,
    actor: Actor | None = None,
    spent: Collection[str] = (),
    since: float = 0.0,
) -> bool:
    """Asks the worker to go on from what is decided, if anything is. `spent` are what a turn that began at `since` ran
    by itself: it was told of them, so that a turn of which nothing else was decided meanwhile is gone on from already.
    Raises storage errors.
    """
    for every in _decided(context, owner, conversation):
        decided = [one for one in every if one.result is not None]
        newly = {one.id for one in decided if one.decided_at is not None and one.decided_at >= since}
        if newly and newly <= set(spent):
            told = put_continued(owner, conversation, decided[-1].turn_id, context.now(), first=False)
            context.store.write([told], token=context.new_id())
            continue
        whose = actor or decided[-1].actor
        context.jobs.send(Job(kind="continued_turn", actor=whose, conversation=conversation))
        return True
    return False


def _decided(context: TurnContext, owner: Owner, conversation: str) -> Iterator[list[Proposal]]:
    """All proposals of each such turn."""
    proposals, now = Proposals(context.store), context.now()
    made = sorted((stored.proposal for stored in proposals.all(owner, conversation)), key=lambda one: one.turn_id)
    for turn_id, group in groupby(made, key=lambda one: one.turn_id):
        every = list(group)
        decided = any(one.result is not None for one in every)
        waits = any(one.is_open(now) for one in every)
        if decided and not waits and context.store.get(continued_key(owner, conversation, turn_id)) is None:
            yield every
