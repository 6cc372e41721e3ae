"""Many want one conversation at the same moment."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import pytest

from deckhand.domain.conversation import MAX_QUEUED, Header
from deckhand.domain.errors import (
    DeckhandError,
    GatewayFailed,
    IdempotencyMismatch,
    NoTurnRunning,
    StorageUnavailable,
    TurnRunning,
)
from deckhand.domain.principal import Principal
from deckhand.turns.chat import TurnWish
from deckhand.turns.idempotency import KEY_LIFE_S, Claim, Claimed, claim
from deckhand.turns.replay import attach
from deckhand.turns.start import NewTurn
from deckhand.turns.stop import stop_turn
from deckhand.turns.sweep import sweep
from tests.fakes import Gate, says, until
from tests.faults import Killed, Process, Running, World
from tests.invariants import check_invariants

Result = TypeVar("Result")


def at_once(calls: list[Callable[[], Result]]) -> list[Result | DeckhandError]:
    """What each call gave or raised, all let go together."""
    barrier = threading.Barrier(len(calls))
    results: list[Result | DeckhandError] = []

    def one(call: Callable[[], Result]) -> None:
        barrier.wait()
        try:
            results.append(call())
        except DeckhandError as error:
            results.append(error)

    threads = [threading.Thread(target=one, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def started(process: Process, *texts: str) -> Running:
    running = process.start(*texts)
    assert isinstance(running, Running)
    return running


def check(world: World, asked: list[str], replies: list[str]) -> None:
    check_invariants(world.store, world.owner, world.conversation, now=world.clock(), asked=asked, replies=replies)


def texts(world: World) -> list[str]:
    context = world.process().context
    header = context.conversations.find(world.owner, world.conversation).header
    return [message.content for message in context.conversations.messages(world.owner, header)]


async def test_of_sixteen_starters_one_runs_and_fifteen_leave_no_trace(any_world: World) -> None:
    world = any_world
    processes = [world.process() for _ in range(16)]
    results = at_once([lambda n=n, p=p: p.start(f"from {n}") for n, p in enumerate(processes)])  # type: ignore[misc]
    winners = [result for result in results if isinstance(result, Running)]
    refusals = [result for result in results if isinstance(result, TurnRunning)]
    assert (len(winners), len(refusals)) == (1, 15)
    assert {refusal.details["turnId"] for refusal in refusals} == {winners[0].turn.id}
    assert len(texts(world)) == 1
    for process in processes:
        process.gateway.script(says("Yours."))
    await winners[0].run()
    check(world, texts(world)[:1], ["Yours."])


async def test_ten_requests_with_one_key_make_one_turn(any_world: World) -> None:
    world = any_world
    processes = [world.process(says("Once.")) for _ in range(10)]
    key = claim(world.person, "k-1", b"body")
    results = at_once([lambda p=p: p.start("Do it.", claim=key) for p in processes])  # type: ignore[misc]
    winners = [result for result in results if isinstance(result, Running)]
    joined = [result for result in results if isinstance(result, Claimed)]
    assert (len(winners), len(joined)) == (1, 9)
    assert {one.turn_id for one in joined} == {winners[0].turn.id}
    await winners[0].run()
    check(world, ["Do it."], ["Once."])


def test_a_key_with_another_body_is_refused_and_another_persons_key_is_not_met(world: World) -> None:
    world.process().start("Do it.", claim=claim(world.person, "k", b"body"))
    with pytest.raises(IdempotencyMismatch):
        world.process().start("Do that.", claim=claim(world.person, "k", b"other"))
    assert texts(world) == ["Do it."]


async def test_a_key_is_kept_for_24_hours(world: World) -> None:
    key = claim(world.person, "k", b"body")
    running = world.process(says("One.")).start("Do it.", claim=key)
    assert isinstance(running, Running)
    await running.run()
    world.clock.time += KEY_LIFE_S - 1
    assert isinstance(world.process().start("Do it.", claim=key), Claimed)
    world.clock.time += 1
    assert isinstance(world.process().start("Do it.", claim=key), Running)


async def test_a_key_that_queued_a_message_queues_it_once(world: World) -> None:
    process, gate = world.process(), Gate()
    process.gateway.script([gate, *says("One.")])
    run = asyncio.create_task(started(process, "First.").run())
    await gate.reached()
    key = claim(world.person, "k", b"body")
    results = at_once([lambda: world.process().start("Second.", on_busy="enqueue", claim=key)] * 4)
    assert len({result.message_id for result in results if isinstance(result, Claimed)}) == 1
    gate.open()
    await run
    check(world, ["First.", "Second."], ["One."])


# -- a queue


async def test_messages_that_queued_are_answered_together_in_order(any_world: World) -> None:
    world = any_world
    process, gate = world.process(), Gate()
    process.gateway.script([gate, *says("One.")])
    run = asyncio.create_task(started(process, "First.").run())
    await gate.reached()
    for text in ("Second.", "Third."):
        assert isinstance(world.process().start(text, on_busy="enqueue"), Claimed)
    gate.open()
    await run
    assert [job.kind for job in world.jobs.jobs if job.kind == "queued_turn"] == ["queued_turn"]
    answering = world.process(says("Both."))
    assert await answering.chats.run_queued(world.owner, world.conversation, time_left=None)
    assert answering.gateway.messages()[-1]["content"] == "Second.\n\nThird."
    assert texts(world) == ["First.", "One.", "Second.", "Third.", "Both."]
    check(world, ["First.", "Second.", "Third."], ["One.", "Both."])


async def test_a_queue_whose_turn_was_lost_is_woken_by_the_sweep(any_world: World) -> None:
    world = any_world
    lost = world.process(says("One."))
    started(lost, "First.")
    world.process().start("Second.", on_busy="enqueue")
    world.clock.time += 31
    context = world.process().context
    assert sweep(context, world.owner.tenant).woken == 1
    answering = world.process(says("Both."))
    assert await answering.chats.run_queued(world.owner, world.conversation, time_left=None)
    check(world, ["First.", "Second."], ["Both."])
    assert sweep(context, world.owner.tenant).woken == 0


async def test_a_queue_that_nobody_woke_is_woken_by_the_sweep(world: World) -> None:
    process, gate = world.process(), Gate()
    process.gateway.script([gate, *says("One.")])
    run = asyncio.create_task(started(process, "First.").run())
    await gate.reached()
    world.process().start("Second.", on_busy="enqueue")
    world.jobs.failure = StorageUnavailable()
    gate.open()
    await run
    world.jobs.failure = None
    assert sweep(world.process().context, world.owner.tenant).woken == 1


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_message_that_queues_at_the_moment_of_the_finish_is_not_overlooked(
    any_world: World, moment: str
) -> None:
    await _check_that_it_is_answered(any_world, moment, reply="One.")


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_nor_is_one_when_the_turn_finishes_without_a_reply(world: World, moment: str) -> None:
    """The finish writes no message then, and the header does not move."""
    await _check_that_it_is_answered(world, moment, reply=None)


async def _check_that_it_is_answered(world: World, moment: str, *, reply: str | None) -> None:
    process = world.process([GatewayFailed()] if reply is None else says(reply))
    other = world.process(says("Two."))
    queued: list[Running | Claimed] = []

    def enqueue() -> None:
        queued.append(other.start("Second.", on_busy="enqueue"))

    running = started(process, "First.")
    if moment == "before":
        # The finish has read that nothing waits, and is about to be written.
        process.store.arm("finish", hook=enqueue)
        await running.run()
        assert isinstance(queued[0], Claimed)
        assert world.jobs.jobs[0].kind == "queued_turn"
        assert await other.chats.run_queued(world.owner, world.conversation, time_left=None)
    else:
        # The message has seen the turn running, and is about to be written.
        gate = Gate()
        other.store.arm("enqueue", hook=gate.pass_in_thread)
        waiting = asyncio.create_task(asyncio.to_thread(enqueue))
        await gate.reached()
        await running.run()
        gate.open()
        await waiting
        assert isinstance(queued[0], Running), "it starts a turn itself"
        await queued[0].run()
    assert texts(world) == ["First.", *([reply] if reply else []), "Second.", "Two."]
    check(world, ["First.", "Second."], ["One.", "Two."])


async def test_a_key_that_comes_to_two_conversations_at_once_starts_a_turn_in_one(world: World) -> None:
    def key(body: bytes) -> Claim:
        return claim(world.person, "k", body)

    process, first, second = world.process(), world.conversation, "c2"
    header = Header(id=second, created_at="2027-01-15T08:00:00Z", updated_at="2027-01-15T08:00:00Z")
    process.context.conversations.create(world.owner, header, [], token=world.new_id())

    def in_the_second() -> None:
        new = NewTurn(world.person, second, ["Hi."], claim=key(b"second"))
        assert isinstance(world.process().chats.start(new, TurnWish(messages=[])), tuple)

    process.store.arm("start", hook=in_the_second)
    with pytest.raises(IdempotencyMismatch):
        process.start("Hi.", claim=key(b"first"))
    assert texts(world) == []
    assert process.context.turns.head(world.owner, first) is None


def stops(world: World) -> None:
    with pytest.raises(NoTurnRunning):
        stop_turn(world.process().context, world.owner, world.conversation)


def watches(world: World) -> None:
    assert attach(world.process().context, world.person, world.conversation, 0) is not None


@pytest.mark.parametrize("touches", [stops, watches])
async def test_whoever_touches_a_conversation_whose_turn_was_lost_wakes_its_queue(
    world: World, touches: Callable[[World], None]
) -> None:
    started(world.process(), "First.")
    world.process().start("Second.", on_busy="enqueue")
    world.clock.time += 31
    touches(world)
    assert [job.kind for job in world.jobs.jobs] == ["queued_turn"]


async def test_a_queue_is_found_though_whoever_closed_the_lost_turn_before_it_died_on_the_way(world: World) -> None:
    started(world.process(), "First.")
    world.process().start("Second.", on_busy="enqueue")
    world.clock.time += 31
    closing = world.process()
    closing.store.arm("close_lost", "kill after")
    with pytest.raises(Killed):
        sweep(closing.context, world.owner.tenant)
    assert sweep(world.process().context, world.owner.tenant).woken == 1


async def test_nobodys_message_is_answered_with_anothers_rights(world: World) -> None:
    """A token's message waits, and its person writes themselves."""
    token = Principal(kind="token", id="t1", user="ann", role="viewer", tenant=world.owner.tenant)
    process = world.process(says("One."))
    running = started(process, "First.")
    world.process().start("Second.", on_busy="enqueue", principal=token)
    await running.run()
    own = world.process(says("Three."))
    await own.ask("Third.")
    assert "Second." not in str(own.gateway.messages(0))
    answering = world.process(says("Two."))
    assert await answering.chats.run_queued(world.owner, world.conversation, time_left=None)
    head = answering.context.turns.head(world.owner, world.conversation)
    assert head is not None
    assert head.head.principal == token.name
    assert texts(world) == ["First.", "One.", "Third.", "Three.", "Second.", "Two."]
    check(world, ["First.", "Second.", "Third."], ["One.", "Two.", "Three."])


