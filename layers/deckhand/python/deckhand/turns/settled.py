"""Calls that waited, as the model is told of them: what became of each stands where its result belongs."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deckhand.agent import wording
from deckhand.domain.conversation import Call, Exchange, Header
from deckhand.domain.errors import StorageError
from deckhand.domain.json_text import dumps
from deckhand.domain.proposal import Proposal
from deckhand.storage.conversations import Owner, header_key, put_exchange
from deckhand.storage.port import EXISTS, Check, Put
from deckhand.storage.turns import put_continued
from deckhand.turns.context import TurnContext
from deckhand.turns.decision import Decisions

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settled:
    """`exchanges` have a result for every call; `waits`: for some that is only that they wait."""

    exchanges: list[Exchange]
    waits: bool


def settled(
    context: TurnContext,
    decisions: Decisions,
    owner: Owner,
    header: Header,
    exchanges: Sequence[Exchange],
    *,
    known: Mapping[str, Proposal],
) -> Settled:
    """What became of calls that waited. What is final is written back, by the one turn that may write in this
    conversation now. `known` are decided ones; where others wait, all are looked up.
    """
    if not waits(exchanges):
        return Settled(list(exchanges), waits=False)
    waiting_ids = {c.proposal.id for exchange in exchanges for c in exchange.calls if _waits(c) and c.proposal}
    if not waiting_ids <= known.keys():
        known = {stored.proposal.id: stored.proposal for stored in decisions.all(owner, header.id)}
    now, shown, final, waiting = context.now(), list[Exchange](), list[Put](), False
    for exchange in exchanges:
        calls = [_told(call, known, now) for call in exchange.calls]
        told = exchange.model_copy(update={"calls": calls})
        shown.append(told)
        kept = exchange.model_copy(update={"calls": [_final(call, known, now) for call in exchange.calls]})
        waiting = waiting or waits([kept])
        if kept != exchange:
            final += put_exchange(owner, header, kept)
            if not waits([kept]):
                final.append(put_continued(owner, header.id, exchange.turn_id, now, first=False))
    if final:
        try:
            # Not into a conversation that was deleted meanwhile.
            there = Check(header_key(owner, header.id), EXISTS)
            context.store.write([*final, there], token=context.new_id())
        except StorageError:
            # Looked up again by the next turn.
            logger.warning("decisions not written into the transcript", exc_info=True)
            waiting = True
    return Settled(shown, waiting)


def decisions_note(proposals: Sequence[Proposal]) -> str:
    """For a turn that goes on where the conversation has moved on since: what was decided, as a text."""
    told = "; ".join(f"{one.summary}: {one.result}" for one in proposals if one.result is not None)
    return wording.DECIDED.format(decisions=told)


def waits(exchanges: Sequence[Exchange]) -> bool:
    """Whether a call among these has not been decided, as far as the transcript says."""
    return any(_waits(call) for exchange in exchanges for call in exchange.calls)


def _waits(call: Call) -> bool:
    return call.result is None and call.proposal is not None


def _final(call: Call, known: Mapping[str, Proposal], now: float) -> Call:
    if not _waits(call) or call.proposal is None:
        return call
    proposal = known.get(call.proposal.id)
    if proposal is not None and proposal.result is not None:
        return call.model_copy(update={"result": proposal.result})
    expired = now >= call.proposal.expires_at if proposal is None else proposal.state_at(now) == "expired"
    if expired:
        return call.model_copy(update={"result": dumps({"status": "expired", "note": wording.EXPIRED})})
    return call


def _told(call: Call, known: Mapping[str, Proposal], now: float) -> Call:
    call = _final(call, known, now)
    if not _waits(call) or call.proposal is None:
        return call
    waiting = {"status": "awaiting_confirmation", "confirmationId": call.proposal.id, "note": wording.WAITING}
    return call.model_copy(update={"result": dumps(waiting)})
