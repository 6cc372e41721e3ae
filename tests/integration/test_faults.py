"""One call of the store fails, hangs, is applied without an answer, or is the last thing that its process does: the
conversation works on.
"""

import asyncio
from contextlib import suppress

import pytest

from deckhand.domain.errors import StorageUnavailable, TurnRunning
from deckhand.domain.turn import LEASE_S
from deckhand.storage.conversations import transcript_pk
from deckhand.storage.turns import Numbered
from deckhand.turns.idempotency import Claimed
from deckhand.turns.sweep import sweep
from tests.fakes import Gate, asks, call, says, until
from tests.faults import Killed, Kind, Point, Process, Running, Until, World
from tests.invariants import check_ended, check_invariants, log_ids

FIRST, SECOND = "Note it, please.", "And now?"
REPLIES = ["Let me see. ", "It is noted.", "Still here."]
WRITES: list[Point] = ["start", "flush", "exchange", "renew", "finish"]
READS: list[Point] = ["find", "look", "history"]
KINDS: list[Kind] = [
    "fail",
    "fail for a while",
    "late",
    "late for a while",
    "delay",
    "kill before",
    "kill after",
    "clock",
]


def logged(process: Process, text: str) -> Until:
    """Until the log has a token."""

    def is_there() -> bool:
        pk = transcript_pk(process.world.owner, process.world.conversation)
        batches = process.world.store.query("turns", pk, prefix="e#").items
        return any(f'"{text}"' in batch.body for batch in batches)

    return Until(process, is_there)


def worker(world: World) -> Process:
    """A process whose turn passes every point: it calls a tool that changes something, and lasts over a renewal."""
    process = world.process()
    process.tools.add("note", mutates=True)

    def later() -> None:
        world.clock.time += 11

    renewed = Until(process, lambda: process.store.passed["renew"] > 0)
    process.gateway.script(
        asks(call("note", {"text": "tea"}), text="Let me see. "),
        ["It is ", later, renewed, logged(process, "It is "), "noted.", *says("It is noted.")[1:]],
    )
    return process


async def outcome(process: Process) -> Running | None:
    """The turn as far as its process came; None when it could not start."""
    with suppress(StorageUnavailable, Killed):
        started = process.start(FIRST)
        assert isinstance(started, Running)
        with suppress(Killed):
            await started.run()
        await until(lambda: not process.store.busy)
        return started
    return None


async def accepted(world: World) -> list[str]:
    """The person's messages in the store: those of a start whose answer was lost may be there or not."""
    context = world.process().context
    header = context.conversations.find(world.owner, world.conversation).header
    return [m.content for m in context.conversations.messages(world.owner, header) if m.role == "user"]


async def end_by_lease(world: World) -> None:
    head = world.process().context.turns.head(world.owner, world.conversation)
    if head is not None and head.head.status is None:
        world.clock.time = max(world.clock.time, head.head.lease_until)


async def take_over(world: World) -> None:
    """The next turn, behind the lease of a process that still lives and may renew it while the clock moves."""
    successor = world.process(says("Still here."))
    while True:
        await end_by_lease(world)
        with suppress(TurnRunning):
            await successor.ask(SECOND)
            return


def check(world: World, asked: list[str]) -> None:
    check_ended(world.store, world.owner, world.conversation, now=world.clock())
    check_invariants(world.store, world.owner, world.conversation, now=world.clock(), asked=asked, replies=REPLIES)


@pytest.mark.parametrize(("point", "kind"), [(point, kind) for point in [*WRITES, "usage", *READS] for kind in KINDS])
async def test_a_conversation_works_on_after_any_fault(any_world: World, point: Point, kind: Kind) -> None:
    world = any_world
    process = worker(world)
    process.store.arm(point, kind)
    running = await outcome(process)
    assert process.store.struck, "the turn passes the point"
    killed = process.store.killed
    if running is not None and not killed:
        assert running.names[-1] == "done"
        if kind == "delay" or (kind in ("fail", "late") and point not in READS):
            assert running.names[-2] == "reply", "one hitch costs nobody an answer"
    asked = await accepted(world)
    assert asked in ([FIRST], [] if running is None else [FIRST])

    # Whoever watches is told how it ended, within the lease.
    await end_by_lease(world)
    told = await world.process().watch() if asked else []
    if told:
        ids = [numbered.id for numbered in told]
        assert ids == sorted(set(ids))
        assert told[-1].event.name == "done"
        if running is not None and not killed and told[-2].event.name != "error":
            assert told == running.told, "a replay is what the first watcher saw"
        if killed and told[-1].event.data["status"] == "failed":
            assert told[-2].event.data["code"] == "turn_lost"
            assert running is None or told[-2].id > max((n.id for n in running.told), default=0)

    # And the next turn runs.
    successor = world.process(says("Still here."))
    await successor.ask(SECOND)
    check(world, [*asked, SECOND])
    assert len(successor.gateway.requests) == 1


@pytest.mark.parametrize("point", WRITES)
async def test_a_ghost_that_wakes_up_after_the_take_over_writes_nothing(any_world: World, point: Point) -> None:
    world = any_world
    ghost, gate = worker(world), Gate()
    # Asleep with its write in hand, as a frozen Lambda environment is.
    ghost.store.arm(point, hook=gate.pass_in_thread)
    if point == "start":
        task = asyncio.create_task(asyncio.to_thread(ghost.start, FIRST))
        await gate.reached()
        await world.process(says("Still here.")).ask(SECOND)
        gate.open()
        started = await task
        assert isinstance(started, Running), "it finds the conversation free again, and starts behind the other"
        await started.run()
        check(world, [SECOND, FIRST])
        return
    started = ghost.start(FIRST)
    assert isinstance(started, Running)
    run = asyncio.create_task(started.run())
    await gate.reached()
    await take_over(world)
    before, ids = stored_texts(world), log_ids(world.store, world.owner, world.conversation)
    gate.open()
    await run
    assert started.names[-2:] == ["error", "done"]
    assert stored_texts(world) == before
    late = set(log_ids(world.store, world.owner, world.conversation)) - set(ids)
    # A batch that was under way lands among its own turn's events, which nobody reads any more.
    assert not late or max(late) < min(n.id for n in closing(world, started))
    check(world, [FIRST, SECOND])


