"""A turn that asks for a yes, killed or failed at each point: the conversation works on, the proposal can be decided
or was never there, and the turn goes on once at most.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from deckhand.agent.wording import NOT_RUN_STOPPED
from deckhand.domain.errors import AlreadyDecided, DeckhandError, TurnRunning
from deckhand.operations.catalog import REGISTRY
from deckhand.operations.execution import perform
from deckhand.storage.audit import read_entries
from deckhand.storage.proposals import Proposals, StoredProposal
from deckhand.turns.chat import TurnWish
from deckhand.turns.decision import Decisions
from deckhand.turns.idempotency import Claimed
from deckhand.turns.start import NewTurn
from deckhand.turns.stop import stop_turn
from tests.fakes import Script, asks, says, until
from tests.faults import Killed, Kind, Point, Process, Running, World
from tests.gated import read, remove
from tests.invariants import check_ended, check_invariants, check_request

CARDS, ROWS = ("weight", "mood"), ["first", "second", "third"]
WHOLE, SHORTER = [ROWS, ROWS], [ROWS[1:], ROWS[1:]]
ASKED, NEXT = "Clean up, please.", "And now?"
GONE, STILL_HERE = says("They are gone."), says("Still here.")
REPLIES = ["They are gone.", "Still here."]
KINDS: list[Kind] = ["late", "kill before", "kill after"]


class Story:
    """A world whose model wants to remove a row each of two cards; every process that asked the model is kept."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.gated = True
        self.processes: list[Process] = []
        create, caller = REGISTRY.find("create_manifest"), self._caller(world.process())
        assert create is not None
        for card in CARDS:
            meta = {"id": card, "label": card, "writeable": {"fromWebapp": True, "pastAllowed": True}}
            manifest = {"$schema": "klebb.datafile.v1", "meta": meta, "data": ROWS}
            perform(caller, create, create.input.model_validate({"manifest": manifest}))

    def process(self, *scripts: Script) -> Process:
        self.processes.append(self.world.process(*scripts))
        return self.processes[-1]

    def proposing(self) -> Process:
        return self.process(asks(read(), remove(id="w1"), remove("mood", id="w2"), text="I will."))

    def proposals(self) -> list[StoredProposal]:
        return Proposals(self.world.store).all(self.world.owner, self.world.conversation)

    def confirm(self, process: Process, id: str) -> None:
        decisions = self._decisions(process)
        decisions.confirm(self.world.person, decisions.find(self.world.owner, id))

    def go_on(self, process: Process, turn_id: str) -> Running | Claimed | None:
        """As the routes do after a decision: nothing while another waits."""
        asked = next(one.proposal for one in self.proposals() if one.proposal.turn_id == turn_id)
        if self._decisions(process).open_in(self.world.owner, asked):
            return None
        new = NewTurn(self.world.person, self.world.conversation, [], answers=turn_id)
        started = process.chats.go_on(new, TurnWish(messages=[]))
        return Running(*started) if isinstance(started, tuple) else started

    def rows(self) -> list[list[Any]]:
        """Of each card."""
        cards = self._caller(self.world.process()).cards
        return [[row.value for row in cards.rows(cards.find(card))] for card in CARDS]

    def end_by_lease(self) -> None:
        head = self.world.process().context.turns.head(self.world.owner, self.world.conversation)
        if head is not None and head.head.status is None:
            self.world.clock.time = max(self.world.clock.time, head.head.lease_until)

    def check(self, asked: Sequence[str]) -> None:
        for process in self.processes:
            for number in range(len(process.gateway.requests)):
                check_request(process.gateway.messages(number))
        where = (self.world.store, self.world.owner, self.world.conversation)
        check_ended(*where, now=self.world.clock())
        check_invariants(*where, now=self.world.clock(), asked=asked, replies=REPLIES)

    def outcomes(self) -> Counter[str]:
        """What the audit says of the proposals."""
        page = read_entries(self.world.store, self.world.owner.tenant, after=None, limit=500, newest_first=False)
        asked = ("proposed", "confirmed", "rejected")
        return Counter(entry.outcome for entry in page.entries if entry.outcome in asked)

    def continuations(self) -> int:
        """How often the model was asked to go on from the decisions."""
        asked = [one.gateway.messages(n)[-1] for one in self.processes for n in range(len(one.gateway.requests))]
        return sum(last["role"] == "tool" or "[The person has decided" in last["content"] for last in asked)

    def _decisions(self, process: Process) -> Decisions:
        return Decisions(process.context, lambda principal, _: process._caller(principal))

    def _caller(self, process: Process) -> Any:
        return replace(process._caller(self.world.person), channel="api")


