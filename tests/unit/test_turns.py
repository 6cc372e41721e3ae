"""A turn as a job: start, record, finish, stop, reattach. On the SQLite store in memory, with a scripted model."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deckhand.agent import wording
from deckhand.domain.conversation import Message
from deckhand.domain.errors import GatewayFailed, NoTurnRunning, StorageUnavailable, TurnRunning, UnknownConversation
from deckhand.domain.events import Event
from deckhand.domain.principal import Principal
from deckhand.domain.turn import LEASE_S, LINGER_S, MAX_EVENTS
from deckhand.operations.caller import Caller
from deckhand.operations.conversations import (
    ConversationId,
    GivenMessage,
    Rename,
    Transcript,
    delete_conversation,
    rename_conversation,
    replace_messages,
)
from deckhand.storage.port import Item
from deckhand.storage.sqlite import SqliteStore
from deckhand.storage.switches import Switches
from deckhand.storage.turns import Numbered
from deckhand.turns import replay as replaying
from deckhand.turns.chat import TurnWish
from deckhand.turns.context import TurnContext
from deckhand.turns.finish import LeaseLost
from deckhand.turns.idempotency import Claimed, claim
from deckhand.turns.recorder import BATCH_EVENTS, FLUSH_BYTES, Recorder
from deckhand.turns.replay import Attachment, attach, replay
from deckhand.turns.start import NewTurn
from deckhand.turns.stop import stop_turn
from tests.fakes import PATIENCE_S, Gate, Hang, Script, asks, call, says, until
from tests.faults import Process, Running, Until, World
from tests.stores import Clock


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    clock = Clock()
    with closing(SqliteStore(":memory:", now=clock)) as store:
        made = World(store, clock, tmp_path)
        made.create()
        yield made


def everything(world: World) -> list[Item]:
    """All that is stored of the person and the conversation."""
    tenant, conversation = world.owner.tenant, world.conversation
    places = [("deck", f"u#{world.owner.user}"), ("deck", f"conv#{conversation}")]
    places += [("turns", f"conv#{conversation}"), ("turns", "running"), ("turns", f"key#{world.person.name}")]
    return [item for table, pk in places for item in world.store.query(table, f"{tenant}#{pk}").items]  # type: ignore[arg-type]


def context(world: World) -> TurnContext:
    return world.process().context


def messages(world: World) -> list[Message]:
    conversations = context(world).conversations
    return conversations.messages(world.owner, conversations.find(world.owner, world.conversation).header)


def texts(world: World) -> list[str]:
    return [message.content for message in messages(world)]


def begin(process: Process, *said: str) -> tuple[Running, "asyncio.Task[None]"]:
    started = process.start(*(said or ("hi",)))
    assert isinstance(started, Running)
    return started, asyncio.create_task(started.run())


async def ask(world: World, *scripts: Script) -> Running:
    process = world.process(*scripts)
    running = await process.ask("hi")
    process.gateway.verify()
    return running


def stop(world: World, turn_id: str | None = None) -> str:
    return stop_turn(context(world), world.owner, world.conversation, turn_id)


def _start_it(world: World) -> None:
    world.process().start("hi")


def _stop_it(world: World) -> None:
    stop(world)


def caller(world: World) -> Caller:
    return world.process()._caller(world.person)


# -- start


async def test_a_turn_stores_the_question_at_its_start_and_the_reply_at_its_end(world: World) -> None:
    process, gate = world.process(["Hello", gate := Gate(), *says("Hello")[1:]]), gate
    running, run = begin(process, "hi")
    assert texts(world) == ["hi"]
    gate.open()
    await run
    assert texts(world) == ["hi", "Hello"]
    assert running.names == ["status", "token", "reply", "done"]
    assert [n.id for n in running.told] == [1, 2, 3, 4]


def test_case_31_a_start_while_a_turn_runs_is_refused_and_leaves_no_trace(world: World) -> None:
    first = world.process().start("hi")
    assert isinstance(first, Running)
    before = everything(world)
    with pytest.raises(TurnRunning) as refused:
        world.process().start("me too")
    assert refused.value.details == {"turnId": first.turn.id}
    assert everything(world) == before


def test_a_start_that_fails_leaves_no_trace(world: World) -> None:
    process, before = world.process(), everything(world)
    process.store.arm("start", "fail for a while")
    with pytest.raises(StorageUnavailable):
        process.start("hi")
    assert everything(world) == before


def test_a_conversation_that_is_unknown_is_refused_and_leaves_no_trace(world: World) -> None:
    world.conversation = "nobody"
    with pytest.raises(UnknownConversation):
        world.process().start("hi")
    assert everything(world) == [item for item in everything(world) if item.table == "deck"]


def test_a_rename_at_the_moment_of_the_start_is_kept(world: World) -> None:
    process = world.process()
    process.store.arm("start", hook=lambda: _rename(world, "Tea"))
    process.start("hi")
    header = context(world).conversations.find(world.owner, world.conversation).header
    assert (header.title, header.message_count) == ("Tea", 1)


def _rename(world: World, title: str) -> None:
    rename_conversation(caller(world), Rename(id=world.conversation, title=title))


def test_case_50_messages_of_one_instant_are_all_kept_in_their_order(world: World) -> None:
    world.process().start(*[f"message {n}" for n in range(12)])
    assert texts(world) == [f"message {n}" for n in range(12)]


def test_two_hundred_new_messages_fit_one_start_and_no_word_is_lost(world: World) -> None:
    world.process().start(*[f"message {n}" for n in range(200)])
    assert "\n\n".join(texts(world)) == "\n\n".join(f"message {n}" for n in range(200))


def test_the_next_turn_goes_on_counting_events_and_fences(world: World) -> None:
    async def turns() -> tuple[Running, Running]:
        return await ask(world, says("One")), await ask(world, says("Two"))

    first, second = asyncio.run(turns())
    assert second.told[0].id == first.told[-1].id + 1
    assert second.turn.head.head.fence == first.turn.head.head.fence + 1


# -- the same key again


def test_a_key_that_was_seen_names_its_turn_and_starts_nothing(world: World) -> None:
    key = claim(world.person, "k1", b"body")
    first = world.process().start("hi", claim=key)
    assert isinstance(first, Running)
    again = world.process().start("hi", claim=key)
    assert isinstance(again, Claimed)
    assert (again.turn_id, texts(world)) == (first.turn.id, ["hi"])


def test_a_key_that_is_claimed_while_the_lock_is_looked_at_names_its_turn_too(world: World) -> None:
    key, started = claim(world.person, "k1", b"body"), []
    process = world.process()
    process.store.arm("look", hook=lambda: started.append(world.process().start("hi", claim=key)))
    again = process.start("hi", claim=key)
    assert isinstance(again, Claimed), "not a 409 for one's own turn"
    assert isinstance(started[0], Running)
    assert again.turn_id == started[0].turn.id


# -- what the model is sent


async def test_the_model_is_sent_the_transcript_and_the_new_message_last(world: World) -> None:
    await ask(world, says("One"))
    process = world.process(says("Two"))
    await process.ask("and", "then")
    assert process.gateway.messages() == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "One"},
        {"role": "user", "content": "and\n\nthen"},
    ]


async def test_where_the_person_is_goes_to_the_model_and_not_into_what_is_shown(world: World) -> None:
    process = world.process(says("Yes"))
    new = NewTurn(world.person, world.conversation, ["this one?"], page="route: /mood")
    started = process.chats.start(new, TurnWish(messages=[("user", "this one?")]))
    assert not isinstance(started, Claimed)
    await started[1](lambda *_: None)
    assert process.gateway.messages()[-1]["content"] == "this one?\n\n[route: /mood]"
    assert "route" not in str([message.shown() for message in messages(world)])


async def test_calls_of_earlier_turns_are_sent_again_with_their_results(world: World) -> None:
    process = world.process(asks(call("find_note", {"q": "tea"}, extra_content={"s": 1})), says("One"))
    process.tools.add("find_note", '{"n":1}')
    await process.ask("hi")
    following = world.process(says("Two"))
    await following.ask("again")
    sent = following.gateway.messages()
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[1]["tool_calls"][0]["extra_content"] == {"s": 1}
    assert sent[2]["content"] == '{"n":1}'


async def test_the_longest_turn_that_is_allowed_is_sent_again_whole(world: World) -> None:
    steps = 36
    for _ in range(2):
        process = world.process(*[asks(call("find_note", {"n": n})) for n in range(steps - 1)], says("One"))
        process.tools.add("find_note")
        await process.ask("hi")
    following = world.process(says("Two"))
    await following.ask("again")
    sent = [m for m in following.gateway.messages() if m["role"] == "tool"]
    assert len(sent) == 2 * (steps - 1)


# -- the finish


async def test_the_reply_is_stored_before_it_is_told(world: World) -> None:
    stored: list[list[str]] = []
    await _listened(world, says("Hello"), lambda event: stored.append(texts(world)) if event.name == "reply" else None)
    assert stored == [["hi", "Hello"]]


async def _listened(world: World, script: Script, listen: Callable[[Event], None]) -> None:
    """A turn whose listener does something at its events."""
    new = NewTurn(world.person, world.conversation, ["hi"])
    started = world.process(script).chats.start(new, TurnWish(messages=[("user", "hi")]))
    assert not isinstance(started, Claimed)
    await started[1](lambda _, event: listen(event))


async def test_the_reply_names_conversation_turn_model_and_usage(world: World) -> None:
    running = await ask(world, says("Hello"))
    reply, done = (n.event for n in running.told[-2:])
    assert reply.data == {
        "reply": "Hello",
        "conversationId": world.conversation,
        "messageId": messages(world)[-1].id,
        "turnId": running.turn.id,
        "model": "small-1",
        "usage": None,
    }
    assert done.data == {"conversationId": world.conversation, "turnId": running.turn.id, "status": "done"}


async def test_case_43_a_reply_of_450_000_letters_is_stored_and_read_back_whole(world: World) -> None:
    letters = "aé🍵" * 150_000
    running = await ask(world, says(letters))
    assert running.names[-2:] == ["reply", "done"]
    assert texts(world)[-1] == letters
    assert await _all(world, 0) == running.told


async def test_only_the_newest_two_hundred_messages_are_kept(world: World) -> None:
    given = [GivenMessage(role="user", content=f"old {n}") for n in range(200)]
    replace_messages(caller(world), Transcript(id=world.conversation, messages=given))
    await ask(world, says("Hello"))
    assert texts(world)[0] == "old 2"
    assert texts(world)[-2:] == ["hi", "Hello"]
    assert len([item for item in everything(world) if item.sk.startswith("m#")]) == 200


async def test_a_title_that_is_set_during_a_turn_is_kept(world: World) -> None:
    await ask(world, [lambda: _rename(world, "Tea"), *says("Hello")])
    header = context(world).conversations.find(world.owner, world.conversation).header
    assert (header.title, header.titled_by, header.message_count) == ("Tea", "person", 2)
    assert world.jobs.jobs == [], "a title of a person asks for no other"


async def test_a_turn_without_a_title_asks_for_one_and_a_queue_that_fails_costs_only_that(world: World) -> None:
    await ask(world, says("Hello"))
    assert [job.kind for job in world.jobs.jobs] == ["title"]
    world.jobs.failure = StorageUnavailable()
    assert (await ask(world, says("Hello again"))).names[-1] == "done"


async def test_a_voice_reply_is_stored_with_what_was_spoken(world: World) -> None:
    process = world.process(says('{"speak":"It is high.","display":"It is **high**."}'))
    running = await _voice(process)
    assert running.names == ["status", "reply", "done"]
    reply = running.told[-2].event.data
    assert (reply["reply"], reply["speak"]) == ("It is **high**.", "It is high.")
    shown = messages(world)[-1].shown()
    assert (shown["content"], shown["speak"], shown["hasVoice"]) == ("It is **high**.", "It is high.", True)


async def _voice(process: Process) -> Running:
    new = NewTurn(process.world.person, process.world.conversation, ["hi"])
    started = process.chats.start(new, TurnWish(messages=[("user", "hi")], voice=True))
    assert not isinstance(started, Claimed)
    running = Running(*started)
    await running.run()
    return running


async def test_a_voice_answer_that_was_cut_by_length_reads_as_text_with_the_suffix(world: World) -> None:
    cut = '{"speak":"It is high.","display":"It is **high** and'
    running = await _voice(world.process(says(cut, finish="length")))
    assert running.told[-2].event.data["reply"] == f"It is **high** and\n\n{wording.RESUME['size']}"


async def test_a_failure_before_any_text_stores_no_reply(world: World) -> None:
    running = await ask(world, [GatewayFailed()])
    assert running.told[-2].event == Event("error", GatewayFailed().as_body())
    assert running.told[-1].event.data["status"] == "failed"
    assert texts(world) == ["hi"]


async def test_a_failure_after_visible_text_keeps_it_as_interrupted(world: World) -> None:
    running = await ask(world, ["Half of ", GatewayFailed()])
    assert running.names[-2:] == ["error", "done"]
    assert (messages(world)[-1].content, messages(world)[-1].interrupted) == ("Half of ", True)


async def test_an_unexpected_fault_of_ours_ends_the_turn_as_internal_and_keeps_the_text(world: World) -> None:
    running = await ask(world, ["Half of ", ZeroDivisionError("secret")])
    assert running.told[-2].event.data["code"] == "internal"
    assert "secret" not in str(running.told)
    assert (messages(world)[-1].content, messages(world)[-1].interrupted) == ("Half of ", True)


# -- listeners


async def test_case_29_a_watcher_that_goes_away_ends_only_itself(world: World) -> None:
    process, gate = world.process(), Gate()
    process.gateway.script(["Hel", gate, "lo", *says("Hello")[1:]])
    running, run = begin(process)
    await gate.reached()
    watching = asyncio.create_task(_all(world, 0))
    await asyncio.sleep(0)
    watching.cancel()
    gate.open()
    await run
    assert texts(world) == ["hi", "Hello"]
    assert await _all(world, 2) == running.told[2:]


@given(pieces=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=12))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_replay_from_any_cursor_is_the_rest_of_what_the_first_watcher_saw(tmp_path: Path, pieces: list[str]) -> None:
    async def check() -> None:
        clock = Clock()
        with closing(SqliteStore(":memory:", now=clock)) as store:
            world = World(store, clock, tmp_path)
            world.create()
            await ask(world, says("An earlier turn"))
            process = world.process(asks(call("find_note"), text="Let me see."), says(*pieces))
            process.tools.add("find_note")
            told = (await process.ask("hi")).told
            for cursor in range(told[0].id - 2, told[-1].id + 2):
                found = await _all(world, cursor)
                assert found == [n for n in told if n.id > cursor], cursor

    asyncio.run(check())


async def test_two_watchers_and_the_listener_see_the_same(world: World) -> None:
    process, gates = world.process(), [Gate(), Gate()]
    process.gateway.script(["One, ", gates[0], "two, ", gates[1], "three.", *says("One, two, three.")[1:]])
    running, run = begin(process)
    await gates[0].reached()
    watchers = [asyncio.create_task(_all(world, 0))]
    gates[0].open()
    await gates[1].reached()
    watchers.append(asyncio.create_task(_all(world, 0)))
    gates[1].open()
    await run
    assert [await watcher for watcher in watchers] == [running.told, running.told]


async def _all(world: World, after: int) -> list[Numbered]:
    attachment = attach(context(world), world.person, world.conversation, after)
    return [] if attachment is None else await _read(world, attachment)


async def _read(world: World, attachment: Attachment) -> list[Numbered]:
    return [numbered async for numbered in replay(context(world), attachment)]


async def test_case_38_an_event_between_the_replay_and_the_live_part_is_told_once(world: World) -> None:
    process, watcher, gate = world.process(), world.process(), Gate()
    process.gateway.script(["One, ", gate, "two.", *says("One, two.")[1:]])
    running, run = begin(process)
    await gate.reached()
    # Everything else happens between the watcher's first look at the log and its first look at the head.
    attachment = attach(watcher.context, world.person, world.conversation, 0)
    assert attachment is not None
    watcher.store.arm("look", hook=partial(_to_the_end, world, gate))
    found = [numbered async for numbered in replay(watcher.context, attachment)]
    await run
    assert found == running.told


def _to_the_end(world: World, gate: Gate) -> None:
    gate.open()
    head = context(world).turns.head(world.owner, world.conversation)
    while head is not None and head.head.status is None:
        time.sleep(0.002)
        head = context(world).turns.head(world.owner, world.conversation)


async def test_case_37_reading_on_after_a_cursor_tells_nothing_twice(world: World) -> None:
    running = await ask(world, says("a", "b", "c", "d"))
    assert [n.id for n in await _all(world, 5)] == [n.id for n in running.told if n.id > 5]


async def test_there_is_nothing_to_tell_when_no_turn_ran_or_all_was_seen(world: World) -> None:
    assert attach(context(world), world.person, world.conversation, 0) is None
    assert attach(context(world), world.person, "nobody", 0) is None
    running = await ask(world, says("Hello"))
    last = running.told[-1].id
    assert attach(context(world), world.person, world.conversation, last) is None
    assert attach(context(world), world.person, world.conversation, last + 5) is None
    assert attach(context(world), world.person, world.conversation, last - 1) is not None


async def test_a_turn_that_ended_can_be_read_for_thirty_seconds(world: World) -> None:
    running = await ask(world, says("Hello"))
    world.clock.time += LINGER_S
    assert await _all(world, 0) == running.told
    world.clock.time += 0.001
    assert attach(context(world), world.person, world.conversation, 0) is None


async def test_a_conversation_of_somebody_else_has_nothing_to_tell(world: World) -> None:
    await ask(world, says("Hello"))
    other = type(world.person)(kind="user", id="bob", user="bob", role="owner", tenant=world.person.tenant)
    assert attach(context(world), other, world.conversation, 0) is None


async def test_case_39_a_log_that_lost_its_head_is_replayed_behind_a_reset(world: World) -> None:
    pieces = [f"{n} " for n in range(MAX_EVENTS + 400)]
    script: list[object] = []
    logged = context(world).turns
    for start in range(0, len(pieces), 200):
        script += pieces[start : start + 200]
        gate = _Logged(world, start + 200)
        script.append(gate)
    process = world.process([*script, *says("".join(pieces))[-1:]])  # type: ignore[list-item]
    running = await process.ask("hi")
    found = await _all(world, 0)
    assert found[0].event == Event("reset")
    assert MAX_EVENTS <= len(found) - 1 < MAX_EVENTS + 400
    assert found[1:] == running.told[-(len(found) - 1) :]
    assert found[0].id < found[1].id
    # A client that was there keeps what it has.
    late = found[-100].id
    assert await _all(world, late) == [n for n in running.told if n.id > late]
    assert logged.last_event_id(world.owner, world.conversation, 1) == running.told[-1].id


class _Logged(Gate):
    """Passed when the log holds as many tokens; so batches are small, whatever the machine does."""

    def __init__(self, world: World, count: int) -> None:
        super().__init__()
        self._world, self._count = world, count

    async def passing(self) -> None:
        turns = context(self._world).turns
        await until(lambda: turns.last_event_id(self._world.owner, self._world.conversation, 1) >= self._count)


class LosesItsLease:
    """A loop of which an event is to be written at once when the turn is found to be somebody else's."""

    async def run(self) -> AsyncIterator[Event]:
        yield Event("status", {"phase": "thinking"})
        raise LeaseLost()


