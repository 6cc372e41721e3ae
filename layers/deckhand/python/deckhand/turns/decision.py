"""Deciding what waits: a yes runs the call exactly once, a no never runs it, and whoever dies in between is found.

A yes first takes the proposal (PROPOSED to EXECUTING, one conditional write); the operation's own transaction then
holds on to it and carries the audit's entry. So of any number of yeses one runs; a process that comes back after its
lease cannot write any more; and the entry tells later whether the effect is there.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ValidationError

from deckhand.agent import wording
from deckhand.agent.toolbox import ToolResult
from deckhand.agent.tools import MAX_PROPOSED_BYTES, bounded, carried_out, faults
from deckhand.domain.access import Decision
from deckhand.domain.audit import AuditEntry, AuditOutcome, Origin, hash_of
from deckhand.domain.cards import id_only
from deckhand.domain.errors import (
    AgentSwitchedOff,
    AlreadyApplied,
    AlreadyDecided,
    BodyTooLarge,
    ConditionFailed,
    NotAllowed,
    StorageError,
    StorageUnavailable,
    UnknownConversation,
    ValidationFailed,
)
from deckhand.domain.json_text import dumps, loads
from deckhand.domain.principal import Channel, Principal
from deckhand.domain.proposal import MAX_REASON, Proposal
from deckhand.domain.times import exact
from deckhand.operations.caller import Caller
from deckhand.operations.execution import describe, note, perform
from deckhand.operations.permission import card_of, permission
from deckhand.operations.registry import REGISTRY, Operation
from deckhand.operations.schema import http_only
from deckhand.policy.groups import scope_of
from deckhand.storage.audit import audit_key
from deckhand.storage.conversations import Owner, header_key
from deckhand.storage.endings import Endings
from deckhand.storage.port import EXISTS, Check, Op
from deckhand.storage.proposals import Proposals, StoredProposal, check_proposal, put_expiring, put_proposal, put_told
from deckhand.storage.repeat import write_surely
from deckhand.storage.switches import Switches
from deckhand.turns.announcement import announce, proposal_decided
from deckhand.turns.context import TurnContext
from deckhand.turns.start import ATTEMPTS, owner_of

MAX_RESULT = 16_000
MAX_LISTED = 50
MAX_FAULTS = 2_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decided:
    """The proposal as it is now, and what the model is told."""

    proposal: Proposal
    result: ToolResult


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that may run: as whom, with what, and by which decision of the policy."""

    operation: Operation
    given: BaseModel
    caller: Caller
    decision: Decision


