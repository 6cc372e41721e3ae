"""The confirm gate of one turn: makes proposals, spends those of earlier turns, knows the standing yeses."""

from dataclasses import dataclass

from deckhand.agent import wording
from deckhand.agent.toolbox import ToolResult
from deckhand.agent.tools import failure
from deckhand.domain.errors import AlreadyDecided, ProposalExpired, UnknownProposal
from deckhand.domain.job import Actor
from deckhand.domain.proposal import Proposal, arguments_hash
from deckhand.domain.times import iso
from deckhand.operations.caller import Caller
from deckhand.operations.registry import Operation
from deckhand.storage.grants import Grants
from deckhand.storage.proposals import proposal_id
from deckhand.turns.decision import Decisions


@dataclass(frozen=True, slots=True)
class TurnGate:
    """`anchor` is the seq of the newest message that the turn answers, `said_at` when it was sent (ISO 8601);
    `conversation` is empty for a turn that belongs to none. `ttl` in seconds.
    """

    caller: Caller
    decisions: Decisions
    conversation: str
    turn_id: str
    anchor: int
    said_at: str
    ttl: float

    def propose(
        self,
        operation: Operation,
        *,
        call_id: str,
        arguments: str,
        card: str | None,
        destructive: bool,
        policies: tuple[str, ...],
    ) -> Proposal:
        now = self.caller.now()
        return Proposal(
            id=proposal_id(self.conversation, self.caller.new_id()),
            conversation=self.conversation,
            turn_id=self.turn_id,
            anchor=self.anchor,
            call_id=call_id,
            tool=operation.name,
            arguments=arguments,
            arguments_hash=arguments_hash(arguments),
            summary=f"{operation.summary}: {card}" if card else operation.summary,
            card=card,
            destructive=destructive,
            policies=policies,
            actor=Actor.of(self.caller.principal),
            channel=self.caller.channel,
            created_at=now,
            expires_at=now + self.ttl,
        )

    def spend(self, id: str, operation: Operation, arguments: str) -> ToolResult:
        try:
            stored = self.decisions.find(self.caller.owner, id)
        except UnknownProposal:
            return failure("unknown_proposal", wording.UNKNOWN_CONFIRMATION)
        proposal = stored.proposal
        same = proposal.tool == operation.name and proposal.arguments_hash == arguments_hash(arguments)
        if proposal.conversation != self.conversation or not same:
            return failure("confirmation_mismatch", wording.OTHER_CONFIRMATION)
        if proposal.turn_id == self.turn_id or self.anchor <= proposal.anchor or self._was_said_before(proposal):
            return failure("not_confirmed", wording.TOO_EARLY)
        try:
            return self.decisions.confirm(self.caller.principal, stored).result
        except ProposalExpired:
            return failure("expired", wording.EXPIRED)
        except AlreadyDecided as decided:
            return failure("already_decided", f"{decided} {decided.details.get('outcome')}")

    def _was_said_before(self, proposal: Proposal) -> bool:
        """A message that queued behind the turn, or that interrupted it, agrees to nothing that it had not shown."""
        return self.said_at < iso(proposal.created_at)

    def granted(self, operation: Operation, card: str | None) -> bool:
        now = self.caller.now()
        grants = Grants(self.caller.store, self.caller.owner).all()
        return any(grant.covers(operation.name, card, now) for grant in grants)