async def test_a_lease_that_is_lost_while_an_event_is_urgent_ends_the_turn(world: World) -> None:
    """Before Python 3.12 `asyncio.wait_for` swallows a cancellation that meets the end of what it waits for."""
    process, told = world.process(), list[Numbered]()
    started = process.start("hi")
    assert isinstance(started, Running)
    recorder = Recorder(
        process.context,
        started.turn,
        publish=told.append,
        on_step=lambda _: None,
        voice=False,
        followup=lambda _: None,
    )

    async def prepared() -> Any:
        return LosesItsLease()

    async with asyncio.timeout(PATIENCE_S):
        assert await recorder.run(prepared) is None
    assert [numbered.event.name for numbered in told] == ["status", "error", "done"]


async def test_a_cursor_from_elsewhere_replays_from_the_start_behind_a_reset(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "FOREIGN_CURSOR_WAIT_S", 0.01)
    process, gate = world.process(), Gate()
    process.gateway.script(["One, ", gate, *says("One, ")[1:]])
    running, run = begin(process)
    await gate.reached()
    watching = asyncio.create_task(_all(world, 900))
    await asyncio.sleep(0.05)
    gate.open()
    await run
    found = await watching
    assert found[0].event == Event("reset")
    assert found[1:] == running.told


async def test_a_cursor_ahead_of_a_log_that_lags_waits_for_it(world: World) -> None:
    process, gate = world.process(), Gate()
    process.store.arm("flush", hook=gate.pass_in_thread)
    process.gateway.script(says("One, ", "two."))
    running, run = begin(process)
    await gate.reached()
    await until(lambda: running.names.count("token") == 2)
    watching = asyncio.create_task(_all(world, 2))
    gate.open()
    await run
    assert await watching == running.told[2:]