async def test_a_queue_that_was_answered_while_it_was_looked_at_starts_nothing(world: World) -> None:
    lost = world.process()
    started(lost, "First.")
    world.process().start("Second.", on_busy="enqueue")
    world.clock.time += 31
    slow, quick, gate = world.process(says("Never.")), world.process(says("Both.")), Gate()
    slow.store.arm("look", hook=gate.pass_in_thread)
    running = asyncio.create_task(slow.chats.run_queued(world.owner, world.conversation, time_left=None))
    await gate.reached()
    assert await quick.chats.run_queued(world.owner, world.conversation, time_left=None)
    gate.open()
    assert await running is False
    check(world, ["First.", "Second."], ["Both."])


async def test_a_message_that_was_seen_waiting_before_its_header_was_is_no_fault(world: World) -> None:
    process, gate = world.process(), Gate()
    process.gateway.script([gate, *says("One.")])
    run = asyncio.create_task(started(process, "First.").run())
    await gate.reached()
    late = world.process(says("Two."))

    def enqueue() -> None:
        world.process().start("Second.", on_busy="enqueue")

    late.store.arm("queue", hook=enqueue)
    with pytest.raises(TurnRunning):
        await late.chats.run_queued(world.owner, world.conversation, time_left=None)
    gate.open()
    await run
    check(world, ["First.", "Second."], ["One."])


