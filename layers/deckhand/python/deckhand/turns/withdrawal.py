"""Closing what a stopped turn had asked for: nobody may say yes to a turn that they stopped."""

from deckhand.agent import wording
from deckhand.domain.json_text import dumps
from deckhand.storage.conversations import Owner
from deckhand.storage.port import Op
from deckhand.storage.proposals import Proposals, put_proposal, put_told
from deckhand.storage.turns import put_continued
from deckhand.turns.context import TurnContext


def withdraw(context: TurnContext, owner: Owner, conversation: str, turn_id: str) -> list[Op]:
    """To be written with the turn's end: its undecided proposals are rejected, and nothing goes on from the decided
    ones. A decision that is quicker fails the write; read again then.
    """
    now = context.now()
    of_turn = Proposals(context.store).of_turn(owner, conversation, turn_id)
    ops: list[Op] = []
    for stored in of_turn:
        if stored.proposal.state_at(now) == "proposed":
            told = dumps({"status": "stopped", "note": wording.NOT_RUN_STOPPED})
            closed = stored.proposal.rejected(now, by=stored.proposal.actor.principal().name, result=told)
            ops += put_proposal(owner, closed, after=stored)
            ops.append(put_told(owner, closed, "rejected", id=f"{closed.id}.stopped", at=now))
    if of_turn:
        ops.append(put_continued(owner, conversation, turn_id, now, first=False))
    return ops