async def test_a_watcher_of_a_lost_turn_is_told_and_its_ids_are_above_all_that_were_handed_out(world: World) -> None:
    process, gate, asleep = world.process(), Gate(), Gate()
    process.gateway.script(["Half of ", gate, *says("Half of ")[1:]])
    running, run = begin(process)
    await gate.reached()
    await until(lambda: context(world).turns.last_event_id(world.owner, world.conversation, 1) >= 2)
    # Held while it looks after its lease; else it might renew it in the very moment in which the clock moves.
    process.store.arm("look", hook=asleep.pass_in_thread)
    await asleep.reached()
    world.clock.time += LEASE_S
    found = await _all(world, 0)
    assert [n.event.name for n in found] == ["status", "token", "error", "done"]
    assert found[2].event.data["code"] == "turn_lost"
    assert found[2].id > running.told[-1].id + 5_000
    assert (messages(world)[-1].content, messages(world)[-1].interrupted) == ("Half of ", True)
    before = everything(world)
    asleep.open()
    await run
    gate.open()
    assert [n.event for n in running.told[-2:]] == [n.event for n in found[-2:]]
    assert everything(world) == before, "a process that lost its turn writes nothing"


# -- stop


async def test_case_30_a_a_stop_in_the_text_keeps_and_marks_it(world: World) -> None:
    process, gate = world.process(), Gate()
    process.gateway.script(["One, ", "two, ", gate, Hang()])
    running, run = begin(process)
    await gate.reached()
    assert stop(world) == running.turn.id
    await run
    assert running.names[-2:] == ["stopped", "done"]
    assert (messages(world)[-1].content, messages(world)[-1].stopped) == ("One, two, ", True)
    assert await _all(world, 0) == running.told