def test_a_full_queue_refuses(world: World) -> None:
    started(world.process(), "First.")
    for n in range(MAX_QUEUED):
        world.process().start(f"m{n}", on_busy="enqueue")
    with pytest.raises(TurnRunning, match="Too many"):
        world.process().start("one more", on_busy="enqueue")


async def test_a_queue_takes_no_more_than_one_transaction_can_take_over(any_world: World) -> None:
    world = any_world
    started(world.process(), "First.")
    large, taken = "x" * 250_000, 0
    with suppress(TurnRunning):
        while taken < MAX_QUEUED:
            world.process().start(large, on_busy="enqueue")
            taken += 1
    assert 2 <= taken < MAX_QUEUED
    world.clock.time += 31
    await world.process(says("All.")).ask(large)
    assert len(texts(world)) == 1 + taken + 2


async def test_two_hundred_messages_at_once_are_one_turn(any_world: World) -> None:
    world = any_world
    process = world.process(says("All."))
    await process.ask(*(f"m{n}" for n in range(200)))
    assert process.gateway.messages()[-1]["content"] == "\n\n".join(f"m{n}" for n in range(200))


# -- interrupting


async def test_an_interruption_stops_the_turn_and_runs_behind_it(any_world: World) -> None:
    world = any_world
    process, gate = world.process(), Gate()
    process.gateway.script(["Half ", gate, *says("Half an answer.")[1:]])
    running = started(process, "First.")
    run = asyncio.create_task(running.run())
    await gate.reached()
    other = world.process(says("Two."))
    interrupting = await asyncio.to_thread(other.start, "Second.", on_busy="interrupt")
    assert isinstance(interrupting, Running)
    await run
    await interrupting.run()
    assert running.names[-2:] == ["stopped", "done"]
    assert texts(world) == ["First.", "Half ", "Second.", "Two."]
    check(world, ["First.", "Second."], ["Half an answer.", "Two."])


