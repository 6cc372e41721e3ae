"""Deleting, replacing and making room, while turns run and processes die."""

import asyncio
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from deckhand.domain.conversation import MAX_CONVERSATIONS, ConversationSummary
from deckhand.domain.errors import NotFound, TurnRunning, UnknownConversation
from deckhand.operations.caller import Caller
from deckhand.operations.conversations import (
    ConversationId,
    GivenMessage,
    NewConversation,
    Nothing,
    Transcript,
    create_conversation,
    delete_conversation,
    list_conversations,
    replace_messages,
)
from deckhand.operations.history import Messages, replace_history
from deckhand.storage.reports import FolderReports
from deckhand.turns.sweep import sweep
from tests.fakes import Gate, asks, call, says, until
from tests.faults import FaultyStore, Killed, Process, Running, World
from tests.integration.test_contention import at_once
from tests.policies import SHIPPED


def caller(world: World, store: FaultyStore | None = None) -> Caller:
    return Caller(
        principal=world.person,
        channel="api",
        policy=SHIPPED,
        store=store or world.store,
        jobs=world.jobs,
        reports=FolderReports(world.folder),
        now=world.clock,
        new_id=world.new_id,
        default_zone=ZoneInfo("UTC"),
    )


def delete(world: World, store: FaultyStore | None = None) -> None:
    delete_conversation(caller(world, store), ConversationId(id=world.conversation))


def started(process: Process, *texts: str) -> Running:
    running = process.start(*texts)
    assert isinstance(running, Running)
    return running


def listed(world: World) -> list[ConversationSummary]:
    return list_conversations(caller(world), Nothing())["conversations"]


def start_now(process: Process) -> None:
    started(process, "At this moment.")


def left(world: World) -> list[tuple[Any, ...]]:
    """Every row of the SQLite file that names the conversation, in any table of ours."""
    with closing(sqlite3.connect(world.folder / "deckhand.sqlite3")) as connection:
        rows = connection.execute("SELECT tbl, pk, sk, body FROM items").fetchall()
    return [row[:3] for row in rows if world.conversation in row[2] or f"#conv#{world.conversation}" in row[1]]


async def test_deletion_leaves_no_item_of_any_table(world: World) -> None:
    process = world.process(*(script for n in range(3) for script in (asks(call("note")), says(f"Reply {n}."))))
    process.tools.add("note", mutates=True)
    for n in range(3):
        await process.ask(f"Message {n}.", "x" * 400_000)
    world.process().start("running")
    world.process().start("waiting", on_busy="enqueue")
    assert len(left(world)) > 20
    delete(world)
    assert left(world) == []


@pytest.mark.parametrize("point", ["flush", "exchange", "renew", "finish"])
async def test_case_32_a_deletion_at_any_moment_of_a_turn_leaves_nothing(world: World, point: Any) -> None:
    process, gate = world.process(), Gate()
    process.tools.add("note", mutates=True)

    def later() -> None:
        world.clock.time += 11

    process.gateway.script(asks(call("note"), text="Let me see. "), [later, *says("Done ", "it.")])
    if point == "renew":
        waits = Gate()
        process.gateway.scripts[1] = [later, "Done ", waits, *says("it.")]
    # The write is under way when the conversation goes, and arrives behind the deletion.
    process.store.arm(point, hook=gate.pass_in_thread)
    running = started(process, "Do it.")
    run = asyncio.create_task(running.run())
    await gate.reached()
    delete(world)
    gate.open()
    await run
    await until(lambda: not process.store.busy)
    assert running.names[-2:] == ["stopped", "done"]
    assert left(world) == []
    with pytest.raises(UnknownConversation):
        world.process().start("More.")


async def test_a_watcher_elsewhere_is_told_that_a_deleted_turn_has_stopped(any_world: World) -> None:
    world = any_world
    process, gate = world.process(), Gate()
    process.gateway.script(["Half ", gate, *says("Half of it.")[1:]])
    running = started(process, "Do it.")
    run = asyncio.create_task(running.run())
    await gate.reached()
    watcher = world.process()
    watching = asyncio.create_task(watcher.watch())
    await until(lambda: watcher.store.passed["read"] > 1)
    delete(world)
    told = await watching
    assert [n.event.name for n in told[-2:]] == ["stopped", "done"]
    gate.open()
    await run


@pytest.mark.parametrize("skip", range(4))
def test_what_a_killed_deletion_leaves_is_removed_by_the_sweep(world: World, skip: int) -> None:
    asyncio.run(world.process(says("One.")).ask("Do it."))
    process = world.process()
    process.store.arm("delete" if skip == 0 else "clean", "kill after", skip=max(0, skip - 1))
    with suppress(Killed):
        delete(world, process.store)
    assert process.store.killed
    with pytest.raises(UnknownConversation):
        world.process().start("More.")
    sweep(world.process().context, world.owner.tenant)
    assert left(world) == []


def test_the_hundred_and_first_conversation_removes_the_least_active_that_has_no_running_turn(world: World) -> None:
    oldest = world.conversation
    started(world.process(), "Still running.")
    made = []
    for n in range(MAX_CONVERSATIONS):
        world.clock.time += 0.01
        made.append(create_conversation(caller(world), NewConversation(title=f"{n}"))["conversation"]["id"])
    ids = [one["id"] for one in listed(world)]
    assert ids == [*reversed(made[1:]), oldest]


def test_a_turn_that_starts_while_room_is_made_keeps_its_conversation(world: World) -> None:
    for n in range(MAX_CONVERSATIONS - 1):
        world.clock.time += 1
        create_conversation(caller(world), NewConversation(title=f"{n}"))
    starter, store = world.process(), FaultyStore(world.store, world.clock)
    store.arm("delete", hook=lambda: start_now(starter))
    world.clock.time += 1
    create_conversation(caller(world, store), NewConversation(title="new"))
    conversations = listed(world)
    assert world.conversation in [one["id"] for one in conversations]
    assert len(conversations) == MAX_CONVERSATIONS


async def test_a_transcript_is_not_replaced_while_a_turn_runs_and_a_refusal_leaves_nothing(world: World) -> None:
    store, starter = FaultyStore(world.store, world.clock), world.process()
    before = len(left(world))
    given = Transcript(id=world.conversation, messages=[GivenMessage(role="user", content="other")])
    # The turn starts between the look and the write.
    store.arm("header", hook=lambda: start_now(starter))
    with pytest.raises(TurnRunning):
        replace_messages(caller(world, store), given)
    names = sorted(sk for _, _, sk in left(world))
    assert len(names) == before + 3, "header before; now head, message and the entry among the running ones"


def test_the_single_transcript_is_taken_over_once_however_many_ask(world: World) -> None:
    replace_history(caller(world), Messages(messages=[{"role": "user", "content": "old"}]))
    wanted = NewConversation(fromHistory=True)
    results = at_once([lambda: create_conversation(caller(world), wanted)] * 6)
    assert sum(isinstance(result, dict) for result in results) == 1
    assert sum(isinstance(result, NotFound) for result in results) == 5
    assert len(listed(world)) == 2
    with closing(sqlite3.connect(Path(world.folder) / "deckhand.sqlite3")) as connection:
        messages = connection.execute("SELECT count(*) FROM items WHERE sk LIKE 'm#%'").fetchone()[0]
    assert messages == 1, "nothing is left of those that came too late"