async def test_case_30_b_a_stop_before_any_text_stores_nothing(world: World) -> None:
    process, gate = world.process(), Gate()
    process.gateway.script([gate, Hang()])
    running, run = begin(process)
    await gate.reached()
    stop(world)
    await run
    assert running.told[-1].event.data["status"] == "stopped"
    assert texts(world) == ["hi"]


async def test_case_30_c_after_a_stop_between_calls_the_next_request_is_valid(world: World) -> None:
    process, gate = world.process(asks(call("note", id="c1"), call("note", id="c2"))), Gate()
    process.tools.add("note", mutates=True, gates={"c1": gate})
    _, run = begin(process)
    await gate.reached()
    stop(world)
    await until(lambda: process.context.turns.head(world.owner, world.conversation).head.stop)  # type: ignore[union-attr]
    looks = process.store.passed["look"]
    await until(lambda: process.store.passed["look"] > looks + 1)
    gate.open()
    await run
    following = world.process(says("Yes?"))
    await following.ask("go on")
    sent = following.gateway.messages()
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert "not run" in sent[3]["content"]


async def test_a_late_stop_never_hits_the_next_turn(world: World) -> None:
    first = await ask(world, says("One"))
    with pytest.raises(NoTurnRunning):
        stop(world)
    process, gate = world.process(), Gate()
    process.gateway.script([gate, *says("Two")])
    running, run = begin(process)
    await gate.reached()
    with pytest.raises(NoTurnRunning):
        stop(world, first.turn.id)
    gate.open()
    await run
    assert running.names[-2:] == ["reply", "done"]


