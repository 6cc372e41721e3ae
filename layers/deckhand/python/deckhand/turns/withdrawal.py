"""Closing what a stopped turn had asked for: nobody may say yes to a turn that they stopped."""

from deckhand.agent import wording
from deckhand.domain.audit import entry
from deckhand.domain.json_text import dumps
from deckhand.domain.proposal import Proposal
from deckhand.domain.times import exact
from deckhand.storage.audit import put_entry
from deckhand.storage.conversations import Owner
from deckhand.storage.port import Op
from deckhand.storage.proposals import Proposals, put_proposal
from deckhand.storage.turns import put_continued
from deckhand.turns.context import TurnContext


def withdraw(context: TurnContext, owner: Owner, conversation: str, turn_id: str) -> list[Op]:
    """To be written with the turn's end: its undecided proposals are rejected, and nothing goes on from the decided
    ones. A decision that is quicker fails the write; read again then.
    """
    now = context.now()
    of_turn = [one for one in Proposals(context.store).all(owner, conversation) if one.proposal.turn_id == turn_id]
    ops: list[Op] = []
    for stored in of_turn:
        if stored.proposal.state_at(now) == "proposed":
            told = dumps({"status": "stopped", "note": wording.NOT_RUN_STOPPED})
            closed = stored.proposal.rejected(now, by=stored.proposal.actor.principal().name, result=told)
            ops += [*put_proposal(owner, closed, after=stored), _told(owner, closed)]
    if of_turn:
        ops.append(put_continued(owner, conversation, turn_id, now, first=False))
    return ops


def _told(owner: Owner, proposal: Proposal) -> Op:
    """The audit's entry."""
    rejected = entry(
        proposal.actor.principal(),
        proposal.channel,
        proposal.tool,
        "rejected",
        id=f"{proposal.id}.stopped",
        at=exact(proposal.decided_at or 0.0),
        arguments_hash=proposal.arguments_hash,
        card=proposal.card,
        conversation=proposal.conversation,
        turn_id=proposal.turn_id,
        call_id=proposal.call_id,
        proposal_id=proposal.id,
    )
    return put_entry(owner.tenant, rejected)
