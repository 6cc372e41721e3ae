"""Turns side by side on one day's allowance."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from deckhand.agent.chat import Answer, StepRequest, Usage
from deckhand.domain.allowance import LONGEST_ANSWER, Allowance, Spent
from deckhand.domain.errors import DailyAllowanceUsedUp
from deckhand.domain.principal import Principal
from deckhand.storage.usage import UsageBook
from deckhand.turns.context import TurnContext
from deckhand.turns.metering import Metering
from tests.fakes import FakeQueue
from tests.stores import Shelf, new_token

RACERS = 16
DAY = "2027-01-15"
# Two tokens for [][]
STEP = LONGEST_ANSWER + 2
ROOM_FOR = 5

pytestmark = pytest.mark.parametrize("shelf", ["sqlite-file", "ministack"], indirect=True)


def metering(shelf: Shelf, allowance: Allowance) -> Metering:
    context = TurnContext.on(shelf.store, now=shelf.clock, new_id=new_token, jobs=FakeQueue())
    return Metering(context, allowance_of=lambda _: allowance)


def principal(shelf: Shelf) -> Principal:
    return Principal(kind="user", id="ann", user="ann", role="owner", tenant=shelf.pk)


def test_sixteen_turns_at_once_never_pass_the_allowance(shelf: Shelf) -> None:
    """All hold what they reserved until each has asked, then use it up. A sixth gets half an answer."""
    made = metering(shelf, Allowance(tokens=STEP * ROOM_FOR + STEP // 2))
    caller, gathered = principal(shelf), threading.Barrier(RACERS)

    async def turn() -> bool:
        meter = made.meter(caller)
        gathered.wait(timeout=30)
        try:
            longest = await meter.reserve(StepRequest(messages=[], tools=[]))
        except DailyAllowanceUsedUp:
            gathered.wait(timeout=30)
            return False
        gathered.wait(timeout=30)
        await meter.settle(Answer(usage=Usage(input_tokens=2, output_tokens=longest or 0)))
        await meter.close()
        return True

    with ThreadPoolExecutor(RACERS) as pool:
        ran = list(pool.map(lambda _: asyncio.run(turn()), range(RACERS)))
    stored = UsageBook(shelf.store, caller, now=shelf.clock, new_id=new_token).read(DAY)
    assert sum(ran) == ROOM_FOR + 1
    assert stored.spent.total == STEP * ROOM_FOR + STEP // 2
    assert stored.reserved == {}


def test_sixteen_turns_that_end_at_once_are_all_counted(shelf: Shelf) -> None:
    made, caller, gathered = metering(shelf, Allowance()), principal(shelf), threading.Barrier(RACERS)

    async def turn() -> None:
        meter = made.meter(caller)
        await meter.reserve(StepRequest(messages=[], tools=[]))
        await meter.settle(Answer(usage=Usage(input_tokens=10, output_tokens=1)))
        gathered.wait(timeout=30)
        await meter.close()

    with ThreadPoolExecutor(RACERS) as pool:
        list(pool.map(lambda _: asyncio.run(turn()), range(RACERS)))
    book = UsageBook(shelf.store, caller, now=shelf.clock, new_id=new_token)
    assert book.read(DAY).spent == Spent(input=10 * RACERS, output=RACERS, unpriced=True)
