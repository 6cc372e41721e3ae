"""Allowances when processes die and stores fail: nothing is held for ever, and no answer is lost for a count."""

import asyncio

import pytest

from deckhand.agent.chat import Usage
from deckhand.domain.allowance import Allowance, DayUsage, day_of
from deckhand.domain.times import zone
from deckhand.storage.usage import UsageBook
from deckhand.turns.stop import stop_turn
from tests.fakes import Gate, says
from tests.faults import Kind, Process, Running, Until, World
from tests.stores import new_token

USED = Usage(input_tokens=900, output_tokens=100)
STEP_MAY_TAKE_S = 540 + 60
PLENTY = Allowance(tokens=1_000_000)


def stored(world: World) -> DayUsage:
    book = UsageBook(world.store, world.person, now=world.clock, new_id=new_token)
    return book.read(day_of(world.clock(), zone("UTC")))


def start(process: Process, text: str = "Hello") -> Running:
    running = process.start(text)
    assert isinstance(running, Running)
    return running


async def test_a_killed_process_holds_its_share_no_longer_than_its_step_may_take(any_world: World) -> None:
    world = any_world
    world.allowance = PLENTY
    victim = world.process()
    victim.store.arm("flush", "kill after")
    victim.gateway.script(["a", Until(victim, lambda: False), *says("never")])
    running = start(victim)
    await asyncio.gather(running.run(), return_exceptions=True)
    assert victim.store.killed
    (held,) = stored(world).reserved.values()

    # Room for one step, not for two.
    world.allowance = Allowance(tokens=held.tokens + 4_096)
    world.clock.time += 60
    refused = await world.process().ask("And now?")
    assert (refused.told[-2].event.data["code"], refused.names[-1]) == ("allowance_used_up", "done")

    world.clock.time += STEP_MAY_TAKE_S
    answered = await world.process(says("Here I am.", usage=USED)).ask("And now?")
    assert answered.names[-2:] == ["reply", "done"]
    assert (stored(world).spent.total, stored(world).reserved) == (1_000, {})


KINDS: list[Kind] = ["fail", "late", "late for a while"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_count_that_is_hard_to_write_costs_no_answer_and_is_made_once(any_world: World, kind: Kind) -> None:
    world = any_world
    world.allowance = PLENTY
    process = world.process(says("One.", usage=USED))
    process.store.arm("usage", kind, skip=1)
    running = await process.ask("Hello")
    assert process.store.struck
    assert running.names[-2:] == ["reply", "done"]
    assert (stored(world).spent.total, stored(world).reserved) == (1_000, {})


async def test_a_store_that_cannot_reserve_ends_the_turn_before_the_model_is_asked(world: World) -> None:
    world.allowance = PLENTY
    process = world.process()
    process.store.arm("usage", "fail for a while")
    running = await process.ask("Hello")
    assert running.told[-2].event.data["code"] == "storage_failed"
    assert process.gateway.requests == []


async def test_a_turn_that_is_stopped_counts_what_it_showed_and_holds_nothing(world: World) -> None:
    world.allowance = PLENTY
    process, gate = world.process(), Gate()
    process.gateway.script(["some text", gate, *says("never")])
    running = start(process)
    run = asyncio.create_task(running.run())
    await gate.reached()
    stop_turn(world.process().context, world.owner, world.conversation, None)
    await run
    assert running.names[-2:] == ["stopped", "done"]
    usage = stored(world)
    assert (usage.spent.estimated, usage.spent.output, usage.reserved) == (True, 3, {})