async def broken(process: Process, work: Callable[[], Any]) -> Any:
    """What `work` gives, as far as its process came."""
    with suppress(Killed, DeckhandError):
        found = work()
        if isinstance(found, Running):
            await found.run()
        await until(lambda: not process.store.busy)
        return found
    return None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", ["exchange", "finish"])
async def test_a_turn_that_is_broken_while_it_asks_leaves_calls_that_can_be_decided_or_none(
    any_world: World, point: Point, kind: Kind
) -> None:
    story = Story(any_world)
    process = story.proposing()
    process.store.arm(point, kind)
    await broken(process, lambda: process.start(ASKED))
    assert process.store.struck
    story.end_by_lease()
    made = story.proposals()
    assert len(made) in (0, 2), "both or none"
    assert story.rows() == WHOLE
    if made:
        for one in made:
            story.confirm(story.process(), one.proposal.id)
        assert story.rows() == SHORTER
        following = story.process(GONE)
        going = story.go_on(following, made[0].proposal.turn_id)
        assert isinstance(going, Running)
        await going.run()
        assert going.names[-2:] == ["reply", "done"]
    successor = story.process(STILL_HERE)
    await successor.ask(NEXT)
    assert story.continuations() == bool(made)
    story.check([ASKED, NEXT])


@pytest.mark.parametrize("kind", KINDS)
async def test_a_turn_that_cannot_go_on_after_the_last_decision_is_gone_on_from_once_at_most(
    any_world: World, kind: Kind
) -> None:
    story = Story(any_world)
    await story.proposing().ask(ASKED)
    made = story.proposals()
    for one in made:
        story.confirm(story.process(), one.proposal.id)
    turn_id = made[0].proposal.turn_id
    first = story.process(GONE)
    first.store.arm("start", kind)
    began = await broken(first, lambda: story.go_on(first, turn_id))
    assert first.store.struck
    story.end_by_lease()
    again = story.process(GONE)
    going = story.go_on(again, turn_id)
    if isinstance(going, Running):
        assert began is None
        await going.run()
    assert story.go_on(story.process(), turn_id) is None
    assert story.continuations() <= 1
    assert story.rows() == SHORTER
    await story.process(STILL_HERE).ask(NEXT)
    story.check([ASKED, NEXT])


