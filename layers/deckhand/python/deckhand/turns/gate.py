"""The confirm gate of one turn: makes proposals, spends those of earlier turns, knows the standing yeses."""

from dataclasses import dataclass, field
from typing import Any

from deckhand.agent import wording
from deckhand.agent.toolbox import ToolResult
from deckhand.agent.tools import failure
from deckhand.domain.audit import hash_of
from deckhand.domain.cards import id_only
from deckhand.domain.errors import AlreadyDecided, ProposalExpired, UnknownProposal
from deckhand.domain.job import Actor
from deckhand.domain.json_text import dumps
from deckhand.domain.proposal import Proposal, arguments_hash
from deckhand.operations.caller import Caller
from deckhand.operations.registry import Operation
from deckhand.storage.endings import Endings
from deckhand.storage.grants import Grants
from deckhand.storage.proposals import proposal_id
from deckhand.storage.switches import Switches
from deckhand.turns.decision import Decisions, in_scope

MAX_TARGET_CHARS = 4_000


@dataclass(frozen=True, slots=True)
class TurnGate:
    """`anchor` is the seq of the newest message that the turn answers, `said_at` when the person wrote last (epoch
    seconds; None where no word of theirs may count as a yes); `conversation` is empty for a turn that belongs to none.
    `ttl` in seconds.
    """

    caller: Caller
    decisions: Decisions
    conversation: str
    turn_id: str
    anchor: int
    ttl: float
    said_at: float | None = None
    voice: bool = False
    viewed_card: str | None = None
    spent: set[str] = field(default_factory=set)
    """What ran in this turn by a yes in words."""

    @property
    def spends(self) -> bool:
        return self.conversation != ""

    def check(self) -> None:
        Switches(self.caller.store, self.caller.principal.tenant).check(self.caller.principal)
        Endings(self.caller.store, now=self.caller.now).check(self.caller.principal)

    def propose(
        self,
        operation: Operation,
        *,
        call_id: str,
        arguments: str,
        card: str | None,
        destructive: bool,
        target: Any,
        policies: tuple[str, ...],
    ) -> Proposal:
        now, shown = self.caller.now(), dumps(target)
        return Proposal(
            id=proposal_id(self.conversation, self.caller.new_id()),
            conversation=self.conversation,
            turn_id=self.turn_id,
            anchor=self.anchor,
            call_id=call_id,
            tool=operation.name,
            arguments=arguments,
            arguments_hash=arguments_hash(arguments),
            summary=f"{operation.summary}: {card[:100]}" if card else operation.summary,
            card=id_only(card),
            destructive=destructive,
            target=shown if target not in (None, []) and len(shown) <= MAX_TARGET_CHARS else None,
            target_hash=None if target is None else hash_of(target),
            policies=policies,
            voice=self.voice,
            viewed_card=self.viewed_card,
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
        if not in_scope(self.caller.principal, proposal):
            return failure("unknown_proposal", wording.UNKNOWN_CONFIRMATION)
        if self.said_at is None or self.said_at <= proposal.created_at:
            # What the person wrote before they were shown the call is no answer to it.
            return failure("not_confirmed", wording.TOO_EARLY)
        try:
            decided = self.decisions.confirm(self.caller.principal, stored)
        except ProposalExpired:
            return failure("expired", wording.EXPIRED)
        except AlreadyDecided as known:
            return failure("already_decided", f"{known} {known.details.get('outcome')}")
        self.spent.add(id)
        return decided.result

    def granted(self, operation: Operation, card: str | None) -> bool:
        now = self.caller.now()
        grants = Grants(self.caller.store, self.caller.owner).all()
        return any(grant.covers(operation.name, card, now) for grant in grants)
