"""Each call of the model is reserved for, and settled or given up, whatever becomes of it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

import pytest

from deckhand.agent.chat import Answer, DeadlineReached, StepIdle, StepRequest, TextDelta, Usage
from deckhand.agent.meter import MeteredGateway
from deckhand.domain.errors import (
    AgentSwitchedOff,
    AllowanceUsedUp,
    ContextFull,
    DeckhandError,
    GatewayFailed,
    GatewayTimeout,
    NotAllowed,
    StorageUnavailable,
)
from tests.fakes import FakeGateway, Gate, Hang, Script, says

REQUEST = StepRequest(messages=[{"role": "user", "content": "hi"}], tools=[])
USED = Usage(input_tokens=7, output_tokens=2)
PRICED = replace(USED, cached_tokens=1)


@dataclass
class FakeMeter:
    """Notes what it is told; answers with a usage of its own."""

    refusal: Exception | None = None
    told: list[object] = field(default_factory=list)
    longest: int | None = None

    async def reserve(self, request: StepRequest) -> int | None:
        self.told.append("reserve")
        if self.refusal is not None:
            raise self.refusal
        return self.longest

    async def settle(self, answer: Answer) -> Usage | None:
        self.told.append(answer.usage)
        return PRICED

    async def give_up(self, shown: str | None) -> None:
        self.told.append(("given up", shown))


def opened(meter: FakeMeter, *script: Script) -> AsyncGenerator[TextDelta | Answer, None]:
    return MeteredGateway(FakeGateway(*script), meter).stream(REQUEST)


async def read(meter: FakeMeter, *script: Script) -> list[TextDelta | Answer]:
    return [item async for item in opened(meter, *script)]


async def test_a_call_is_reserved_for_and_settled_by_its_answer() -> None:
    meter = FakeMeter()
    *texts, answer = await read(meter, says("a", "b", usage=USED))
    assert meter.told == ["reserve", USED]
    assert texts == [TextDelta("a"), TextDelta("b")]
    assert isinstance(answer, Answer)
    assert (answer.text, answer.usage) == ("ab", PRICED)


@pytest.mark.parametrize("longest", [None, 5_000])
async def test_the_model_is_told_how_long_an_answer_was_reserved_for(longest: int | None) -> None:
    gateway = FakeGateway(says("a"))
    metered = MeteredGateway(gateway, FakeMeter(longest=longest))
    assert [item async for item in metered.stream(REQUEST)]
    assert [request.max_output for request in gateway.requests] == [longest]


async def test_without_a_reservation_the_model_is_not_asked() -> None:
    gateway, meter = FakeGateway(), FakeMeter(refusal=AllowanceUsedUp())
    with pytest.raises(AllowanceUsedUp):
        await anext(MeteredGateway(gateway, meter).stream(REQUEST))
    assert gateway.requests == []
    assert meter.told == ["reserve", ("given up", None)]


async def test_a_store_that_fails_stops_the_call() -> None:
    with pytest.raises(StorageUnavailable):
        await read(FakeMeter(refusal=StorageUnavailable()))


@pytest.mark.parametrize(
    "error", [GatewayFailed(), ContextFull(), AllowanceUsedUp(), AgentSwitchedOff(), NotAllowed(), StorageUnavailable()]
)
async def test_a_call_that_was_refused_used_nothing(error: DeckhandError) -> None:
    meter = FakeMeter()
    with pytest.raises(type(error)):
        await read(meter, [error])
    assert meter.told == ["reserve", ("given up", None)]


@pytest.mark.parametrize("error", [StepIdle(), DeadlineReached(), GatewayTimeout()])
async def test_a_call_that_took_too_long_used_its_prompt(error: DeckhandError) -> None:
    meter = FakeMeter()
    with pytest.raises(type(error)):
        await read(meter, [error])
    assert meter.told == ["reserve", ("given up", "")]


async def test_a_call_that_broke_off_used_what_it_showed() -> None:
    meter = FakeMeter()
    with pytest.raises(GatewayFailed):
        await read(meter, ["half an ", "answer", GatewayFailed()])
    assert meter.told == ["reserve", ("given up", "half an answer")]


async def test_a_call_that_is_stopped_used_what_it_showed() -> None:
    meter = FakeMeter()
    async with aclosing(opened(meter, ["some text", Hang()])) as items:
        await anext(items)
    assert meter.told == ["reserve", ("given up", "some text")]


async def test_a_call_that_is_cancelled_before_any_text_used_its_prompt() -> None:
    meter, gate = FakeMeter(), Gate()
    asking = asyncio.create_task(read(meter, [gate]))
    await gate.reached()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert meter.told == ["reserve", ("given up", "")]
