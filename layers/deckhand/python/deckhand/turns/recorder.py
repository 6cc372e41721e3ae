"""Recording a run: numbers the events, hands each at once to whoever listens here, writes them to the log in
batches, keeps the lease.

The recorder is not tied to its listener: a client that goes away changes nothing.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from deckhand.agent.loop import Loop, StopFlag, Waiting
from deckhand.agent.outcome import Outcome, Step
from deckhand.domain.conversation import Exchange, Header
from deckhand.domain.errors import ConditionFailed, DeckhandError, StorageError
from deckhand.domain.events import Event
from deckhand.domain.followup import Followup
from deckhand.domain.proposal import Proposal
from deckhand.domain.turn import LEASE_S, MAX_EVENTS, RENEW_S, Head
from deckhand.storage.conversations import put_exchange
from deckhand.storage.port import Op
from deckhand.storage.proposals import put_opening, put_proposal
from deckhand.storage.repeat import write_surely
from deckhand.storage.turns import Numbered, StoredHead, put_head
from deckhand.turns.context import TurnContext
from deckhand.turns.finish import Finish, LeaseLost, StopWon, finish_turn
from deckhand.turns.reply import Ending, ending, gone_events
from deckhand.turns.start import Turn

FLUSH_BYTES = 3 * 1024
BATCH_EVENTS = 500
"""A batch is dropped as a whole, so it stays small beside the 5,000 events that a log keeps."""
GROWTH_PER_BATCH_S = 0.025
FINISH_RETRY_S = 0.5

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Log:
    """Events that wait to be written, and where the written ones are."""

    last_id: int
    waiting: list[Numbered] = field(default_factory=list)
    waiting_bytes: int = 0
    written: deque[tuple[int, int]] = field(default_factory=deque)
    kept: int = 0
    batches: int = 0
    urgent: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Recorded:
    """How a turn ended, the header as it is now, and the id of the reply, where one is stored."""

    outcome: Outcome
    header: Header
    message_id: str | None


class Recorder:
    """Drives one turn to its end. `publish` gets every event as it is made, in order, on the event loop's thread."""

    def __init__(
        self,
        context: TurnContext,
        turn: Turn,
        *,
        publish: Callable[[Numbered], None],
        on_step: Callable[[Step], None],
        voice: bool,
        followup: Callable[[Outcome], Followup | None],
        told: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """`told` are further fields of the event that closes the turn."""
        self._context, self._turn, self._publish, self._on_step, self._voice = context, turn, publish, on_step, voice
        self._followup, self._told = followup, told
        self._head: StoredHead = turn.head
        self._log = _Log(last_id=turn.head.head.last_event_id)
        self._stop = StopFlag()
        self._phase, self._steps = "thinking", 0
        self._shown: list[str] = []
        self._closing = False
        self._asked = False
        self._writing: asyncio.Future[None] | None = None
        self._moving = asyncio.Lock()

    @property
    def stop(self) -> StopFlag:
        return self._stop

    async def run(self, prepare: Callable[[], Coroutine[Any, Any, Loop]]) -> Recorded | None:
        """Runs the loop and finishes the turn. None when the turn was lost to somebody else on the way; nothing is
        written then.
        """
        helpers = [asyncio.create_task(self._keep_log()), asyncio.create_task(self._keep_lease())]
        main = asyncio.create_task(self._record(prepare))
        try:
            await asyncio.wait([main, *helpers], return_when=asyncio.FIRST_COMPLETED)
            if not main.done():
                # A keeper ends only when the lease is gone.
                raise LeaseLost()
            outcome = main.result()
            # Let go, not cancelled: a batch that a thread is still writing must not land behind the finish.
            self._closing = True
            self._log.urgent.set()
            await helpers[0]
            for _ in range(len(self._log.waiting) // BATCH_EVENTS):
                await self._flush()
            helpers[1].cancel()
            return await self._finish(outcome)
        except LeaseLost:
            logger.warning("lease lost")
            await _end(main, *helpers)
            await self._tell_gone()
            return None
        finally:
            await _end(main, *helpers)

    # -- the run

    async def _record(self, prepare: Callable[[], Coroutine[Any, Any, Loop]]) -> Outcome:
        """A fault of ours ends the turn as failed, with what was shown kept; it never leaves a turn without an end."""
        try:
            return await self._drive(await prepare())
        except LeaseLost:
            raise
        except Exception:
            logger.exception("turn failed")
            return Outcome(status="failed", text="".join(self._shown), error=DeckhandError(), steps=self._steps)

    async def _drive(self, loop: Loop) -> Outcome:
        outcome: Outcome | None = None
        async for item in loop.run():
            if isinstance(item, Event):
                self._emit(item)
            elif isinstance(item, Exchange | Waiting):
                for proposal in await self._store_exchange(item):
                    self._emit(Event("proposal", proposal.shown()))
            elif isinstance(item, Step):
                self._on_step(item)
            else:
                outcome = item
        if outcome is None:
            raise DeckhandError()
        return outcome

    def _emit(self, event: Event) -> None:
        log = self._log
        log.last_id += 1
        numbered = Numbered(log.last_id, event)
        self._publish(numbered)
        log.waiting.append(numbered)
        if event.name == "token":
            self._shown.append(event.data["text"])
            log.waiting_bytes += len(event.data["text"]) + 3
        else:
            if event.name == "status":
                self._phase = event.data["phase"]
                self._steps += self._phase == "thinking"
            elif event.name == "reset":
                self._shown.clear()
            log.urgent.set()
        if log.waiting_bytes >= FLUSH_BYTES:
            log.urgent.set()

    async def _store_exchange(self, item: Exchange | Waiting) -> Sequence[Proposal]:
        """Only while the turn is ours: a lost process must not add to the transcript. Renews the lease on the way.
        What a person is to be asked now; nothing in a turn that was stopped.
        """
        async with self._moving:
            for _ in range(10):
                head = self._renewed()
                exchange, proposals = self._asking(item)
                ops: list[Op] = [
                    put_head(self._turn.owner, self._turn.conversation, head, after=self._head),
                    *put_exchange(self._turn.owner, self._turn.header.header, exchange),
                    *(op for proposal in proposals for op in put_proposal(self._turn.owner, proposal)),
                    *(put_opening(self._turn.owner, proposal) for proposal in proposals),
                ]
                try:
                    await asyncio.to_thread(write_surely, self._context.store, ops, token=self._context.new_id())
                except ConditionFailed:
                    await self._look()
                    continue
                self._head = StoredHead(head, self._head.version + 1)
                return proposals
        raise LeaseLost()

    def _asking(self, item: Exchange | Waiting) -> tuple[Exchange, Sequence[Proposal]]:
        if isinstance(item, Exchange):
            return item, ()
        if self._stop.is_set():
            return item.withdrawn(), ()
        # Set before it is known: a write whose answer is lost may have been applied.
        self._asked = True
        return item.exchange, item.proposals

    # -- the log

    async def _keep_log(self) -> None:
        log, pace = self._log, self._context.pace
        while not self._closing:
            interval = min(pace.flush_grown, pace.flush_first + GROWTH_PER_BATCH_S * log.batches)
            with suppress(TimeoutError):
                # Not `wait_for`: before Python 3.12 it may swallow the cancellation that ends this task.
                async with asyncio.timeout(interval):
                    await log.urgent.wait()
            log.urgent.clear()
            if log.waiting and not self._closing:
                await self._flush()

    async def _flush(self) -> None:
        self._check_clock()
        log = self._log
        batch, log.waiting, log.waiting_bytes = log.waiting[:BATCH_EVENTS], log.waiting[BATCH_EVENTS:], 0
        if log.waiting:
            log.urgent.set()
        writing = asyncio.to_thread(
            self._context.turns.append,
            self._turn.owner,
            self._turn.conversation,
            batch,
            self._context.now(),
            token=self._context.new_id(),
        )
        self._writing = asyncio.ensure_future(writing)
        try:
            # A thread cannot be cancelled: whoever ends this task can still wait for what it is writing.
            await asyncio.shield(self._writing)
        except StorageError:
            # Kept for the next try; the lease decides for how long.
            logger.warning("event batch not written", exc_info=True)
            log.waiting = batch + log.waiting
            return
        log.batches += 1
        log.written.append((batch[0].id, len(batch)))
        log.kept += len(batch)
        await self._drop_head()

    async def _drop_head(self) -> None:
        """The log keeps the newest 5,000 events."""
        log = self._log
        dropped: list[int] = []
        while log.written and log.kept - log.written[0][1] >= MAX_EVENTS:
            first, count = log.written.popleft()
            log.kept -= count
            dropped.append(first)
        if dropped:
            # What is left over expires; a replay tells of it as of any other part of the log.
            with suppress(StorageError):
                await asyncio.to_thread(
                    self._context.turns.forget_events,
                    self._turn.owner,
                    self._turn.conversation,
                    dropped[0],
                    dropped[-1],
                )

    # -- the lease

    def _check_clock(self) -> None:
        if self._context.now() >= self._head.head.lease_until:
            raise LeaseLost()

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(self._context.pace.watch)
            self._check_clock()
            async with self._moving:
                try:
                    await self._look()
                    if self._context.now() >= self._head.head.lease_until - (LEASE_S - RENEW_S):
                        await self._renew()
                except ConditionFailed:
                    continue
                except StorageError:
                    logger.warning("lease not renewed", exc_info=True)

    async def _look(self) -> None:
        """Reads the head: whether it is still ours, and whether a stop was asked for."""
        found = await asyncio.to_thread(self._context.turns.head, self._turn.owner, self._turn.conversation)
        if found is None or found.head.turn_id != self._turn.id or found.head.status is not None:
            raise LeaseLost()
        self._head = found
        if found.head.stop:
            self._stop.set()

    async def _renew(self) -> None:
        head = self._renewed()
        self._head = await asyncio.to_thread(
            self._context.turns.move,
            self._turn.owner,
            self._turn.conversation,
            head,
            after=self._head,
            token=self._context.new_id(),
        )

    def _renewed(self) -> Head:
        return self._head.head.renewed(
            self._context.now(), last_event_id=self._log.last_id, steps=self._steps, phase=self._phase
        )

    # -- the end

    async def _finish(self, outcome: Outcome) -> Recorded:
        """Tried until it is written, stopped or lost; an answer is not thrown away for a store that is slow to
        answer.
        """
        if self._stop.is_set() and outcome.status != "stopped":
            # Seen when there was nothing left to stop; but whoever stopped was told that the turn is stopped.
            outcome = self._stopped(outcome)
        message_id = self._context.new_id()
        offer = await asyncio.to_thread(self._followup, outcome) if outcome.status == "done" else None
        while True:
            self._check_clock()
            finish = Finish(
                ending=self._ending(outcome, message_id, offer),
                message_id=message_id,
                unwritten=tuple(self._log.waiting),
                last_id=self._log.last_id,
                steps=self._steps,
                make_done=self._done,
                asked=self._asked,
            )
            try:
                finished = await asyncio.to_thread(finish_turn, self._context, self._turn, self._head, finish)
                break
            except StorageError:
                logger.warning("finish not written", exc_info=True)
                await asyncio.sleep(FINISH_RETRY_S)
            except StopWon as won:
                self._head, outcome = won.head, self._stopped(outcome)
        for numbered in finished.closing:
            self._publish(numbered)
        stored = finish.ending.content is not None
        return Recorded(outcome, finished.header, message_id if stored else None)

    def _stopped(self, outcome: Outcome) -> Outcome:
        """What was visible is kept; a notice of ours that nobody saw is not."""
        shown = "".join(self._shown)
        kept = replace(outcome, status="stopped", text=shown, proposals=())
        return replace(kept, error=None, capped_by=None, interrupted=False)

    def _ending(self, outcome: Outcome, message_id: str, offer: Followup | None) -> Ending:
        ids = {"conversationId": self._turn.conversation, "messageId": message_id, "turnId": self._turn.id}
        end = ending(outcome, voice=self._voice, ids=ids, followup=offer)
        return replace(end, closing=end.closing.with_fields(self._told))

    def _done(self, end: Ending) -> Event:
        return Event("done", {"conversationId": self._turn.conversation, "turnId": self._turn.id, "status": end.status})

    async def _tell_gone(self) -> None:
        """Last words to a listener here when the turn is not ours any more; nothing is stored."""
        try:
            found = await asyncio.to_thread(self._context.turns.head, self._turn.owner, self._turn.conversation)
        except StorageError:
            found = self._head
        if found is None:
            # A batch may have been written behind the deletion.
            if self._writing is not None:
                await asyncio.gather(self._writing, return_exceptions=True)
            # What cannot be removed now expires; the last words must come all the same.
            with suppress(StorageError):
                await asyncio.to_thread(self._context.turns.forget_log, self._turn.owner, self._turn.conversation)
        closing, done = gone_events(self._turn.conversation, self._turn.id, deleted=found is None)
        for event in (closing.with_fields(self._told), done):
            self._log.last_id += 1
            self._publish(Numbered(self._log.last_id, event))


async def _end(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