async def test_the_last_two_decisions_at_the_same_time_start_one_turn(any_world: World) -> None:
    story = Story(any_world)
    await story.proposing().ask(ASKED)
    made = [one.proposal for one in story.proposals()]
    barrier, going = threading.Barrier(len(made)), list[Any]()

    def decide(process: Process, id: str, turn_id: str) -> None:
        barrier.wait(20)
        story.confirm(process, id)
        with suppress(TurnRunning):
            going.append(story.go_on(process, turn_id))

    threads = [threading.Thread(target=decide, args=(story.process(GONE), one.id, one.turn_id)) for one in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    [started] = [one for one in going if isinstance(one, Running)]
    await started.run()
    assert story.continuations() == 1
    assert story.rows() == SHORTER
    story.check([ASKED])


async def test_who_decided_and_comes_late_does_not_go_on_from_a_turn_a_second_time(any_world: World) -> None:
    """Another process went on from it meanwhile, and the person wrote again."""
    story = Story(any_world)
    await story.proposing().ask(ASKED)
    made = [one.proposal for one in story.proposals()]
    late = story.process()
    for one in made:
        story.confirm(late, one.id)
    going = story.go_on(story.process(GONE), made[0].turn_id)
    assert isinstance(going, Running)
    await going.run()
    await story.process(STILL_HERE).ask(NEXT)
    assert story.go_on(late, made[0].turn_id) is None
    story.check([ASKED, NEXT])


async def test_what_waits_from_longer_ago_than_the_model_is_told_is_gone_on_from_too(world: World) -> None:
    """Decided while a turn runs, behind three others that called tools."""
    story = Story(world)
    await story.proposing().ask(ASKED)
    made = story.proposals()
    for _ in range(3):
        await story.process(asks(read()), STILL_HERE).ask(NEXT)

    def decide() -> None:
        for one in made:
            story.confirm(story.process(), one.proposal.id)

    await story.process([decide, *STILL_HERE]).ask(NEXT)
    assert "continued_turn" in [job.kind for job in world.jobs.jobs]


# -- a stop that comes while a person is asked


class Stopping:
    """A turn that asks, and that is stopped at some moment before its end."""

    def __init__(self, world: World) -> None:
        self.story = Story(world)
        self.process = self.story.proposing()
        self.stopped = False

    def stop(self) -> None:
        stop_turn(self.story.world.process().context, self.story.world.owner, self.story.world.conversation)
        self.stopped = True

    def confirm(self) -> None:
        self.story.confirm(self.story.process(), self.story.proposals()[0].proposal.id)

    async def run(self) -> None:
        await broken(self.process, lambda: self.process.start(ASKED))
        assert self.process.store.struck


def as_the_calls_are_stored(turn: Stopping) -> None:
    turn.process.store.arm("exchange", hook=turn.stop)


def as_the_end_is_written(turn: Stopping) -> None:
    turn.process.store.arm("finish", hook=turn.stop)


def and_the_answer_to_the_end_is_lost(turn: Stopping) -> None:
    turn.process.store.arm("finish", hook=turn.stop)
    turn.process.store.arm("finish", "late for a while")


def and_the_calls_were_stored_without_an_answer(turn: Stopping) -> None:
    turn.process.store.arm("exchange", "late for a while")
    turn.process.store.arm("finish", hook=turn.stop)


def and_a_yes_was_quicker(turn: Stopping) -> None:
    def both() -> None:
        turn.confirm()
        turn.stop()

    turn.process.store.arm("finish", hook=both)


def and_a_yes_comes_as_they_are_closed(turn: Stopping) -> None:
    turn.process.store.arm("finish", hook=turn.stop)
    turn.process.store.arm("finish", hook=turn.confirm)


def and_the_process_dies_before_it_ends(turn: Stopping) -> None:
    def both() -> None:
        turn.stop()
        turn.process.store.arm("finish", "kill before")

    turn.process.store.arm("finish", hook=both)


@pytest.mark.parametrize(
    ("when", "done"),
    [
        (as_the_calls_are_stored, 0),
        (and_the_answer_to_the_end_is_lost, 0),
        (and_the_calls_were_stored_without_an_answer, 0),
        (and_a_yes_was_quicker, 1),
        (and_the_process_dies_before_it_ends, 0),
    ],
)
async def test_nothing_of_a_stopped_turn_waits_for_a_yes(
    world: World, when: Callable[[Stopping], None], done: int
) -> None:
    await _check_that_nothing_waits(world, when, done)


@pytest.mark.parametrize(("when", "done"), [(as_the_end_is_written, 0), (and_a_yes_comes_as_they_are_closed, 1)])
async def test_a_stop_that_races_the_end_or_a_yes_leaves_nothing_that_waits(
    any_world: World, when: Callable[[Stopping], None], done: int
) -> None:
    await _check_that_nothing_waits(any_world, when, done)


async def _check_that_nothing_waits(world: World, when: Callable[[Stopping], None], done: int) -> None:
    turn = Stopping(world)
    story = turn.story
    when(turn)
    await turn.run()
    assert turn.stopped
    story.end_by_lease()
    made = [one.proposal for one in story.proposals()]
    assert len(made) == (0 if when is as_the_calls_are_stored else 2)
    if turn.process.store.killed:
        await story.process().watch()
    for one in made:
        assert story.go_on(story.process(), one.turn_id) is None, "nothing goes on from a turn that was stopped"
    successor = story.process(STILL_HERE)
    await successor.ask(NEXT)
    made = [one.proposal for one in story.proposals()]
    assert [one.state for one in made] == (["succeeded"] * done + ["rejected"] * 2)[: len(made)]
    assert story.rows() == [ROWS[1:] if done else ROWS, ROWS]
    for one in made:
        with pytest.raises(AlreadyDecided):
            story.confirm(story.process(), one.id)
    told = [message["content"] for message in successor.gateway.messages() if message["role"] == "tool"]
    assert [NOT_RUN_STOPPED in content for content in told[1:]] == [not done, True]
    assert story.outcomes() == Counter({"proposed": len(made), "rejected": len(made) - done, "confirmed": done})
    story.check([ASKED, NEXT])
