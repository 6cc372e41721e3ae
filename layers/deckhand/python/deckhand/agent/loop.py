"""The agent loop: steps until an answer without tool calls, or until a budget, a stop or an error ends it.

An async generator of what happens. It knows neither storage nor HTTP; whoever drives it numbers, stores and shows.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from deckhand.agent import wording
from deckhand.agent.budget import Budget
from deckhand.agent.chat import (
    Answer,
    ChatGateway,
    DeadlineReached,
    Filtered,
    StepIdle,
    StepRequest,
    TextDelta,
    ToolCall,
    Usage,
)
from deckhand.agent.history import exchange_messages, marked
from deckhand.agent.outcome import Outcome, Step, StepTimes, Stopped
from deckhand.agent.stream import looks_like_call
from deckhand.agent.toolbox import Toolbox, ToolResult
from deckhand.agent.wording import CappedBy
from deckhand.domain.conversation import Call, Exchange
from deckhand.domain.errors import ContextFull, DeckhandError, GatewayError, GatewayFailed
from deckhand.domain.events import Event, reset, thinking, token, tool_status
from deckhand.domain.json_text import dumps
from deckhand.domain.proposal import Proposal

MAX_CUT_CALLS = 2
MAX_WAITING = 10
"""So many calls of one step may wait: they are stored together."""
MAX_SAME_FAILURES = 3
NORMAL_ENDS = {"stop", "tool_calls", "function_call", "end_turn", "eos"}


@dataclass(frozen=True, slots=True)
class Waiting:
    """A step whose exchange cannot be closed: some of its calls wait for a person."""

    exchange: Exchange
    proposals: tuple[Proposal, ...]

    def withdrawn(self) -> Exchange:
        """The exchange of a turn that was stopped before anybody was asked."""
        told = {"proposal": None, "result": _error("stopped", wording.NOT_RUN_STOPPED)}
        calls = [call if call.proposal is None else call.model_copy(update=told) for call in self.exchange.calls]
        return self.exchange.model_copy(update={"calls": calls})


LoopItem = Event | Exchange | Waiting | Step | Outcome


class StopFlag:
    """Set from outside, any number of times; the loop ends at its next checkpoint, a model call in flight at once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        await self._event.wait()


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a run needs. `shorter` gives a shorter history once, when the gateway says that the context is
    full; None where nothing is asked twice. `first_step` is how many steps have run on the same anchor,
    `changes` what was done to cards since the turn before.
    """

    system: list[dict[str, Any]]
    history: list[dict[str, Any]]
    shorter: Callable[[], list[dict[str, Any]]] | None
    turn_id: str = ""
    anchor: int = 0
    first_step: int = 0
    changes: Mapping[str, str] = field(default_factory=dict)
    voice: bool = False
    cache: bool = True


@dataclass(slots=True)
class _Progress:
    """What changes while a turn runs."""

    messages: list[dict[str, Any]]
    step: int = 0
    shown: str = ""
    preamble: str = ""
    usage: Usage | None = None
    model: str | None = None
    cut_calls: int = 0
    text_calls: int = 0
    shortened: bool = False
    changes: dict[str, str] = field(default_factory=dict)
    tools: list[str] = field(default_factory=list)
    failures: dict[tuple[str, str], int] = field(default_factory=dict)


class Loop:
    """One run. `clock` gives monotonic seconds."""

    def __init__(
        self,
        gateway: ChatGateway,
        toolbox: Toolbox,
        budget: Budget,
        plan: Plan,
        *,
        stop: StopFlag,
        clock: Callable[[], float],
    ) -> None:
        self._gateway, self._toolbox, self._budget, self._plan = gateway, toolbox, budget, plan
        self._stop, self._clock, self._began = stop, clock, clock()
        self._at = _Progress(messages=list(plan.history), changes=dict(plan.changes))

    async def run(self) -> AsyncIterator[LoopItem]:
        """Yields events, steps and exchanges as they happen and, last, exactly one `Outcome`."""
        try:
            async for item in self._steps():
                yield item
        except Stopped:
            yield self._stopped()
        except DeckhandError as error:
            yield self._failed(error)

    async def _steps(self) -> AsyncIterator[LoopItem]:
        while (early := self._checkpoint()) is None:
            self._at.step += 1
            self._at.shown = ""
            yield thinking()
            answer: Answer | None = None
            try:
                async for item in self._call_model():
                    if isinstance(item, Answer):
                        answer = item
                    else:
                        yield item
            except ContextFull:
                self._shorten()
                continue
            if answer is None:
                raise GatewayFailed()
            async for result in self._after(answer):
                yield result
                if isinstance(result, Outcome):
                    return
        yield early

    def _shorten(self) -> None:
        """Once a turn, and only while nothing of the step was shown, the history is made shorter."""
        if self._plan.shorter is None or self._at.shortened or self._at.shown:
            raise ContextFull()
        self._at.shortened = True
        self._at.messages[: len(self._plan.history)] = self._plan.shorter()

    # -- one call of the model

    async def _call_model(self) -> AsyncIterator[Event | Answer | Step]:
        request = StepRequest(
            messages=[*self._plan.system, *(marked(self._at.messages) if self._plan.cache else self._at.messages)],
            tools=self._toolbox.definitions(),
            limits=self._budget.step_limits(self._clock() - self._began),
        )
        times = StepTimes(self._at.step, self._clock)
        async with aclosing(_until(self._stop, self._gateway.stream(request))) as stream:
            async for item in stream:
                if isinstance(item, TextDelta):
                    times.first()
                    self._at.shown += item.text
                    if not self._plan.voice:
                        yield token(item.text)
                else:
                    self._at.usage = _sum(self._at.usage, item.usage)
                    self._at.model = item.model or self._at.model
                    yield times.step(item)
                    yield item

    # -- what an answer leads to

    async def _after(self, answer: Answer) -> AsyncIterator[LoopItem]:
        if answer.calls and answer.finish == "length":
            async for item in self._cut_calls(answer):
                yield item
        elif answer.calls and answer.finish != "content_filter":
            async for item in self._run_calls(answer):
                yield item
        elif looks_like_call(answer.text, [tool["function"]["name"] for tool in self._toolbox.definitions()]):
            async for item in self._call_as_text(answer):
                yield item
        else:
            yield self._final(answer)

    def _final(self, answer: Answer) -> Outcome:
        text = answer.text if answer.text.strip() else self._at.preamble
        if answer.finish == "content_filter":
            notice = f"{answer.text.rstrip()}\n\n{wording.FILTERED}" if answer.text.strip() else wording.FILTERED
            return self._reply(notice, filtered=True)
        if answer.finish == "length":
            return self._capped("size", text)
        if answer.finish is not None and answer.finish not in NORMAL_ENDS:
            return self._capped("early", text)
        return self._reply(text) if text.strip() else self._reply(wording.EMPTY)

    async def _cut_calls(self, answer: Answer) -> AsyncIterator[LoopItem]:
        """Cut by length inside tool calls: none of them runs (bug case 7)."""
        self._at.cut_calls += 1
        if self._at.cut_calls > MAX_CUT_CALLS:
            yield self._capped("size", answer.text)
            return
        if self._at.shown and not self._plan.voice:
            yield reset()
        self._at.shown = ""
        results = [ToolResult(_error("cut_off", wording.CUT_CALL), failed=True) for _ in answer.calls]
        yield self._close(self._exchange(answer), results)

    async def _call_as_text(self, answer: Answer) -> AsyncIterator[LoopItem]:
        """Never run from text: asked once for a real call, then given up (bug case 9)."""
        if self._at.shown and not self._plan.voice:
            yield reset()
        self._at.shown = ""
        self._at.text_calls += 1
        if self._at.text_calls > 1:
            raise GatewayFailed(wording.CALL_AS_TEXT_FAILED)
        self._at.messages += [
            {"role": "assistant", "content": answer.text},
            {"role": "user", "content": wording.CALL_AS_TEXT},
        ]

    async def _run_calls(self, answer: Answer) -> AsyncIterator[LoopItem]:
        if self._at.shown and not self._plan.voice:
            yield reset()
        if answer.text.strip():
            self._at.preamble = answer.text
        self._at.shown = ""
        exchange = self._exchange(answer)
        held = await self._hold(answer.calls)
        if any(self._toolbox.note(call).mutates and call.id not in held for call in answer.calls):
            # Stored before it runs, so that a killed process cannot hide that it may have run.
            yield exchange
        results: list[ToolResult] = []
        for group in self._groups(answer.calls):
            if group[0].id in held:
                results.append(held[group[0].id])
                continue
            if self._stop.is_set():
                results += [ToolResult(_error("stopped", wording.NOT_RUN_STOPPED), failed=True) for _ in group]
                continue
            for call in group:
                note = self._toolbox.note(call)
                self._at.tools.append(call.name)
                yield tool_status(call.name, note.card, note.label)
            results += await asyncio.gather(*(self._toolbox.run(call) for call in group))
        self._remember_changes(results)
        waiting = [result.proposal for result in results if result.proposal is not None]
        if waiting:
            proposals = tuple(one.model_copy(update={"siblings": len(waiting)}) for one in waiting)
            yield Waiting(_with_results(exchange, results), proposals)
            yield self._outcome(status="awaiting_confirmation", text=self._at.preamble, proposals=proposals)
            return
        yield self._close(exchange, results)
        if self._keeps_failing(answer.calls, results):
            yield self._capped("early", self._at.preamble)

    async def _hold(self, calls: tuple[ToolCall, ...]) -> dict[str, ToolResult]:
        """What stands in the place of calls that may not run now, by call id."""
        held: dict[str, ToolResult] = {}
        for call in calls:
            if self._stop.is_set() or not self._toolbox.note(call).mutates:
                continue
            waiting = sum(result.proposal is not None for result in held.values())
            if waiting >= MAX_WAITING:
                held[call.id] = ToolResult(_error("not_run", wording.NOT_RUN_BEHIND), failed=True)
                continue
            behind = waiting > 0
            if (result := await self._toolbox.hold(call, behind=behind)) is not None:
                held[call.id] = result
        return held

    def _groups(self, calls: tuple[ToolCall, ...]) -> list[list[ToolCall]]:
        """Neighbouring reads run side by side; whatever changes something runs alone, in its place."""
        groups: list[list[ToolCall]] = []
        open_group = False
        for call in calls:
            mutates = self._toolbox.note(call).mutates
            if open_group and not mutates:
                groups[-1].append(call)
            else:
                groups.append([call])
            open_group = not mutates
        return groups

    def _exchange(self, answer: Answer) -> Exchange:
        calls = [
            Call(id=call.id, name=call.name, arguments=call.arguments, extra=dict(call.extra) or None)
            for call in answer.calls
        ]
        return Exchange(
            anchor=self._plan.anchor,
            turn_id=self._plan.turn_id,
            step=self._plan.first_step + self._at.step,
            text=answer.text,
            calls=calls,
            extra=dict(answer.extra) or None,
        )

    def _close(self, exchange: Exchange, results: list[ToolResult]) -> Exchange:
        closed = _with_results(exchange, results)
        self._at.messages += exchange_messages(closed)
        return closed

    def _remember_changes(self, results: list[ToolResult]) -> None:
        for result in results:
            for change in result.changes:
                known = self._at.changes.get(change["id"])
                kept = "created" if known == "created" and change["change"] == "changed" else change["change"]
                self._at.changes[change["id"]] = kept

    def _keeps_failing(self, calls: tuple[ToolCall, ...], results: list[ToolResult]) -> bool:
        """Whether one call failed the same way too often (bug case 8)."""
        for call, result in zip(calls, results, strict=True):
            key = (call.name, call.arguments)
            self._at.failures[key] = self._at.failures.get(key, 0) + 1 if result.failed else 0
        return any(count >= MAX_SAME_FAILURES for count in self._at.failures.values())

    # -- the ends

    def _checkpoint(self) -> Outcome | None:
        if self._stop.is_set():
            return self._stopped()
        if self._at.step >= self._budget.steps:
            return self._capped("steps", self._at.preamble)
        if self._budget.time_is_up(self._clock() - self._began):
            return self._capped("deadline", self._at.preamble)
        return None

    def _capped(self, cause: CappedBy, text: str) -> Outcome:
        return self._reply(text, capped_by=cause)

    def _stopped(self) -> Outcome:
        return self._outcome(status="stopped", text="" if self._plan.voice else self._at.shown)

    def _failed(self, error: DeckhandError) -> Outcome:
        shown = "" if self._plan.voice else self._at.shown
        if isinstance(error, StepIdle):
            if shown.strip():
                return self._reply(f"{shown.rstrip()}\n\n{wording.STEP_IDLE_AFTER_TEXT}", interrupted=True)
            return self._reply(wording.STEP_IDLE)
        if isinstance(error, DeadlineReached):
            return self._capped("deadline", shown or self._at.preamble)
        if isinstance(error, Filtered):
            return self._reply(wording.FILTERED, filtered=True)
        public = error if not isinstance(error, GatewayError) or error.code in _PUBLIC else GatewayFailed()
        return self._outcome(status="failed", text=shown, error=public, interrupted=bool(shown.strip()))

    def _reply(self, text: str, **marks: Any) -> Outcome:
        return self._outcome(status="done", text=text, **marks)

    def _outcome(self, **fields: Any) -> Outcome:
        return Outcome(
            usage=self._at.usage,
            model=self._at.model,
            steps=self._at.step,
            changes=dict(self._at.changes),
            tools=tuple(dict.fromkeys(self._at.tools)),
            **fields,
        )


_PUBLIC = {"gateway_failed", "gateway_unreadable", "gateway_timeout", "allowance_used_up", "context_full"}


def _with_results(exchange: Exchange, results: list[ToolResult]) -> Exchange:
    calls = [
        call.model_copy(
            update={"result": result.content} if result.proposal is None else {"proposal": result.proposal.ref}
        )
        for call, result in zip(exchange.calls, results, strict=True)
    ]
    return exchange.model_copy(update={"calls": calls})


def _sum(total: Usage | None, step: Usage | None) -> Usage | None:
    """None stays apart from zero: it means that the gateway reported nothing."""
    if step is None:
        return total
    return step if total is None else total + step


def _error(code: str, sentence: str) -> str:
    return dumps({"error": sentence, "code": code})


async def _until(stop: StopFlag, source: AsyncIterator[TextDelta | Answer]) -> AsyncGenerator[TextDelta | Answer]:
    """The items of `source`; raises `Stopped` as soon as the flag is set, and closes the source then."""
    stopping = asyncio.ensure_future(stop.wait())
    upcoming: asyncio.Future[TextDelta | Answer] | None = None
    try:
        while True:
            upcoming = asyncio.ensure_future(anext(source))
            await asyncio.wait({upcoming, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                raise Stopped()
            try:
                item = upcoming.result()
            except StopAsyncIteration:
                return
            yield item
    finally:
        stopping.cancel()
        if upcoming is not None:
            # Gathered even when it is done: a failure that a stop overtook would else be logged as never retrieved.
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)
        if (close := getattr(source, "aclose", None)) is not None:
            await close()
