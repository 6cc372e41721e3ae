"""Chat turns as callers start them: what is sent to the model is put together here, and the run is handed to the
recorder.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from deckhand.agent.budget import Budget
from deckhand.agent.chat import ChatGateway
from deckhand.agent.gate import Gate
from deckhand.agent.history import joined, transcript
from deckhand.agent.loop import Loop, Plan, StopFlag, Waiting
from deckhand.agent.meter import MeteredGateway
from deckhand.agent.outcome import Outcome, Step
from deckhand.agent.prompt import Profile, Surroundings, system_messages
from deckhand.agent.toolbox import Toolbox
from deckhand.agent.window import REPLAYED_TURNS, newest_that_fit, replayed
from deckhand.domain.audit import Origin
from deckhand.domain.cards import first_line
from deckhand.domain.conversation import Exchange, Message
from deckhand.domain.errors import AllowanceUsedUp, DeckhandError, NotAllowed, StorageError
from deckhand.domain.events import Event
from deckhand.domain.followup import Followup, followup
from deckhand.domain.job import Actor, Job
from deckhand.domain.principal import Principal
from deckhand.domain.proposal import Proposal
from deckhand.domain.report import catalogue
from deckhand.domain.times import epoch, local
from deckhand.operations.caller import Caller
from deckhand.operations.docs import DOCS
from deckhand.operations.permission import may_read, visible_cards
from deckhand.operations.reports import index
from deckhand.storage.conversations import Owner
from deckhand.storage.endings import Endings
from deckhand.storage.proposals import Proposals
from deckhand.storage.switches import Switches
from deckhand.storage.transcript_tail import newest_exchanges, newest_messages
from deckhand.turns.announcement import announce, message_created, proposal_opened
from deckhand.turns.context import TurnContext
from deckhand.turns.continuation import decided_turns, go_on
from deckhand.turns.decision import Decisions, acting
from deckhand.turns.gate import TurnGate
from deckhand.turns.idempotency import Claimed
from deckhand.turns.interrupt import interrupt_and_start
from deckhand.turns.metering import Metering, TurnMeter
from deckhand.turns.queued import start_or_queue, wake_queue
from deckhand.turns.recorder import Recorded, Recorder
from deckhand.turns.reply import ending
from deckhand.turns.settled import decisions_note, settled
from deckhand.turns.start import NewTurn, Turn, owner_of, start_continuation, start_queued, start_turn
from deckhand.turns.switched import SwitchedGateway

SHORTER = 3
"""A history that does not fit is cut to a third, without replayed tool exchanges."""

logger = logging.getLogger(__name__)

OnBusy = Literal["reject", "interrupt", "enqueue"]
_STARTS: dict[OnBusy, Callable[[TurnContext, NewTurn], Turn | Claimed]] = {
    "reject": start_turn,
    "interrupt": interrupt_and_start,
    "enqueue": start_or_queue,
}

Publish = Callable[[int | None, Event], None]
Run = Callable[[Publish], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """`base_prompt` None: the built-in one. Times in seconds."""

    agent_name: str
    base_prompt: str | None
    cache: bool
    window_chars: int
    budget: Budget
    proposal_s: float = 900.0
    profile: Profile = "full"


class Watcher(Protocol):
    """Told of each step and of the end of a turn, for logs and metrics."""

    def step(self, turn_id: str, step: Step) -> None: ...

    def ended(self, turn_id: str, outcome: Outcome) -> None: ...


@dataclass(frozen=True, slots=True)
class TurnWish:
    """What a caller asks for. `messages` are `(role, content)`; `time_left` is what the process has, in seconds;
    `pinned` is asked instead of the deployment's gateway, and nothing twice; `changes` were made to cards by the
    decisions that this turn goes on from; `decided` are those proposals with their results, as far as they are known
    here, and `decisions` tells of each, where they came together.
    """

    messages: Sequence[tuple[Literal["user", "assistant"], str]]
    voice: bool = False
    viewed_card: str | None = None
    page: str | None = None
    time_left: float | None = None
    pinned: ChatGateway | None = None
    changes: Mapping[str, str] = field(default_factory=dict)
    decided: Sequence[Proposal] = ()
    decisions: Sequence[Mapping[str, Any]] = ()


def wish_of(
    proposal: Proposal,
    *,
    time_left: float | None,
    changes: Mapping[str, str] | None = None,
    decided: Sequence[Proposal] = (),
    decisions: Sequence[Mapping[str, Any]] = (),
) -> TurnWish:
    """For the turn that goes on from a decision, in the way of the one that proposed."""
    return TurnWish(
        messages=[],
        voice=proposal.voice,
        viewed_card=proposal.viewed_card,
        time_left=time_left,
        changes=changes or {},
        decided=decided,
        decisions=decisions,
    )


class Chats:
    """Starts turns. `caller_for` makes the caller that the tools of a turn run as."""

    def __init__(
        self,
        context: TurnContext,
        gateway: ChatGateway,
        *,
        settings: ChatSettings,
        caller_for: Callable[[Principal], Caller],
        toolbox_for: Callable[[Caller, Gate], Toolbox],
        decisions: Decisions,
        watcher: Watcher,
        monotonic: Callable[[], float],
        metering: Metering | None = None,
    ) -> None:
        self._context, self._gateway, self._settings = context, gateway, settings
        self._caller_for, self._toolbox_for = caller_for, toolbox_for
        self._watcher, self._monotonic = watcher, monotonic
        self._decisions = decisions
        self._waited: set[str] = set()
        """The turns under way here in whose conversation calls may wait."""
        self._spent: dict[str, set[str]] = {}
        """Of each turn under way here, the proposals that it ran itself."""
        self._metering = metering or Metering(context)

    def admit(self, principal: Principal) -> None:
        """Raises `AllowanceUsedUp` when the principal has nothing left for a turn, and `AgentSwitchedOff`."""
        self._switched_on(principal)
        self._metering.meter(principal).admit()

    def start(self, wanted: NewTurn, wish: TurnWish, *, on_busy: OnBusy = "reject") -> tuple[Turn, Run] | Claimed:
        """Takes the conversation's lock; the returned run does the turn. A `Claimed` names the turn, or the queued
        message, that the
        request stands for instead. Raises what `start_turn` raises."""
        self._switched_on(wanted.principal)
        meter = self._metering.meter(wanted.principal)
        turn = _STARTS[on_busy](self._context, replace(wanted, admit=meter.admit, sent_at=self._context.now()))
        if isinstance(turn, Claimed):
            return turn
        return turn, lambda publish: self._run_stored(wanted.principal, turn, wish, publish, meter)

    def go_on(self, wanted: NewTurn, wish: TurnWish) -> tuple[Turn, Run] | Claimed | None:
        """The turn after the last decision; None when it was started before. Raises what `start_turn` raises, and
        `NotAllowed` when the rights of whom it is for have ended.
        """
        self._switched_on(wanted.principal)
        Endings(self._context.store, now=self._context.now).check(wanted.principal)
        meter = self._metering.meter(wanted.principal)
        turn = start_continuation(self._context, replace(wanted, admit=meter.admit))
        if turn is None or isinstance(turn, Claimed):
            return turn
        return turn, lambda publish: self._run_stored(wanted.principal, turn, wish, publish, meter)

    def _switched_on(self, principal: Principal) -> None:
        Switches(self._context.store, principal.tenant).check(principal)

    async def run_queued(self, owner: Owner, conversation: str, *, time_left: float | None) -> bool:
        """Answers the messages that wait in a conversation; False when none does. Raises `UnknownConversation`,
        `TurnRunning`.
        """
        started = await asyncio.to_thread(start_queued, self._context, owner, conversation)
        if started is None:
            return False
        turn, principal = started
        meter = self._metering.meter(principal)
        await self._run_stored(principal, turn, TurnWish(messages=[], time_left=time_left), lambda *_: None, meter)
        return True

    async def run_continued(self, job: Job, *, time_left: float | None) -> None:
        """Goes on from the decisions of a turn, unless that was done, and leaves others to a job of their own; one that
        may not go on keeps no other from it. Raises `UnknownConversation`, `TurnRunning`, storage errors.
        """
        principal = job.actor.principal()
        owner = owner_of(principal)
        # What a process that is gone had begun is found by this.
        await asyncio.to_thread(self._decisions.all, owner, job.conversation)
        found = await asyncio.to_thread(lambda: list(decided_turns(self._context, owner, job.conversation)))
        for proposal in found:
            new = NewTurn(acting(principal, proposal), job.conversation, [], answers=proposal.turn_id)
            wish = wish_of(proposal, time_left=time_left)
            try:
                started = await asyncio.to_thread(self.go_on, new, wish)
            except (NotAllowed, AllowanceUsedUp) as refused:
                logger.info("not gone on from decisions", extra={"code": refused.code})
                continue
            if isinstance(started, tuple):
                await started[1](lambda *_: None)
                if proposal is not found[-1]:
                    # Its time may be used up.
                    await asyncio.to_thread(self._context.jobs.send, job)
                return

    def client_transcript(self, principal: Principal, wish: TurnWish) -> Run:
        """A turn over the client's own transcript: nothing of it is stored, no lock, no ids. Raises
        `AllowanceUsedUp`.
        """
        self._switched_on(principal)
        meter = self._metering.meter(principal)
        meter.admit()
        return lambda publish: self._run_unstored(principal, wish, publish, meter)

    # -- with a conversation

    async def _run_stored(
        self, principal: Principal, turn: Turn, wish: TurnWish, publish: Publish, meter: TurnMeter
    ) -> None:
        recorder = Recorder(
            self._context,
            turn,
            publish=lambda numbered: publish(numbered.id, numbered.event),
            on_step=lambda step: self._watcher.step(turn.id, step),
            voice=wish.voice,
            followup=lambda outcome: self._followup(principal, outcome),
            told={"decisions": list(wish.decisions)} if wish.decisions else {},
        )
        try:
            finished = await recorder.run(lambda: self._stored_loop(principal, turn, wish, recorder.stop, meter))
            if finished is not None:
                await asyncio.to_thread(self._send_jobs, principal, turn, finished)
                self._watcher.ended(turn.id, finished.outcome)
        finally:
            # Also of a turn that was lost, or nobody would ever take it away.
            self._waited.discard(turn.id)
            self._spent.pop(turn.id, None)
            await meter.close()

    def _followup(self, principal: Principal, outcome: Outcome) -> Followup | None:
        """Offers for the card that was made or changed last; never a reason for a turn to fail."""
        touched = [card for card, change in outcome.changes.items() if change != "removed"]
        if not touched:
            return None
        try:
            card = self._caller_for(principal).cards.find(touched[-1])
            return followup(card.id, card.manifest, start=card.state.version)
        except Exception:
            logger.warning("no follow-up offered", exc_info=True)
            return None

    def _send_jobs(self, principal: Principal, turn: Turn, recorded: Recorded) -> None:
        """What is to be done behind the turn. A queue that fails costs a title or a minute, never the turn."""
        actor, outcome, header = Actor.of(principal), recorded.outcome, recorded.header
        written = [message_created(turn.conversation, id, "user") for id in turn.message_ids]
        if recorded.message_id is not None:
            written.append(message_created(turn.conversation, recorded.message_id, "assistant"))
        opened = [proposal_opened(turn.conversation, proposal.id) for proposal in outcome.proposals]
        announce(self._context.jobs, principal, *written, *opened)
        if header.queued:
            wake_queue(self._context, turn.owner, turn.conversation, actor)
        if outcome.proposals or turn.id in self._waited:
            self._go_on_later(turn, actor, answered=outcome.status != "failed")
        if outcome.status == "done" and header.title is None:
            with suppress(StorageError):
                self._context.jobs.send(Job(kind="title", actor=actor, conversation=turn.conversation))

    async def _stored_loop(
        self, principal: Principal, turn: Turn, wish: TurnWish, stop: StopFlag, meter: TurnMeter
    ) -> Loop:
        # Until it was looked up, which may fail.
        self._waited.add(turn.id)
        caller = replace(self._caller_for(principal), origin=Origin(conversation=turn.conversation, turn_id=turn.id))
        messages, exchanges, system = await asyncio.to_thread(self._read, caller, turn, wish)
        gate = self._gate(caller, wish, turn, messages)
        toolbox = await asyncio.to_thread(self._toolbox_for, caller, gate)

        def shorter() -> list[dict[str, Any]]:
            newest = newest_that_fit(reversed(messages), self._settings.window_chars // SHORTER)
            return self._noted(turn, transcript(newest, []), [])

        plan = Plan(
            system=system,
            history=await asyncio.to_thread(lambda: self._noted(turn, transcript(messages, exchanges), exchanges)),
            shorter=shorter if wish.pinned is None else None,
            turn_id=turn.id,
            anchor=turn.head.head.anchor,
            changes=wish.changes,
            first_step=max((x.step for x in exchanges if x.anchor == turn.head.head.anchor), default=0),
            voice=wish.voice,
            cache=self._settings.cache,
        )
        return self._loop(caller, toolbox, plan, wish, stop, meter)

    def _read(
        self, caller: Caller, turn: Turn, wish: TurnWish
    ) -> tuple[list[Message], list[Exchange], list[dict[str, Any]]]:
        header = turn.header.header
        chars = self._settings.window_chars
        messages = newest_that_fit(newest_messages(self._context.store, turn.owner, header, chars), chars)
        kept = replayed(newest_exchanges(self._context.store, turn.owner, header))
        known = {proposal.id: proposal for proposal in wish.decided}
        told = settled(self._context, self._decisions, turn.owner, header, kept, known=known)
        if not told.waits and len({exchange.turn_id for exchange in kept}) < REPLAYED_TURNS:
            # Else older ones, which were not read, may wait too.
            self._waited.discard(turn.id)
        return messages, told.exchanges, self._system(caller, wish)

    def _noted(self, turn: Turn, history: list[dict[str, Any]], exchanges: Sequence[Exchange]) -> list[dict[str, Any]]:
        """A turn that goes on from decisions is told of them at the end, unless the results already stand there."""
        answered, anchor = turn.head.head.answers, turn.head.head.anchor
        newest = max(exchanges, key=lambda one: (one.anchor, one.step), default=None)
        if answered is None or (newest is not None and (newest.turn_id, newest.anchor) == (answered, anchor)):
            return history
        made = Proposals(self._context.store).all(turn.owner, turn.conversation)
        note = decisions_note([one.proposal for one in made if one.proposal.turn_id == answered])
        return joined([*history, {"role": "user", "content": note}])

    def _gate(self, caller: Caller, wish: TurnWish, turn: Turn, messages: Sequence[Message]) -> TurnGate:
        """In a turn that only goes on nobody has said anything that could be a yes."""
        said = next((m.created_at for m in reversed(messages) if m.role == "user"), None)
        return TurnGate(
            caller,
            self._decisions,
            turn.conversation,
            turn.id,
            turn.head.head.anchor,
            self._settings.proposal_s,
            said_at=None if said is None or turn.head.head.answers is not None else epoch(said),
            voice=wish.voice,
            viewed_card=wish.viewed_card,
            spent=self._spent.setdefault(turn.id, set()),
        )

    def _go_on_later(self, turn: Turn, actor: Actor, *, answered: bool) -> None:
        """What was decided while this turn ran is gone on from by a job, but for what it ran and answered itself."""
        spent, since = self._spent.get(turn.id, set()) if answered else (), turn.head.head.started_at
        with suppress(StorageError):
            go_on(self._context, turn.owner, turn.conversation, actor=actor, spent=spent, since=since)

    # -- without one

    async def _run_unstored(self, principal: Principal, wish: TurnWish, publish: Publish, meter: TurnMeter) -> None:
        caller = self._caller_for(principal)
        try:
            system = await asyncio.to_thread(self._system, caller, wish)
            history = joined({"role": role, "content": content} for role, content in _with_page(wish))
            plan = Plan(system=system, history=history, shorter=lambda: history[-1:], cache=self._settings.cache)
            gate = TurnGate(caller, self._decisions, "", self._context.new_id(), 0, self._settings.proposal_s)
            toolbox = await asyncio.to_thread(self._toolbox_for, caller, gate)
            loop = self._loop(caller, toolbox, replace(plan, voice=wish.voice), wish, StopFlag(), meter)
            outcome = None
            async for item in loop.run():
                if isinstance(item, Event):
                    publish(None, item)
                elif isinstance(item, Waiting):
                    await asyncio.to_thread(self._keep, principal, item)
                    for proposal in item.proposals:
                        publish(None, Event("proposal", proposal.shown()))
                elif isinstance(item, Step):
                    self._watcher.step("", item)
                elif isinstance(item, Outcome):
                    outcome = item
        except Exception:
            logger.exception("turn failed")
            outcome = Outcome(status="failed", text="", error=DeckhandError())
        finally:
            await meter.close()
        outcome = outcome or Outcome(status="failed", text="", error=DeckhandError())
        end = ending(outcome, voice=wish.voice, ids={})
        publish(None, end.closing)
        publish(None, Event("done", {"status": end.status}))
        self._watcher.ended("", outcome)

    def _keep(self, principal: Principal, waiting: Waiting) -> None:
        """Proposals are stored even where the transcript is the client's: they are decided on the server."""
        Proposals(self._context.store).add(owner_of(principal), waiting.proposals, token=self._context.new_id())

    # -- both

    def _loop(
        self, caller: Caller, toolbox: Toolbox, plan: Plan, wish: TurnWish, stop: StopFlag, meter: TurnMeter
    ) -> Loop:
        budget = self._settings.budget
        if wish.time_left is not None:
            budget = replace(budget, turn_s=min(wish.time_left, budget.turn_s or wish.time_left))
        switched = SwitchedGateway(
            wish.pinned or self._gateway,
            self._context.store,
            caller.principal,
            now=self._context.now,
            seen_on=plan.turn_id == "",
        )
        gateway = MeteredGateway(switched, meter)
        return Loop(gateway, toolbox, budget, plan, stop=stop, clock=self._monotonic)

    def _system(self, caller: Caller, wish: TurnWish) -> list[dict[str, Any]]:
        cards = []
        focus = None
        for card in visible_cards(caller, "list_manifests"):
            meta = card.manifest["meta"]
            label = f"{meta['emoji']} {meta['label']}" if isinstance(meta.get("emoji"), str) else str(meta["label"])
            label = first_line(label, 120)
            cards.append((card.id, label, first_line(card.manifest.get("description", ""), 120)))
            if card.id == wish.viewed_card:
                focus = (card.id, label)
        full = self._settings.profile == "full"
        around = Surroundings(
            agent_name=self._settings.agent_name,
            base=self._settings.base_prompt,
            cards=cards,
            docs=tuple(DOCS.items()),
            reports=self._reports(caller) if full else "",
            profile=self._settings.profile,
            now=local(caller.now(), caller.zone),
            focus=focus,
            voice=wish.voice,
        )
        return system_messages(around, cache=self._settings.cache)

    def _reports(self, caller: Caller) -> str:
        """Without the catalogue a turn can still do most things, so a store that fails costs no turn."""
        try:
            return catalogue(index(caller).all()) if may_read(caller, "list_reports") else ""
        except StorageError:
            logger.warning("report catalogue not read", exc_info=True)
            return ""


def _with_page(wish: TurnWish) -> list[tuple[str, str]]:
    messages: list[tuple[str, str]] = [(role, content) for role, content in wish.messages]
    if wish.page:
        role, content = messages[-1]
        messages[-1] = (role, f"{content}\n\n[{wish.page}]")
    return messages