async def test_a_lost_turn_does_not_hold_up_an_interruption_beyond_its_lease(world: World) -> None:
    started(world.process(), "First.")
    other = world.process(says("Two."))
    other.store.arm("look", hook=lambda: setattr(world.clock, "time", world.clock.time + 31), skip=3)
    interrupting = await asyncio.to_thread(other.start, "Second.", on_busy="interrupt")
    assert isinstance(interrupting, Running)
    await interrupting.run()
    check(world, ["First.", "Second."], ["Two."])


# -- stopping


async def test_a_stop_names_a_turn_and_never_hits_the_next(world: World) -> None:
    first = await world.process(says("One.")).ask("First.")
    process, gate = world.process(), Gate()
    process.gateway.script([gate, *says("Two.")])
    second = started(process, "Second.")
    run = asyncio.create_task(second.run())
    await gate.reached()
    with pytest.raises(NoTurnRunning):
        stop_turn(world.process().context, world.owner, world.conversation, first.turn.id)
    gate.open()
    await run
    assert second.names[-2:] == ["reply", "done"]


@pytest.mark.parametrize("winner", ["stop", "finish"])
async def test_of_a_stop_and_a_finish_one_wins_and_both_are_told(any_world: World, winner: str) -> None:
    world = any_world
    process, stopper = world.process(says("One ", "two.")), world.process()
    running = started(process, "First.")
    told: list[str] = []

    def stop() -> None:
        try:
            told.append(stop_turn(stopper.context, world.owner, world.conversation))
        except NoTurnRunning:
            told.append("none")

    if winner == "stop":
        process.store.arm("finish", hook=stop)
        await running.run()
        assert told == [running.turn.id]
        assert running.names[-2:] == ["stopped", "done"]
    else:
        gate = Gate()
        stopper.store.arm("stop", hook=gate.pass_in_thread)
        stopping = asyncio.create_task(asyncio.to_thread(stop))
        await gate.reached()
        if not process.gateway.requests:
            await running.run()
        gate.open()
        await stopping
        assert told == ["none"]
        assert running.names[-2:] == ["reply", "done"]
    context = world.process().context
    header = context.conversations.find(world.owner, world.conversation).header
    reply = context.conversations.messages(world.owner, header)[-1]
    assert (reply.content, reply.stopped) == ("One two.", True if winner == "stop" else None)
    assert await world.process().watch() == running.told


async def test_sixteen_stops_and_a_finish_leave_one_ending(any_world: World) -> None:
    world = any_world
    process, gate = world.process(), Gate()
    process.gateway.script(["One ", gate, "two.", *says("One two.")[1:]])
    running = started(process, "First.")
    run = asyncio.create_task(running.run())
    await gate.reached()
    gate.open()
    context = world.process().context
    stops = [lambda: stop_turn(context, world.owner, world.conversation)] * 8
    results = await asyncio.to_thread(at_once, stops)
    await run
    stopped = any(isinstance(result, str) for result in results)
    assert all(isinstance(result, NoTurnRunning) or result == running.turn.id for result in results)
    assert running.names[-2] == ("stopped" if stopped else "reply")
    await until(lambda: not process.store.busy)
    check(world, ["First."], ["One two."])


async def test_a_watcher_that_sees_a_turn_lost_wakes_the_queue_behind_it(world: World) -> None:
    started(world.process(), "First.")
    world.process().start("Second.", on_busy="enqueue")
    watcher = world.process()
    watching = asyncio.create_task(watcher.watch())
    await until(lambda: watcher.store.passed["read"] > 1)
    world.clock.time += 31
    assert [numbered.event.name for numbered in await watching] == ["error", "done"]
    assert [job.kind for job in world.jobs.jobs] == ["queued_turn"]