class Decisions:
    """`caller_for` makes the caller of a principal on a channel. Blocking; raises storage errors."""

    def __init__(self, context: TurnContext, caller_for: Callable[[Principal, Channel], Caller]) -> None:
        self._context, self._caller_for = context, caller_for
        self._proposals = Proposals(context.store)
        self._endings = Endings(context.store, now=context.now)

    def find(self, owner: Owner, id: str) -> StoredProposal:
        """Raises `UnknownProposal`. One whose process is gone is taken back first."""
        return self._reclaimed(owner, self._proposals.find(owner, id))

    def all(self, owner: Owner, conversation: str) -> list[StoredProposal]:
        return [self._reclaimed(owner, stored) for stored in self._proposals.all(owner, conversation)]

    def listed(self, owner: Owner) -> list[StoredProposal]:
        """The newest of all that may wait, wherever it was asked for; some may have run out of time."""
        return [self._reclaimed(owner, stored) for stored in self._proposals.listed(owner, MAX_LISTED)]

    def open_in(self, owner: Owner, proposal: Proposal) -> list[str]:
        """The ids of those that the turn of `proposal` still waits for."""
        now = self._context.now()
        if proposal.siblings == 1:
            return [proposal.id] if proposal.is_open(now) else []
        return [
            stored.proposal.id
            for stored in self.all(owner, proposal.conversation)
            if stored.proposal.turn_id == proposal.turn_id and stored.proposal.is_open(now)
        ]

    def confirm(
        self,
        principal: Principal,
        stored: StoredProposal,
        *,
        arguments: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Decided:
        """Runs the call, as whom it was proposed for, when both may: they and who decides.

        Raises `AgentSwitchedOff`, `AlreadyDecided`, `ProposalExpired`, `NotAllowed`, `ValidationFailed` for arguments
        that were edited.
        """
        owner, now = owner_of(principal), self._context.now()
        text = None if arguments is None else dumps(dict(arguments))
        if text is not None and len(text.encode()) > MAX_PROPOSED_BYTES:
            raise BodyTooLarge()
        executing = stored.proposal.executing(now, by=principal.name, arguments=text, key=key)
        call = self._call(principal, executing)
        taken = self._take(owner, principal, stored, executing, "confirmed", call)
        audit = _execution(executing, call)
        result = carried_out(
            call.operation,
            lambda: perform(
                call.caller, call.operation, call.given, audit=audit, beside=[check_proposal(owner, taken)]
            ),
            call.given,
        )
        if result.failed and loads(result.content).get("code") == AlreadyApplied.code:
            return self._settle(owner, taken)
        if result.failed and self._is_applied(owner, executing):
            # Only the answer was lost.
            result = ToolResult(dumps({"status": "done", "note": wording.EFFECT_KNOWN}))
        finished = executing.finished(_told(executing, result), failed=result.failed)
        try:
            write_surely(self._context.store, put_proposal(owner, finished, after=taken), token=self._context.new_id())
        except ConditionFailed:
            # This process was given up meanwhile.
            return self._settle(owner, taken)
        self._announce(principal, finished)
        return Decided(finished, result)

    def reject(
        self, principal: Principal, stored: StoredProposal, *, reason: str | None = None, key: str | None = None
    ) -> Decided:
        """Raises `AgentSwitchedOff`, `AlreadyDecided`, `ProposalExpired`."""
        owner = owner_of(principal)
        told = {"status": "rejected", "note": wording.REJECTED}
        result = dumps({**told, "reason": reason[:MAX_REASON]} if reason else told)
        rejected = stored.proposal.rejected(self._context.now(), by=principal.name, result=result, key=key)
        self._take(owner, principal, stored, rejected, "rejected")
        self._announce(principal, rejected)
        return Decided(rejected, ToolResult(result))

    def _announce(self, principal: Principal, proposal: Proposal) -> None:
        notice = proposal_decided(proposal.conversation, proposal.id, proposal.state)
        announce(self._context.jobs, principal, notice)

    # -- one proposal

    def _call(self, principal: Principal, proposal: Proposal) -> _Call:
        operation = REGISTRY.find(proposal.tool)
        if operation is None:
            raise NotAllowed("There is no such tool any more.")
        try:
            given = operation.input.model_validate(_of_tool(operation, loads(proposal.running)))
        except ValidationError as invalid:
            told = faults(invalid)[:MAX_FAULTS]
            raise ValidationFailed(errors=[{"path": "arguments", "message": told}]) from None
        origin = Origin(
            conversation=proposal.conversation or None,
            turn_id=proposal.turn_id,
            call_id=proposal.call_id,
            proposal_id=proposal.id,
        )
        # Who decides first, who it was proposed for last; often they are the same.
        for who in dict.fromkeys((principal, acting(principal, proposal))):
            caller = replace(self._caller_for(who, proposal.channel), confirmed=True, origin=origin)
            decision = permission(caller, operation, given, confirmed=True)
            # Whether it was taken back is a condition of the decision.
            if decision.verdict != "allow" or self._endings.is_past(who):
                note(caller, describe(caller, operation, given, "denied", decision))
                raise NotAllowed()
        # Arguments that a person edited are their own: they were not shown what those change.
        target = None if proposal.edited else proposal.target_hash
        return _Call(operation, given, replace(caller, target=target), decision)

    def _take(
        self,
        owner: Owner,
        principal: Principal,
        stored: StoredProposal,
        moved: Proposal,
        outcome: AuditOutcome,
        call: _Call | None = None,
    ) -> StoredProposal:
        """Writes a decision and its audit, where the assistant is on and the conversation is there; `call` is what
        runs by it. Raises `AlreadyDecided` when somebody was quicker, `AgentSwitchedOff`, `UnknownConversation`.
        """
        ran: dict[str, Any] = {}
        if call is not None:
            ran["arguments_hash"] = hash_of(call.given.model_dump())
            ran["card"] = id_only(card_of(call.operation, call.given))
        # Not the moment of writing: the effect's entry has to stand behind this one.
        at = moved.decided_at or 0.0
        told = put_told(owner, moved, outcome, id=self._context.new_id(), at=at, by=(principal, "api"), **ran)
        change, *listed = put_proposal(owner, moved, after=stored)
        ops: list[Op] = [change, told]
        if moved.conversation:
            ops.append(Check(header_key(owner, moved.conversation), EXISTS))
        acted = moved.actor.principal()
        switches = Switches(self._context.store, principal.tenant).checks(principal, acted)
        rights = [] if call is None else self._endings.checks(principal, acting(principal, moved))
        try:
            every = [*ops, *switches, *rights, *listed, *put_expiring(owner, moved)]
            write_surely(self._context.store, every, token=self._context.new_id())
        except ConditionFailed as failed:
            if call is not None and failed.index >= len(ops) + len(switches):
                note(call.caller, describe(call.caller, call.operation, call.given, "denied", call.decision))
                raise NotAllowed() from None
            if failed.index >= len(ops):
                raise AgentSwitchedOff() from None
            if failed.index > 1:
                raise UnknownConversation() from None
            now = self._context.now()
            raise AlreadyDecided(**self._proposals.find(owner, moved.id).proposal.outcome(now)) from None
        return StoredProposal(moved, stored.version + 1)

    # -- a process that is gone

    def _reclaimed(self, owner: Owner, stored: StoredProposal) -> StoredProposal:
        for _ in range(ATTEMPTS):
            if not stored.proposal.is_stranded(self._context.now()):
                return stored
            with suppress(ConditionFailed):
                self._move_on(owner, stored)
            stored = self._proposals.find(owner, stored.proposal.id)
        raise StorageUnavailable()

    def _settle(self, owner: Owner, stored: StoredProposal) -> Decided:
        """What another process did of this call, or may still do."""
        with suppress(ConditionFailed, StorageError):
            self._move_on(owner, stored)
        found = self._proposals.find(owner, stored.proposal.id).proposal
        if found.result is None:
            raise AlreadyDecided(**found.outcome(self._context.now()))
        return Decided(found, ToolResult(found.result, failed=found.state == "failed"))

    def _move_on(self, owner: Owner, stored: StoredProposal) -> None:
        """To what the audit says: done, or nothing was done and it waits again. Raises `ConditionFailed`."""
        proposal, applied = stored.proposal, self._is_applied(owner, stored.proposal)
        told = _told(proposal, ToolResult(dumps({"status": "done", "note": wording.EFFECT_KNOWN})))
        moved = proposal.finished(told, failed=False) if applied else proposal.waiting_again()
        self._proposals.move(owner, moved, after=stored, token=self._context.new_id())

    def _is_applied(self, owner: Owner, proposal: Proposal) -> bool:
        key = audit_key(owner.tenant, at=_effect_at(proposal), id=proposal.id)
        return self._context.store.get(key) is not None


def _of_tool(operation: Operation, arguments: Any) -> Any:
    """What a person put in the place of a model's arguments is no more than those may be. Raises
    `ValidationFailed`.
    """
    if clash := sorted(set(arguments) & http_only(operation.input)):
        raise ValidationFailed(errors=[{"path": "arguments", "message": f"There is no argument {clash[0]}."}])
    return arguments


def _execution(proposal: Proposal, call: _Call) -> AuditEntry:
    """The entry of the effect, under a name that can be looked for."""
    described = describe(call.caller, call.operation, call.given, "succeeded", call.decision)
    return described.model_copy(update={"id": proposal.id, "at": _effect_at(proposal)})


def _effect_at(proposal: Proposal) -> str:
    """Just behind the decision, whenever it comes: it must be found by who did not write it."""
    return exact((proposal.decided_at or 0.0) + 0.000_001)


def _told(proposal: Proposal, result: ToolResult) -> str:
    """What the model is told, short enough to lie beside the arguments."""
    if proposal.edited is None:
        return bounded(result.content, MAX_RESULT)
    told = {"note": wording.EDITED, "arguments": loads(proposal.edited), "result": loads(result.content)}
    return bounded(dumps(told), MAX_RESULT)


def acting(principal: Principal, proposal: Proposal) -> Principal:
    """As whom what was proposed runs: whoever it was proposed for, with the rights that they have by now where they
    decide themselves.
    """
    proposer = proposal.actor.principal()
    return principal if (principal.kind, principal.id) == (proposer.kind, proposer.id) else proposer


def in_scope(principal: Principal, proposal: Proposal) -> bool:
    """Whether a narrowed principal may see a proposal at all."""
    if principal.operations is not None and proposal.tool not in scope_of(principal.operations):
        return False
    return principal.cards is None or proposal.card in principal.cards