def closing(world: World, running: Running) -> list[Numbered]:
    """The last words that whoever took over wrote for the lost turn."""
    turns = world.process().context.turns
    start = running.turn.head.head.first_event_id
    log = turns.events(world.owner, world.conversation, after=start - 1, start=start)
    at = next(n for n, numbered in enumerate(log) if numbered.event.name == "error")
    return log[at : at + 2]


def stored_texts(world: World) -> list[tuple[int, str]]:
    context = world.process().context
    header = context.conversations.find(world.owner, world.conversation).header
    return [(message.seq, message.content) for message in context.conversations.messages(world.owner, header)]


@pytest.mark.parametrize("kind", KINDS)
async def test_closing_a_lost_turn_may_fail_at_any_moment_too(any_world: World, kind: Kind) -> None:
    world = any_world
    lost = worker(world)
    lost.store.arm("finish", "kill before")
    await outcome(lost)
    await end_by_lease(world)
    closer = world.process(says("Still here."))
    closer.store.arm("close_lost", kind)
    with suppress(Killed, StorageUnavailable, TurnRunning):
        await closer.ask(SECOND)
    assert closer.store.struck
    asked = await accepted(world)
    if SECOND not in asked:
        await world.process(says("Still here.")).ask(SECOND)
    check(world, [FIRST, SECOND])
    assert "Let me see. " not in [text for _, text in stored_texts(world)]


@pytest.mark.parametrize("point", ["read", "look"])
@pytest.mark.parametrize("kind", ["fail", "delay"])
async def test_a_watcher_outlives_a_store_that_is_silent_for_a_moment(world: World, point: Point, kind: Kind) -> None:
    process, watcher, gate = world.process(), world.process(), Gate()
    process.gateway.script(["Still ", gate, *says("Still here.")])
    running = process.start(FIRST)
    assert isinstance(running, Running)
    run = asyncio.create_task(running.run())
    await gate.reached()
    watching = asyncio.create_task(watcher.watch())
    await until(lambda: watcher.store.passed["read"] > 1)
    watcher.store.arm(point, kind)
    await until(lambda: watcher.store.struck)
    gate.open()
    await run
    assert await watching == running.told


async def test_what_was_visible_of_a_lost_turn_is_kept_and_marked(any_world: World) -> None:
    world = any_world
    lost = world.process()
    lost.gateway.script(["It is ", logged(lost, "It is "), "noted.", *says("It is noted.")[1:]])
    lost.store.arm("finish", "kill before")
    await outcome(lost)
    await end_by_lease(world)
    await world.process().watch()
    context = world.process().context
    header = context.conversations.find(world.owner, world.conversation).header
    reply = context.conversations.messages(world.owner, header)[-1]
    assert (reply.role, reply.interrupted) == ("assistant", True)
    assert "It is noted.".startswith(reply.content)
    check(world, [FIRST])


async def test_the_sweep_closes_what_nobody_touches(any_world: World) -> None:
    world = any_world
    lost = worker(world)
    lost.store.arm("exchange", "kill after")
    await outcome(lost)
    context = world.process().context
    assert sweep(context, world.owner.tenant).closed == 0, "not before its lease is over"
    await end_by_lease(world)
    assert sweep(context, world.owner.tenant).closed == 1
    assert context.turns.running(world.owner.tenant) == []
    check(world, [FIRST])


async def test_one_conversation_that_cannot_be_swept_keeps_no_other_waiting(world: World) -> None:
    for _ in range(2):
        lost = world.process(["It is ", *says("It is noted.")])
        lost.store.arm("finish", "kill before")
        await outcome(lost)
        world.conversation += "x"
        world.create()
    world.clock.time += LEASE_S
    sweeper = world.process()
    sweeper.store.arm("close_lost", "fail for a while")
    swept = [sweep(sweeper.context, tenant).closed for tenant in (world.conversation[:-2], world.conversation[:-1])]
    assert sorted(swept) == [0, 1]


async def test_a_lost_turn_leaves_a_transcript_that_replaced_its_own_alone(world: World) -> None:
    lost = world.process()
    lost.gateway.script(["It is ", logged(lost, "It is "), *says("It is noted.")])
    lost.store.arm("finish", "kill before")
    await outcome(lost)
    await end_by_lease(world)
    context = world.process().context
    stored = context.conversations.find(world.owner, world.conversation)
    other = stored.header.model_copy(update={"generation": "g2", "next_seq": 1, "message_count": 0})
    context.conversations.replace(world.owner, other, [], after=stored, token=world.new_id())
    told = await world.process().watch()
    assert told[-2].event.data["code"] == "turn_lost"
    assert stored_texts(world) == []


async def test_a_start_whose_answer_was_lost_for_good_is_found_by_its_key(world: World) -> None:
    from deckhand.turns.idempotency import claim

    process = world.process()
    key = claim(world.person, "k", b"body")
    process.store.arm("start", "late")
    started = process.start(FIRST, claim=key)
    assert isinstance(started, Running), "its own write is found on the second try"
    again = world.process().start(FIRST, claim=key)
    assert isinstance(again, Claimed)
    assert again.turn_id == started.turn.id