async def test_stopping_twice_is_stopping_once(world: World) -> None:
    process, gate = world.process(), Gate()
    process.gateway.script([gate, Hang()])
    running, run = begin(process)
    await gate.reached()
    assert stop(world) == stop(world, running.turn.id) == running.turn.id
    await run
    assert running.names[-2:] == ["stopped", "done"]


async def test_a_stop_that_is_written_before_the_finish_wins(world: World) -> None:
    process = world.process(says("Hello"))
    process.store.arm("finish", hook=partial(_stop_it, world))
    running, run = begin(process)
    await run
    assert running.names[-2:] == ["stopped", "done"]
    assert (messages(world)[-1].content, messages(world)[-1].stopped) == ("Hello", True)


async def test_a_stop_that_is_seen_after_the_last_word_wins_too(world: World) -> None:
    process, gate = world.process(), Gate()
    process.gateway.script(says("Hello"))
    process.store.arm("flush", hook=gate.pass_in_thread)
    running, run = begin(process)
    await gate.reached()
    await until(lambda: running.names.count("token") == 1)
    stop(world)
    looks = process.store.passed["look"]
    await until(lambda: process.store.passed["look"] > looks + 1)
    gate.open()
    await run
    assert running.names[-2:] == ["stopped", "done"], "who stopped was told that the turn is stopped"
    assert messages(world)[-1].stopped


