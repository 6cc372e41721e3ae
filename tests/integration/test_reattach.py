"""A stream that is cut anywhere, any number of times, and goes on by the last id is the stream that was never cut."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from deckhand.domain.events import Event
from deckhand.domain.turn import LEASE_S, LINGER_S, MAX_EVENTS, RENEW_S
from deckhand.storage.sqlite import SqliteStore
from deckhand.storage.turns import Numbered
from deckhand.turns.replay import attach, replay
from tests.fakes import Gate, Script, ScriptItem, asks, call, says, until
from tests.faults import Process, Running, Until, World
from tests.stores import Clock

PARTS = MAX_EVENTS // 1_000 + 2

pieces = st.lists(st.text(alphabet="ab \n\r\u2028é", min_size=1, max_size=5), min_size=1, max_size=6)


def scripts(answers: Sequence[list[str]]) -> list[Script]:
    """Steps with text and a tool call each, and a last answer."""
    *steps, last = answers
    calls = [asks(call("look", id=f"c{n}"), text="".join(step)) for n, step in enumerate(steps)]
    return [*calls, says(*last)]


async def followed(world: World, cuts: Sequence[int]) -> list[Numbered]:
    """A client that loses its connection after so many events, again and again, then stays to the end."""
    process, told = world.process(), list[Numbered]()
    for cut in [*cuts, None]:
        attachment = attach(process.context, world.person, world.conversation, told[-1].id if told else 0)
        if attachment is None:
            break
        left = cut
        async with aclosing(replay(process.context, attachment)) as events:  # type: ignore[type-var]
            async for numbered in events:
                told.append(numbered)
                if left == 0:
                    break
                left = None if left is None else left - 1
    return told


@settings(max_examples=30)
@given(
    answers=st.lists(pieces, min_size=1, max_size=3),
    first=st.lists(st.integers(0, 6), max_size=6),
    second=st.lists(st.integers(0, 6), max_size=6),
)
def test_joined_pieces_of_a_live_stream_equal_the_uncut_log(
    answers: list[list[str]], first: list[int], second: list[int]
) -> None:
    async def run(world: World) -> None:
        process = world.process(*scripts(answers))
        process.tools.add("look")
        running = started(process)
        watching = [asyncio.create_task(followed(world, cuts)) for cuts in (first, second)]
        await running.run()
        told = [await one for one in watching]
        assert told == [running.told, running.told]
        assert (await followed(world, first)) == running.told, "also when it is over"

    in_memory(run)


def in_memory(run: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    clock = Clock()
    with TemporaryDirectory() as folder, closing(SqliteStore(":memory:", now=clock)) as store:
        world = World(store, clock, Path(folder))
        world.create()
        asyncio.run(run(world))


def started(process: Process) -> Running:
    running = process.start("Hello?")
    assert isinstance(running, Running)
    return running


async def test_an_id_of_an_older_turn_begins_at_this_turns_start(world: World) -> None:
    first = await world.process(says("One.")).ask("Hello?")
    second = await world.process(says("Two.")).ask("And?")
    assert await world.process().watch(after=first.told[2].id) == second.told
    assert min(n.id for n in second.told) > max(n.id for n in first.told)


async def test_ids_go_on_in_another_process_and_name_the_same_events(world: World) -> None:
    running = await world.process(says("One ", "two.")).ask("Hello?")
    for after in range(len(running.told)):
        assert await world.process().watch(running.told[after].id) == running.told[after + 1 :]


async def test_an_event_that_is_written_between_two_reads_reaches_the_watcher_once(world: World) -> None:
    process, watcher, gate = world.process(), world.process(), Gate()
    process.gateway.script(["One ", gate, *says("One two.")])
    running = started(process)
    run = asyncio.create_task(running.run())
    await gate.reached()
    await until(lambda: process.store.passed["flush"] > 0)

    def finish_now() -> None:
        gate.open()
        while not process.store.passed["finish"] or process.store.busy:
            time.sleep(0.001)

    # The watcher has read what there is and is about to ask whether the turn has ended.
    watcher.store.arm("look", hook=finish_now, skip=1)
    told = await watcher.watch()
    await run
    assert watcher.store.struck
    assert told == running.told


async def test_a_cursor_ahead_of_the_log_waits_for_it(world: World) -> None:
    process, gate = world.process(), Gate()
    process.gateway.script([gate, *says("One.")])
    running = started(process)
    run = asyncio.create_task(running.run())
    await gate.reached()
    # The first watcher saw an id that is not written yet, and reattaches through another process.
    ahead = running.told[-1].id + 1
    watching = asyncio.create_task(world.process().watch(after=ahead))
    gate.open()
    await run
    assert await watching == [n for n in running.told if n.id > ahead]


def long_winded(world: World) -> Process:
    """A process whose turn tells more than the log keeps, in several batches."""
    process, script = world.process(), list[ScriptItem]()
    for part in range(PARTS):
        script += [*("x" * 1_000), Until(process, lambda part=part: process.store.passed["flush"] > 2 * part + 1)]  # type: ignore[misc]
    process.gateway.script([*script, *says("x")])
    return process


async def test_a_log_that_lost_its_head_is_announced_by_a_reset(world: World) -> None:
    process = long_winded(world)
    running = started(process)
    await running.run()
    told = await world.process().watch()
    assert told[0].event == Event("reset")
    assert told[1:] == running.told[-len(told[1:]) :]
    assert MAX_EVENTS <= len(told[1:]) < len(running.told)


async def test_a_store_that_fails_while_the_head_is_dropped_costs_no_answer(world: World) -> None:
    process = long_winded(world)
    process.store.arm("clean", "fail")
    running = started(process)
    await running.run()
    assert process.store.struck
    assert running.names[-2:] == ["reply", "done"]


async def test_an_ended_turn_stays_readable_for_thirty_seconds(world: World) -> None:
    running = await world.process(says("One.")).ask("Hello?")
    world.clock.time += LINGER_S
    assert await world.process().watch() == running.told
    assert await world.process().watch(after=running.told[-1].id) == []
    world.clock.time += 0.1
    assert await world.process().watch() == []


# -- a turn that a newer one has followed


async def lost_and_followed(world: World) -> tuple[list[Numbered], Running]:
    """What a watcher saw of a turn whose process died, and the turn that took the conversation over."""
    process, gate = world.process(), Gate()
    process.gateway.script(["One ", "two ", gate, *says("three.")])
    running = started(process)
    run = asyncio.create_task(running.run())
    await gate.reached()
    await until(lambda: process.store.passed["flush"] > 1 and not process.store.busy)
    process.store.killed = True
    seen = list(running.told)
    gate.open()
    await asyncio.gather(run, return_exceptions=True)
    world.clock.time += LEASE_S + 1
    newer = await world.process(says("Four.")).ask("Again.")
    return seen, newer


async def test_the_watcher_of_a_lost_turn_hears_of_its_end_though_a_newer_one_has_begun(world: World) -> None:
    seen, newer = await lost_and_followed(world)
    told = await world.process().watch(after=seen[-1].id)
    assert [n.event.name for n in told] == ["error", "done"]
    assert told[0].event.data["code"] == "turn_lost"
    assert told[0].id > seen[-1].id
    assert await world.process().watch(after=told[-1].id) == newer.told


async def test_a_watcher_without_a_cursor_gets_the_newer_turn(world: World) -> None:
    _, newer = await lost_and_followed(world)
    assert await world.process().watch() == newer.told


async def test_a_watcher_that_comes_late_gets_the_newer_turn(world: World) -> None:
    seen, _ = await lost_and_followed(world)
    process, gate = world.process(), Gate()
    process.gateway.script([gate, *says("Five.")])
    running = started(process)
    run = asyncio.create_task(running.run())
    await gate.reached()
    for renewed in range(1, 3):
        world.clock.time += RENEW_S + 0.5
        await until(lambda count=renewed: process.store.passed["renew"] >= count)  # type: ignore[misc]
    world.clock.time += LINGER_S - 2 * RENEW_S
    watching = asyncio.create_task(world.process().watch(after=seen[-1].id))
    gate.open()
    await run
    assert await watching == running.told
