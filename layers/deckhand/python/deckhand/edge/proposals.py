"""The routes of the confirm gate: what waits, and the decisions on it. After the last one the turn goes on."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from deckhand.agent.toolbox import ToolResult
from deckhand.domain.access import Sees
from deckhand.domain.errors import (
    AlreadyDecided,
    ChatNotConfigured,
    DeckhandError,
    InvalidRequest,
    NotAllowed,
    ProposalExpired,
    StorageError,
    TurnRunning,
    UnknownProposal,
)
from deckhand.domain.job import Actor, Job
from deckhand.domain.json_text import loads
from deckhand.domain.principal import Principal
from deckhand.domain.proposal import MAX_REASON, DecidedProposal, Decision, Proposal, RefusedDecision
from deckhand.edge.answer import json_answer
from deckhand.edge.app import Route
from deckhand.edge.errors import error_status
from deckhand.edge.operation_routes import validated
from deckhand.edge.request import Request
from deckhand.edge.shapes import OpenProposal
from deckhand.edge.turn_answer import TurnAnswers, time_left
from deckhand.storage.conversations import Owner
from deckhand.storage.proposals import StoredProposal
from deckhand.turns.chat import Chats, Run, TurnWish, wish_of
from deckhand.turns.context import TurnContext
from deckhand.turns.decision import Decided, Decisions, acting, in_scope
from deckhand.turns.idempotency import Claim, Claimed, claim, claimed
from deckhand.turns.start import NewTurn, Turn, owner_of

BODY_BYTES = 512 * 1024
PATIENCE, PAUSE_S = 40, 0.05
MAX_DECISIONS = 50


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")
    stream: StrictBool = False


class Confirmation(_Body):
    arguments: dict[str, Any] | None = None


class Rejection(_Body):
    reason: str | None = Field(default=None, max_length=MAX_REASON)


class Verdict(BaseModel):
    """One of several decisions."""

    model_config = ConfigDict(extra="forbid")
    id: str
    decision: Literal["confirm", "reject"]
    arguments: dict[str, Any] | None = None
    reason: str | None = Field(default=None, max_length=MAX_REASON)


class Verdicts(_Body):
    decisions: list[Verdict] = Field(min_length=1, max_length=MAX_DECISIONS)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Who decides, and how they want to be answered. `several`: each decision's outcome stands in the answer; one by
    itself raises what went wrong. `context` is the platform's.
    """

    principal: Principal
    claim: Claim | None
    key: str | None
    context: Any
    stream: bool
    several: bool

    @property
    def owner(self) -> Owner:
        return owner_of(self.principal)