async def test_a_stop_that_wins_over_a_notice_of_ours_stores_no_notice(world: World) -> None:
    process = world.process(says(""))
    process.store.arm("finish", hook=partial(_stop_it, world))
    running, run = begin(process)
    await run
    assert running.names[-2:] == ["stopped", "done"]
    assert texts(world) == ["hi"]


async def test_a_stop_behind_the_finish_is_told_that_no_turn_runs(world: World) -> None:
    ends: list[object] = []

    def late(event: Event) -> None:
        if event.name == "reply":
            with pytest.raises(NoTurnRunning):
                stop(world)
            ends.append("refused")
        elif event.name == "done":
            ends.append(event.data["status"])

    await _listened(world, says("Hello"), late)
    assert ends == ["refused", "done"]


# -- the conversation changes meanwhile


async def test_case_32_a_conversation_that_is_deleted_during_a_turn_leaves_nothing(world: World) -> None:
    process, gate = world.process(), Gate()
    process.gateway.script(["One, ", "two, ", gate, *says("One, two, ")[-1:]])
    running, run = begin(process)
    await gate.reached()
    attachment = attach(context(world), world.person, world.conversation, 0)
    assert attachment is not None
    watching = asyncio.create_task(_read(world, attachment))
    await until(lambda: process.store.passed["flush"])
    delete_conversation(caller(world), ConversationId(id=world.conversation))
    gate.open()
    await run
    assert running.names[-2:] == ["stopped", "done"]
    assert [n.event.name for n in await watching][-2:] == ["stopped", "done"]
    assert everything(world) == []
    assert world.jobs.jobs == []


