"""The meter of a turn on the store.

With an allowance each step writes twice: its reservation, then what it used. Without one nothing is written before
the turn's end, and then once: not in the transaction that finishes it, where a write costs double and two turns of
one principal would get in each other's way. What a process that died had used is not counted then.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any
from zoneinfo import ZoneInfo

from deckhand.agent.chat import Answer, StepRequest, Usage
from deckhand.domain.allowance import (
    ZERO,
    Allowance,
    DayUsage,
    Payment,
    Reserved,
    Spent,
    day_of,
    estimated_tokens,
    most_tokens,
)
from deckhand.domain.errors import StorageError
from deckhand.domain.price import Price, Prices
from deckhand.domain.principal import Principal
from deckhand.domain.times import zone
from deckhand.storage.usage import UsageBook
from deckhand.turns.bill import bill
from deckhand.turns.context import TurnContext

EXPIRY_MARGIN_S = 60

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Metering:
    """Makes meters. `zone_of` may read the store. `model` is the one that is asked for, whose price counts where the
    gateway's own name has none.
    """

    context: TurnContext
    allowance_of: Callable[[Principal], Allowance] = lambda _: Allowance()
    zone_of: Callable[[Principal], ZoneInfo] = lambda _: zone("UTC")
    prices: Prices = field(default_factory=Prices)
    model: str = ""

    def meter(self, principal: Principal) -> "TurnMeter":
        return TurnMeter(self, principal)


@dataclass(slots=True)
class _Step:
    """A call in flight."""

    request: StepRequest
    began: float
    name: str | None = None
    answer: int | None = None
    expires: int = 0

    @property
    def prompt(self) -> str:
        return _text(self.request.messages) + _text(self.request.tools)


class TurnMeter:
    """A `Meter` for the calls of one turn or job, one after the other. Call `close` at its end."""

    def __init__(self, metering: Metering, principal: Principal) -> None:
        self._metering, self._principal, context = metering, principal, metering.context
        self._allowance = metering.allowance_of(principal)
        self._now, self._new_id = context.now, context.new_id
        self._book = UsageBook(context.store, principal, now=context.now, new_id=context.new_id)
        self._step: _Step | None = None
        self._debts: list[tuple[float, Payment]] = []
        self._writing = asyncio.Lock()

    @cached_property
    def _zone(self) -> ZoneInfo:
        """Asked for in threads only."""
        return self._metering.zone_of(self._principal)

    def admit(self) -> None:
        """Blocking. Raises `AllowanceUsedUp` when nothing at all is left, and storage errors."""
        if self._allowance.is_limited:
            now = self._now()
            left = self._book.read(day_of(now, self._zone)).left(self._allowance, now)
            if left.is_nothing:
                raise left.refusal(now, self._zone)

    async def reserve(self, request: StepRequest) -> int | None:
        """See `Meter`. A reservation lives as long as the step may take, retries included."""
        self._step = step = _Step(request, self._now())
        if self._allowance.is_limited:
            await self._in_thread(self._reserve, step)
        return step.answer

    async def settle(self, answer: Answer) -> Usage | None:
        """See `Meter`."""
        usage, price = answer.usage, self._metering.prices.find(answer.model, self._metering.model)
        if usage is None:
            said = [answer.text, answer.reasoning, *(f"{call.name} {call.arguments}" for call in answer.calls)]
            await self._pay(self._estimate(price, "".join(said)))
            return None
        spent = bill(usage, price)
        await self._pay(spent)
        return replace(usage, cost=None if spent.unpriced else spent.cost)

    async def give_up(self, shown: str | None) -> None:
        """See `Meter`."""
        if self._step is not None:
            price = self._metering.prices.find(self._metering.model)
            await self._pay(Spent() if shown is None else self._estimate(price, shown))

    async def close(self) -> None:
        """Writes what is not written yet. What cannot be written is lost, with a line in the log: never the turn."""
        if self._debts:
            await self._write()

    def _reserve(self, step: _Step) -> None:
        prompt, price = most_tokens(step.prompt), self._metering.prices.find(self._metering.model)
        limits, now = step.request.limits, self._now()
        longest = limits.ceiling if limits.deadline is None else min(limits.ceiling, limits.deadline)
        name, expires = self._new_id(), int(now + longest) + EXPIRY_MARGIN_S

        def reserving(usage: DayUsage) -> DayUsage:
            left = usage.left(self._allowance, now)
            step.answer = answer = left.answer(prompt, price)
            cost = ZERO if price is None else price.at_most(input=prompt, output=answer)
            wanted = Reserved(tokens=prompt + answer, cost=cost, expires=expires)
            reserved = usage.reserving(name, wanted, self._allowance, now) if answer else None
            if reserved is None:
                raise left.refusal(now, self._zone)
            return reserved

        self._book.change(day_of(step.began, self._zone), reserving)
        step.name, step.expires = name, expires

    def _estimate(self, price: Price | None, said: str) -> Spent:
        """What a call used that the gateway did not report."""
        step = self._step
        prompt = estimated_tokens(step.prompt) if step else 0
        usage = Usage(input_tokens=prompt, output_tokens=estimated_tokens(said))
        return bill(usage, price, estimated=True)

    async def _pay(self, spent: Spent) -> None:
        """Without an allowance it is written at the end."""
        step, self._step = self._step, None
        if step is None or (spent == Spent() and step.name is None):
            return
        self._debts.append((step.began, Payment(spent, step.name, step.expires)))
        if self._allowance.is_limited:
            await self._write()

    async def _write(self) -> None:
        try:
            await self._in_thread(self._settle)
        except StorageError:
            # Kept for the next write, and the reservations with it.
            logger.warning("usage not written", exc_info=True)

    def _settle(self) -> None:
        """A call counts on the day on which it began."""
        owed: dict[str, list[tuple[float, Payment]]] = {}
        for debt in self._debts:
            owed.setdefault(day_of(debt[0], self._zone), []).append(debt)
        for day, debts in owed.items():
            settling = partial(DayUsage.settling, payments=[payment for _, payment in debts], now=self._now())
            self._book.change(day, settling)
            self._debts = [debt for debt in self._debts if debt not in debts]

    async def _in_thread(self, work: Callable[..., None], *given: Any) -> None:
        """A thread cannot be cancelled: whoever is cancelled waits for what it writes, so that the next write comes
        behind it.
        """
        async with self._writing:
            writing = asyncio.ensure_future(asyncio.to_thread(work, *given))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                await asyncio.gather(writing, return_exceptions=True)
                raise


def _text(value: list[dict[str, Any]]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