class ProposalRoutes:
    """`chats` is None while no gateway is configured; `sees` says in which of their conversations somebody may chat."""

    def __init__(
        self,
        *,
        context: TurnContext,
        chats: Chats | None,
        decisions: Decisions,
        answers: TurnAnswers,
        authenticate: Callable[[Request], Principal],
        sees: Callable[[Principal], Sees],
    ) -> None:
        self._context, self._chats, self._decisions = context, chats, decisions
        self._answers, self._authenticate, self._sees = answers, authenticate, sees

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/api/chat/proposals", self._open),
            Route("POST", "/api/chat/proposals/decisions", self._several),
            Route("POST", "/api/chat/proposals/{id}/confirm", self._confirm),
            Route("POST", "/api/chat/proposals/{id}/reject", self._reject),
        ]

    def _open(self, request: Request, *_: Any) -> Any:
        principal, now = self._authenticate(request), self._context.now()
        owner = owner_of(principal)
        conversation = request.query.get("conversationId") or ""
        if conversation:
            self._context.conversations.find(owner, conversation)
        sees = self._sees(principal)
        if conversation and not sees(conversation):
            raise NotAllowed()
        stored = self._decisions.all(owner, conversation) if conversation else self._decisions.listed(owner)
        found = [one.proposal for one in stored if not one.proposal.conversation or sees(one.proposal.conversation)]
        shown: list[OpenProposal] = [
            {**one.shown(), "state": one.state, "turnId": one.turn_id, "conversationId": one.conversation or None}
            for one in found
            if one.is_open(now) and in_scope(principal, one)
        ]
        return json_answer(200, {"proposals": shown})

    def _confirm(self, request: Request, parts: Mapping[str, str], context: Any) -> Any:
        principal, body = self._read(request, Confirmation)
        verdict = Verdict(id=parts["id"], decision="confirm", arguments=body.arguments)
        return self._decide([verdict], _asked(principal, request, context, stream=body.stream))

    def _reject(self, request: Request, parts: Mapping[str, str], context: Any) -> Any:
        principal, body = self._read(request, Rejection)
        verdict = Verdict(id=parts["id"], decision="reject", reason=body.reason)
        return self._decide([verdict], _asked(principal, request, context, stream=body.stream))

    def _several(self, request: Request, _: Mapping[str, str], context: Any) -> Any:
        principal, body = self._read(request, Verdicts)
        if len({verdict.id for verdict in body.decisions}) != len(body.decisions):
            raise InvalidRequest("A proposal is decided once.")
        return self._decide(body.decisions, _asked(principal, request, context, stream=body.stream, several=True))

    def _read(self, request: Request, model: type[Any]) -> tuple[Principal, Any]:
        principal = self._authenticate(request)
        return principal, validated(model, request.json_object(BODY_BYTES) if request.body else {})

    # -- deciding

    def _decide(self, verdicts: Sequence[Verdict], asked: _Asked) -> Any:
        stored = self._found(verdicts, asked)
        proposal = stored[0].proposal
        if proposal.conversation and self._chats is None:
            raise ChatNotConfigured()
        if asked.claim is not None and (known := claimed(self._context, asked.claim)) is not None:
            return self._answers.of_known(asked.owner, known, stream=asked.stream)
        outcomes: list[Decision] = []
        done: dict[str, Proposal] = {}
        changes: dict[str, str] = {}
        counts = False
        for verdict, one in zip(verdicts, stored, strict=True):
            try:
                decided = self._one(verdict, one, asked)
            except DeckhandError as error:
                if not asked.several:
                    self._pass_by(error, one.proposal, asked)
                    raise
                counts = counts or isinstance(error, ProposalExpired)
                outcomes.append(cast(RefusedDecision, {"id": verdict.id, **error.as_body()}))
                continue
            counts = True
            outcomes.append(_told(decided))
            done[verdict.id] = decided.proposal
            changes |= {change["id"]: change["change"] for change in decided.result.changes}
        more: Mapping[str, Any] = {"decisions": outcomes} if asked.several else outcomes[0]
        fresh = done.get(proposal.id) or self._decisions.find(asked.owner, proposal.id).proposal
        if still := self._decisions.open_in(asked.owner, fresh):
            return json_answer(200, {"status": "awaiting_confirmation", "open": still, **more})
        if not counts or not proposal.conversation or self._chats is None:
            return json_answer(200, {"status": "decided", **more})
        decisions = outcomes if asked.several else ()
        wish = wish_of(
            proposal,
            time_left=time_left(asked.context),
            changes=changes,
            decided=list(done.values()),
            decisions=decisions,
        )
        return self._go_on(self._chats, proposal, asked, more, wish)

    def _found(self, verdicts: Sequence[Verdict], asked: _Asked) -> list[StoredProposal]:
        """Of one turn, and the caller's to decide. Raises `UnknownProposal`, `InvalidRequest`, `NotAllowed`."""
        stored = [self._decisions.find(asked.owner, verdict.id) for verdict in verdicts]
        if not all(in_scope(asked.principal, one.proposal) for one in stored):
            raise UnknownProposal()
        if len({(one.proposal.conversation, one.proposal.turn_id) for one in stored}) > 1:
            raise InvalidRequest("These proposals are of different turns; decide them apart.")
        conversation = stored[0].proposal.conversation
        if conversation and not self._sees(asked.principal)(conversation):
            raise NotAllowed()
        return stored

    def _pass_by(self, error: DeckhandError, proposal: Proposal, asked: _Asked) -> None:
        """A proposal that ran out of time may have been the last that its turn waited for."""
        if isinstance(error, ProposalExpired) and proposal.conversation:
            actor = Actor.of(asked.principal)
            with suppress(StorageError):
                self._context.jobs.send(Job(kind="continued_turn", actor=actor, conversation=proposal.conversation))

    def _one(self, verdict: Verdict, stored: StoredProposal, asked: _Asked) -> Decided:
        try:
            if verdict.decision == "confirm":
                return self._decisions.confirm(asked.principal, stored, arguments=verdict.arguments, key=asked.key)
            return self._decisions.reject(asked.principal, stored, reason=verdict.reason, key=asked.key)
        except AlreadyDecided:
            known = self._decisions.find(asked.owner, verdict.id).proposal
            if not self._repeats(verdict, known, asked):
                raise
            return Decided(known, ToolResult(known.result or "null"))

    def _repeats(self, verdict: Verdict, known: Proposal, asked: _Asked) -> bool:
        """Whether this only says again what was said, and what should have followed did not: the same request, or a
        turn whose waiting calls are all decided and that nobody took further.
        """
        if known.result is None:
            return False
        if asked.key is not None and known.key == asked.key:
            return True
        head = self._context.turns.head(asked.owner, known.conversation) if known.conversation else None
        stands = head is not None and head.head.turn_id == known.turn_id
        same = (known.state == "rejected") == (verdict.decision == "reject") and verdict.arguments is None
        return stands and same and not self._decisions.open_in(asked.owner, known)

    def _go_on(self, chats: Chats, proposal: Proposal, asked: _Asked, more: Mapping[str, Any], wish: TurnWish) -> Any:
        """The turn, for whom it was. What was decided stands, whatever becomes of it, and every answer says so."""
        principal = acting(asked.principal, proposal)
        new = NewTurn(principal, proposal.conversation, [], claim=asked.claim, answers=proposal.turn_id)
        try:
            started = self._started(chats, new, wish)
        except TurnRunning as running:
            # Its end looks at what was decided meanwhile.
            return json_answer(200, {"status": "decided", **more, "turnId": running.details["turnId"]})
        except DeckhandError as error:
            return json_answer(error_status(error), {**error.as_body(), **more})
        if started is None:
            return json_answer(200, {"status": "decided", **more})
        if isinstance(started, Claimed):
            return self._answers.of_known(asked.owner, started, stream=asked.stream)
        turn, run = started
        return self._answers.of_run(run, stream=asked.stream, turn_id=turn.id)

    def _started(self, chats: Chats, new: NewTurn, wish: TurnWish) -> tuple[Turn, Run] | Claimed | None:
        """A person may be quicker than the end of the turn that asked them: that is waited for, a moment."""
        for _ in range(PATIENCE):
            try:
                return chats.go_on(new, wish)
            except TurnRunning as running:
                if running.details["turnId"] != new.answers:
                    raise
            time.sleep(PAUSE_S)
        return chats.go_on(new, wish)


def _asked(principal: Principal, request: Request, context: Any, *, stream: bool, several: bool = False) -> _Asked:
    given = request.headers.get("idempotency-key")
    # A key stands for one decision, not only for one body: many bodies are empty.
    said = request.path.encode("utf-8", "surrogatepass") + b"\n" + request.body
    claiming = None if given is None else claim(principal, given, said)
    return _Asked(
        principal=principal,
        claim=claiming,
        key=None if claiming is None else f"{claiming.key.sk}.{claiming.body_hash}",
        context=context,
        stream=stream,
        several=several,
    )


def _told(decided: Decided) -> DecidedProposal:
    told: DecidedProposal = {"id": decided.proposal.id, "outcome": decided.proposal.state}
    return told if decided.proposal.conversation else {**told, "result": loads(decided.result.content)}