async def test_case_32_a_deletion_at_the_moment_of_the_finish_leaves_nothing(world: World) -> None:
    process = world.process(says("Hello"))
    process.store.arm("finish", hook=lambda: delete_conversation(caller(world), ConversationId(id=world.conversation)))
    running, run = begin(process)
    await run
    assert running.names[-2:] == ["stopped", "done"]
    assert everything(world) == []


async def test_case_32_a_deletion_at_the_moment_of_an_exchange_leaves_nothing(world: World) -> None:
    process = world.process(asks(call("note")), says("Hello"))
    process.tools.add("note", mutates=True)
    process.store.arm(
        "exchange", hook=lambda: delete_conversation(caller(world), ConversationId(id=world.conversation))
    )
    running, run = begin(process)
    await run
    assert running.names[-2:] == ["stopped", "done"]
    assert everything(world) == []


def test_a_transcript_is_not_replaced_while_a_turn_runs(world: World) -> None:
    started = world.process().start("hi")
    assert isinstance(started, Running)
    before = everything(world)
    with pytest.raises(TurnRunning) as refused:
        replace_messages(caller(world), Transcript(id=world.conversation, messages=[]))
    assert refused.value.details == {"turnId": started.turn.id}
    assert everything(world) == before


def test_a_turn_that_starts_while_a_transcript_is_replaced_wins(world: World) -> None:
    process = world.process()
    process.store.arm("header", hook=partial(_start_it, world))
    with pytest.raises(TurnRunning):
        replace_messages(process._caller(world.person), Transcript(id=world.conversation, messages=[]))
    assert texts(world) == ["hi"]


# -- the log and the lease


async def test_the_lease_is_renewed_while_a_turn_runs(world: World) -> None:
    process, gate = world.process(), Gate()
    process.gateway.script([gate, *says("Hello")])
    running, run = begin(process)
    await gate.reached()
    for _ in range(4):
        world.clock.time += LEASE_S / 2
        renewed = process.store.passed["renew"]
        await until(lambda renewed=renewed: process.store.passed["renew"] > renewed)  # type: ignore[misc]
    gate.open()
    await run
    assert running.names[-2:] == ["reply", "done"]


async def test_a_process_that_slept_over_its_lease_writes_no_word_more(world: World) -> None:
    """Though nothing has told it yet that its turn was closed."""
    world.pace = replace(world.pace, watch=60.0)

    def taken_over() -> None:
        world.clock.time += LEASE_S
        assert attach(context(world), world.person, world.conversation, 0) is not None

    process = world.process()
    written = Until(process, lambda: "Ghost" in str(everything(world)))
    process.gateway.script([taken_over, "Ghost words", written, *says("Ghost words")[1:]])
    running, run = begin(process)
    await run
    assert running.names[-2:] == ["error", "done"]
    assert "Ghost" not in str(everything(world))


async def test_text_is_written_in_few_batches_and_other_events_at_once(world: World) -> None:
    world.pace = replace(world.pace, flush_first=60.0, flush_grown=60.0)
    process = world.process([gate := Gate(), *says(*["word "] * 1_000)])
    _, run = begin(process)
    await until(lambda: process.store.passed["flush"] == 1)
    gate.open()
    await run
    # A log that is late writes what is left behind a full batch, too.
    full, filled = 1_000 // BATCH_EVENTS, 1_000 * 8 // FLUSH_BYTES
    assert process.store.passed["flush"] <= 1 + full + filled


# -- without a conversation


