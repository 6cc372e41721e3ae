"""The meter of a turn on the store: what is written when, and what stays when something fails."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from deckhand.agent.chat import Answer, StepLimits, StepRequest, ToolCall, Usage
from deckhand.domain.allowance import (
    ANSWER_TOKENS,
    LONGEST_ANSWER,
    Allowance,
    DayUsage,
    Spent,
    estimated_tokens,
    most_tokens,
)
from deckhand.domain.errors import DailyAllowanceUsedUp, StorageUnavailable
from deckhand.domain.price import Price, Prices
from deckhand.domain.principal import Principal
from deckhand.storage.port import ItemStore
from deckhand.storage.sqlite import SqliteStore
from deckhand.storage.usage import KEEP_S, UsageBook
from deckhand.turns.context import TurnContext
from deckhand.turns.metering import EXPIRY_MARGIN_S, Metering, TurnMeter
from tests.fakes import FakeQueue, Gate, Ids
from tests.stores import Clock

ANN = Principal(kind="user", id="ann", user="ann", role="owner")
DAY = "2027-01-15"
REQUEST = StepRequest(messages=[{"role": "user", "content": "x" * 300}], tools=[], limits=StepLimits(deadline=100.0))
TEXT = '[{"role":"user","content":"' + "x" * 300 + '"}][]'
PROMPT, MOST = estimated_tokens(TEXT), most_tokens(TEXT)
PRICES = Prices({"m": Price(input=Decimal(1), output=Decimal(2), cached_input=Decimal("0.1"), cache_write=Decimal(3))})


class Flaky:
    """A store that counts its calls and fails so many of the writes that follow, before or behind their effect."""

    def __init__(self, inner: ItemStore) -> None:
        self._inner = inner
        self.calls: Counter[str] = Counter()
        self.failures, self.late, self.gate = 0, False, None

    def write(self, ops: Any, *, token: str) -> None:
        self.calls["write"] += 1
        if self.gate is not None:
            self.gate.pass_in_thread()
        if self.failures and not self.late:
            self.failures -= 1
            raise StorageUnavailable()
        self._inner.write(ops, token=token)
        if self.failures:
            self.failures -= 1
            raise StorageUnavailable()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._inner, name)

    failures: int
    gate: Gate | None


@dataclass
class Desk:
    """Meters on one store."""

    store: Flaky
    clock: Clock
    allowance: Allowance = field(default_factory=Allowance)
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    ids: Ids = field(default_factory=Ids)

    def meter(self, model: str = "m") -> TurnMeter:
        context = TurnContext.on(self.store, now=self.clock, new_id=self.ids, jobs=FakeQueue())
        metering = Metering(
            context, allowance_of=lambda _: self.allowance, zone_of=lambda _: self.zone, prices=PRICES, model=model
        )
        return metering.meter(ANN)

    def stored(self, day: str = DAY) -> DayUsage:
        return UsageBook(self.store._inner, ANN, now=self.clock, new_id=self.ids).read(day)


@pytest.fixture
def desk() -> Iterator[Desk]:
    clock = Clock()
    with closing(SqliteStore(":memory:", now=clock)) as store:
        yield Desk(Flaky(store), clock)


def answered(usage: Usage | None = None, **more: Any) -> Answer:
    return Answer(text="x" * 30, usage=usage, **more)


USED = Usage(input_tokens=100, output_tokens=10, cached_tokens=40, cache_write_tokens=20)


# -- without an allowance


async def test_without_an_allowance_a_turn_writes_once_at_its_end(desk: Desk) -> None:
    meter = desk.meter()
    meter.admit()
    for _ in range(3):
        await meter.reserve(REQUEST)
        await meter.settle(answered(USED))
    assert desk.store.calls == {}
    await meter.close()
    assert desk.store.calls == {"get": 1, "write": 1}
    assert desk.stored().spent.total == 330
    await meter.close()
    assert desk.store.calls["write"] == 1


async def test_a_turn_that_asked_nothing_writes_nothing(desk: Desk) -> None:
    meter = desk.meter()
    await meter.close()
    await meter.reserve(REQUEST)
    await meter.give_up(None)
    await meter.close()
    assert desk.store.calls == {}


async def test_what_could_not_be_written_costs_no_turn(desk: Desk) -> None:
    meter = desk.meter()
    await meter.reserve(REQUEST)
    await meter.settle(answered(USED))
    desk.store.failures = 3
    await meter.close()
    assert desk.stored() == DayUsage()


async def test_turns_add_up_and_a_day_goes_by_itself(desk: Desk) -> None:
    for _ in range(2):
        meter = desk.meter()
        await meter.reserve(REQUEST)
        await meter.settle(answered(USED))
        await meter.close()
    assert desk.stored().spent == Spent(input=200, output=20, cached=80, written=40, cost=2 * usd())
    desk.clock.time += KEEP_S + 1
    assert desk.stored() == DayUsage()


def usd() -> Decimal:
    price = PRICES.find("m")
    assert price is not None
    return price.cost(input=40, output=10, cached=40, written=20)


async def test_a_zone_that_cannot_be_read_is_asked_for_off_the_loop_and_costs_no_turn(desk: Desk) -> None:
    asked: list[threading.Thread] = []

    def unreadable(_: Principal) -> ZoneInfo:
        asked.append(threading.current_thread())
        raise StorageUnavailable()

    context = TurnContext.on(desk.store, now=desk.clock, new_id=desk.ids, jobs=FakeQueue())
    meter = Metering(context, zone_of=unreadable).meter(ANN)
    await meter.reserve(REQUEST)
    await meter.settle(answered(USED))
    await meter.close()
    assert asked
    assert threading.main_thread() not in asked


# -- what a call used


async def test_a_reply_is_told_what_it_cost(desk: Desk) -> None:
    meter = desk.meter()
    await meter.reserve(REQUEST)
    usage = await meter.settle(answered(USED))
    assert usage is not None
    assert usage.cost == usd() == Decimal("0.000124")


async def test_the_model_that_answered_gives_the_price(desk: Desk) -> None:
    meter = desk.meter(model="unknown")
    await meter.reserve(REQUEST)
    named = await meter.settle(answered(USED, model="m"))
    await meter.reserve(REQUEST)
    nameless = await meter.settle(answered(USED))
    assert (named and named.cost, nameless and nameless.cost) == (usd(), None)
    await meter.close()
    spent = desk.stored().spent
    assert (spent.total, spent.cost, spent.unpriced) == (220, usd(), True)


async def test_a_price_of_zero_is_a_price(desk: Desk) -> None:
    free = Metering(
        TurnContext.on(desk.store, now=desk.clock, new_id=desk.ids, jobs=FakeQueue()),
        prices=Prices({"*": Price(input=Decimal(0), output=Decimal(0))}),
    ).meter(ANN)
    await free.reserve(REQUEST)
    usage = await free.settle(answered(USED, model="any"))
    assert usage is not None
    assert usage.cost == 0
    await free.close()
    assert not desk.stored().spent.unpriced


async def test_cached_tokens_that_are_more_than_the_input_were_not_part_of_it(desk: Desk) -> None:
    meter = desk.meter()
    await meter.reserve(REQUEST)
    await meter.settle(answered(Usage(input_tokens=10, output_tokens=1, cached_tokens=90)))
    await meter.close()
    assert (desk.stored().spent.input, desk.stored().spent.cost) == (100, Decimal("0.000021"))


async def test_what_a_gateway_does_not_report_is_estimated_and_marked(desk: Desk) -> None:
    meter = desk.meter()
    await meter.reserve(REQUEST)
    answer = answered(None, reasoning="y" * 30, calls=(ToolCall("c1", "tool", "z" * 25),))
    assert await meter.settle(answer) is None
    await meter.close()
    spent = desk.stored().spent
    assert (spent.input, spent.output, spent.estimated) == (PROMPT, 30, True)
    assert spent.cost == (PROMPT + 2 * 30) * Decimal("0.000001")


async def test_a_call_that_broke_off_is_estimated_by_what_it_showed(desk: Desk) -> None:
    meter = desk.meter()
    await meter.reserve(REQUEST)
    await meter.give_up("x" * 9)
    await meter.close()
    spent = desk.stored().spent
    assert (spent.input, spent.output, spent.estimated) == (PROMPT, 3, True)


# -- with one


async def test_a_step_reserves_its_prompt_and_a_long_answer_before_it_is_made(desk: Desk) -> None:
    desk.allowance = Allowance(tokens=100_000)
    assert await desk.meter().reserve(REQUEST) == LONGEST_ANSWER
    (reserved,) = desk.stored().reserved.values()
    assert reserved.tokens == MOST + LONGEST_ANSWER
    assert reserved.cost == (3 * MOST + 2 * LONGEST_ANSWER) * Decimal("0.000001"), "as if all of it were written"
    assert reserved.expires == int(desk.clock.time) + 100 + EXPIRY_MARGIN_S


async def test_without_an_allowance_an_answer_is_not_limited(desk: Desk) -> None:
    assert await desk.meter().reserve(REQUEST) is None


async def test_where_less_is_left_the_answer_may_be_shorter_down_to_what_a_model_needs(desk: Desk) -> None:
    desk.allowance = Allowance(tokens=2 * (MOST + ANSWER_TOKENS) + LONGEST_ANSWER - 1)
    first, second, third = desk.meter(), desk.meter(), desk.meter()
    assert await first.reserve(REQUEST) == LONGEST_ANSWER
    assert await second.reserve(REQUEST) == 2 * ANSWER_TOKENS - 1
    with pytest.raises(DailyAllowanceUsedUp):
        await third.reserve(REQUEST)


async def test_money_that_is_left_bounds_the_answer_by_its_price(desk: Desk) -> None:
    desk.allowance = Allowance(tokens=100_000, cost=(3 * MOST + 2 * 5_000) * Decimal("0.000001"))
    assert await desk.meter().reserve(REQUEST) == 5_000
    with pytest.raises(DailyAllowanceUsedUp):
        await desk.meter().reserve(REQUEST)


async def test_a_step_costs_two_writes_and_its_turn_one_read(desk: Desk) -> None:
    desk.allowance = Allowance(tokens=100_000)
    meter = desk.meter()
    meter.admit()
    for _ in range(3):
        await meter.reserve(REQUEST)
        await meter.settle(answered(USED))
    await meter.close()
    assert desk.store.calls == {"get": 1, "write": 6}
    assert desk.stored() == DayUsage(spent=Spent(input=300, output=30, cached=120, written=60, cost=3 * usd()))


async def test_a_step_that_may_need_more_than_is_left_is_refused_with_what_is_left(desk: Desk) -> None:
    desk.allowance = Allowance(tokens=MOST + ANSWER_TOKENS + 109, cost=Decimal(1))
    meter = desk.meter()
    await meter.reserve(REQUEST)
    await meter.settle(answered(USED))
    with pytest.raises(DailyAllowanceUsedUp) as refused:
        await meter.reserve(REQUEST)
    await meter.give_up(None)
    left = {"tokens": MOST + ANSWER_TOKENS - 1, "costUsd": float(1 - usd())}
    assert refused.value.details == {"left": left, "resetsAt": "2027-01-16T00:00:00.000Z"}
    assert desk.stored().reserved == {}


async def test_a_refusal_is_never_by_what_was_remembered(desk: Desk) -> None:
    desk.allowance = Allowance(tokens=MOST + LONGEST_ANSWER + MOST + ANSWER_TOKENS + 110)
    meter, other = desk.meter(), desk.meter()
    await other.reserve(REQUEST)
    await meter.reserve(REQUEST)
    await meter.settle(answered(USED))
    await other.settle(answered(Usage()))
    await meter.reserve(REQUEST)


async def test_nothing_left_is_known_before_a_turn_begins(desk: Desk) -> None:
    desk.allowance = Allowance(tokens=110)
    limited = desk.meter()
    desk.allowance = Allowance()
    free = desk.meter()
    limited.admit()
    await free.reserve(REQUEST)
    await free.settle(answered(USED))
    await free.close()
    with pytest.raises(DailyAllowanceUsedUp):
        limited.admit()


async def test_a_step_that_was_given_up_frees_what_it_reserved(desk: Desk) -> None:
    desk.allowance = Allowance(tokens=MOST + ANSWER_TOKENS)
    meter = desk.meter()
    for _ in range(3):
        await meter.reserve(REQUEST)
        await meter.give_up(None)
    assert desk.stored() == DayUsage()


async def test_what_a_dead_process_reserved_is_free_again_when_its_step_would_be_over(desk: Desk) -> None:
    desk.allowance = Allowance(tokens=MOST + ANSWER_TOKENS)
    await desk.meter().reserve(REQUEST)
    meter = desk.meter()
    with pytest.raises(DailyAllowanceUsedUp):
        await meter.reserve(REQUEST)
    desk.clock.time += 100 + EXPIRY_MARGIN_S
    await meter.reserve(REQUEST)


async def test_a_new_day_begins_in_the_callers_zone(desk: Desk) -> None:
    desk.allowance, desk.zone = Allowance(tokens=MOST + ANSWER_TOKENS), ZoneInfo("Asia/Tokyo")
    meter = desk.meter()
    await meter.reserve(REQUEST)
    desk.clock.time += 7 * 3600  # 08:00 in UTC at first, 17:00 in Tokyo
    await desk.meter().reserve(REQUEST)
    await meter.settle(answered(USED))
    assert desk.stored("2027-01-15").spent.total == 110, "counts on the day on which it began"
    assert len(desk.stored("2027-01-16").reserved) == 1


async def test_a_failing_store_refuses_a_step(desk: Desk) -> None:
    desk.allowance = Allowance(tokens=100_000)
    desk.store.failures = 3
    with pytest.raises(StorageUnavailable):
        await desk.meter().reserve(REQUEST)


@pytest.mark.parametrize("late", [False, True])
async def test_a_payment_whose_answer_did_not_come_is_made_once(desk: Desk, late: bool) -> None:
    desk.allowance = Allowance(tokens=100_000)
    meter, other = desk.meter(), desk.meter()
    await meter.reserve(REQUEST)
    desk.store.failures, desk.store.late = 3, late
    await meter.settle(answered(USED))
    await other.reserve(REQUEST)
    await meter.reserve(REQUEST)
    await meter.settle(answered(USED))
    await meter.close()
    assert desk.stored().spent.total == 220
    assert len(desk.stored().reserved) == 1


async def test_a_step_that_is_stopped_while_it_reserves_leaves_nothing_reserved(desk: Desk) -> None:
    desk.allowance = Allowance(tokens=100_000)
    meter, gate = desk.meter(), Gate()
    desk.store.gate = gate
    reserving = asyncio.create_task(meter.reserve(REQUEST))
    await gate.reached()
    reserving.cancel()
    gate.open()
    await asyncio.gather(reserving, return_exceptions=True)
    assert reserving.cancelled()
    await meter.give_up(None)
    assert desk.stored() == DayUsage()