async def test_a_turn_over_the_clients_transcript_stores_nothing_and_has_no_ids(world: World) -> None:
    process = world.process(asks(call("find_note")), says("Hello"))
    process.tools.add("find_note")
    before, told = everything(world), []
    wish = TurnWish(messages=[("user", "a"), ("assistant", "b"), ("user", "c"), ("user", "d")], page="route: /")
    run = process.chats.client_transcript(world.person, wish)
    await run(lambda event_id, event: told.append((event_id, event)))
    assert everything(world) == before
    assert {event_id for event_id, _ in told} == {None}
    assert told[-2][1].data == {"reply": "Hello", "model": "small-1", "usage": None}
    assert told[-1][1].data == {"status": "done"}
    assert [m["content"] for m in process.gateway.messages(0)] == ["a", "b", "c\n\nd\n\n[route: /]"]


async def test_the_switch_is_looked_at_once_before_each_call_of_the_model(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = list[Principal]()
    monkeypatch.setattr(Switches, "check", lambda _, who: looked.append(who))
    process = world.process(asks(call("find_note")), says("Hello"))
    process.tools.add("find_note")
    await process.chats.client_transcript(world.person, TurnWish(messages=[("user", "a")]))(lambda *_: None)
    assert len(looked) == len(process.gateway.requests) == 2


async def test_a_switch_that_is_flipped_as_a_turn_takes_its_lock_keeps_the_model_from_being_asked(world: World) -> None:
    """Nobody could stop the turn: it was not among the running ones yet."""

    def off() -> None:
        Switches(world.store, world.owner.tenant).turn("all", "", on=False, by="ann", at="", token=world.new_id())

    process = world.process()
    process.store.arm("start", hook=off)
    running = await process.ask("hi")
    assert process.gateway.requests == []
    assert running.told[-2].event.data["code"] == "agent_switched_off"


async def test_a_fault_of_ours_in_a_clients_turn_ends_it_with_error_and_done(world: World) -> None:
    process, told = world.process(["Half", ZeroDivisionError()]), []
    run = process.chats.client_transcript(world.person, TurnWish(messages=[("user", "a")]))
    await run(lambda _, event: told.append(event))
    assert [event.name for event in told][-2:] == ["error", "done"]
    assert told[-2].data["code"] == "internal"


async def test_a_turn_has_no_more_time_than_its_process(world: World) -> None:
    process = world.process(says("Hello"))
    run = process.chats.client_transcript(world.person, TurnWish(messages=[("user", "a")], time_left=50.0))
    await run(lambda *_: None)
    deadline = process.gateway.requests[0].limits.deadline
    assert deadline is not None
    assert deadline <= 50.0


# -- messages behind a running turn


async def test_a_message_that_queues_is_answered_by_the_next_turn(world: World) -> None:
    process, gate = world.process(), Gate()
    process.gateway.script([gate, *says("One")])
    _, run = begin(process)
    await gate.reached()
    queued = world.process().start("and then?", on_busy="enqueue")
    assert isinstance(queued, Claimed)
    assert queued.message_id
    gate.open()
    await run
    assert [job.kind for job in world.jobs.jobs] == ["queued_turn", "title"]
    worker = world.process(says("Two"))
    assert await worker.chats.run_queued(world.owner, world.conversation, time_left=None)
    assert texts(world) == ["hi", "One", "and then?", "Two"]
    assert not await world.process().chats.run_queued(world.owner, world.conversation, time_left=None)


async def test_an_interrupting_message_stops_the_turn_and_is_answered(world: World) -> None:
    process, gate = world.process(), Gate()
    process.gateway.script(["Half", gate, Hang()])
    first, run = begin(process)
    await gate.reached()
    second = world.process(says("Two"))
    started = await asyncio.to_thread(second.start, "wait", on_busy="interrupt")
    assert isinstance(started, Running)
    await asyncio.gather(run, started.run())
    assert first.names[-2:] == ["stopped", "done"]
    assert texts(world) == ["hi", "Half", "wait", "Two"]


async def test_case_32_a_store_that_fails_behind_a_deletion_keeps_nobody_from_the_end(world: World) -> None:
    process, gate = world.process(), Gate()
    process.gateway.script(["One, ", gate, Hang()])
    running, run = begin(process)
    await gate.reached()
    process.store.arm("clean", "fail")
    delete_conversation(caller(world), ConversationId(id=world.conversation))
    await run
    assert process.store.struck
    assert running.names[-2:] == ["stopped", "done"]
