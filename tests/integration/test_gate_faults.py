"""A decision that is raced, delayed, failed or killed at any moment: one outcome at most, its effect exactly once."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

import pytest

from deckhand.domain.errors import AlreadyDecided, DeckhandError
from deckhand.domain.job import Actor
from deckhand.domain.proposal import EXECUTING_S, Proposal, arguments_hash
from deckhand.operations.catalog import REGISTRY
from deckhand.operations.execution import perform
from deckhand.storage.audit import read_entries
from deckhand.storage.proposals import Proposals, StoredProposal, proposal_id
from deckhand.turns.decision import Decisions
from tests.faults import Killed, Kind, Point, Process, World

ROWS = ["first", "second", "third"]
FAULTS = [kind for kind in get_args(Kind) if kind != "clock"]
POINTS: tuple[Point, ...] = ("decide", "effect", "settle")


@dataclass
class Gate:
    """A card with three rows, and a proposal to remove the first, in a world's store."""

    world: World

    def __post_init__(self) -> None:
        self.card = "weight"
        meta = {"id": self.card, "label": "Weight", "writeable": {"fromWebapp": True, "pastAllowed": True}}
        manifest = {"$schema": "klebb.datafile.v1", "meta": meta, "data": ROWS}
        self._run(self.world.process(), "create_manifest", {"manifest": manifest})
        self.id = proposal_id(self.world.conversation, "p1")

    def propose(self) -> None:
        process, now = self.world.process(), self.world.clock.time
        arguments = '{"id":"weight","path":"[index=0]"}'
        proposal = Proposal(
            id=self.id,
            conversation=self.world.conversation,
            turn_id="t1",
            anchor=1,
            call_id="c1",
            tool="remove_row",
            arguments=arguments,
            arguments_hash=arguments_hash(arguments),
            summary="Remove a row",
            card=self.card,
            destructive=True,
            actor=Actor.of(self.world.person),
            channel="chat",
            created_at=now,
            expires_at=now + 900,
        )
        Proposals(process.store).add(self.world.owner, [proposal], token=self.world.new_id())

    def decisions(self, process: Process) -> Decisions:
        return Decisions(process.context, lambda principal, _: process._caller(principal))

    def find(self, process: Process | None = None) -> StoredProposal:
        return self.decisions(process or self.world.process()).find(self.world.owner, self.id)

    def confirm(self, process: Process) -> None:
        self.decisions(process).confirm(self.world.person, self.find(process))

    def reject(self, process: Process) -> None:
        self.decisions(process).reject(self.world.person, self.find(process))

    def rows(self) -> list[Any]:
        process = self.world.process()
        cards = process._caller(self.world.person).cards
        return [row.value for row in cards.rows(cards.find(self.card))]

    def effects(self) -> int:
        """How often the audit says that the row was removed."""
        page = read_entries(self.world.store, self.world.owner.tenant, after=None, limit=500, newest_first=False)
        return sum(e.operation == "remove_row" and e.outcome == "succeeded" for e in page.entries)

    def _run(self, process: Process, name: str, arguments: dict[str, Any]) -> None:
        operation = REGISTRY.find(name)
        assert operation is not None
        caller = replace(process._caller(self.world.person), channel="api")
        perform(caller, operation, operation.input.model_validate(arguments))


@pytest.fixture
def gate(any_world: World) -> Gate:
    gate = Gate(any_world)
    gate.propose()
    return gate


def together(calls: Sequence[Callable[[], None]]) -> list[BaseException | None]:
    """Runs all at once; what each raised."""
    results: list[BaseException | None] = [None] * len(calls)
    barrier = threading.Barrier(len(calls))

    def run(number: int) -> None:
        barrier.wait(20)
        try:
            calls[number]()
        except DeckhandError as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def test_defect_1_case_36_of_eight_yeses_and_eight_noes_at_once_one_counts(gate: Gate) -> None:
    calls = [partial(decide, gate.world.process()) for decide in [gate.confirm, gate.reject] * 8]
    results = together(calls)
    refusals = [error for error in results if error is not None]
    assert len(refusals) == 15
    assert all(isinstance(error, AlreadyDecided) for error in refusals)
    state = gate.find().proposal.state
    won = results.index(None)
    assert state == ("succeeded" if won % 2 == 0 else "rejected")
    assert gate.rows() == (ROWS[1:] if state == "succeeded" else ROWS)
    assert gate.effects() == int(state == "succeeded")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", FAULTS)
def test_a_yes_that_is_broken_anywhere_takes_effect_once_and_can_be_brought_to_its_end(
    gate: Gate, point: Point, kind: Kind
) -> None:
    process = gate.world.process()
    process.store.arm(point, kind)
    with suppress(Killed, DeckhandError):
        gate.confirm(process)
    assert process.store.struck
    gate.world.clock.time += EXECUTING_S + 1
    found = gate.find()
    assert found.proposal.state in ("proposed", "succeeded", "failed")
    if found.proposal.state == "proposed":
        assert gate.rows() == ROWS, "nothing was done yet"
        gate.confirm(gate.world.process())
    if gate.find().proposal.state == "failed":
        # The store did not take the operation; the person is told, and may ask again.
        assert (point, kind.partition(" ")[0]) == ("effect", "fail")
        assert gate.rows() == ROWS
        assert gate.effects() == 0
        return
    assert gate.find().proposal.state == "succeeded"
    assert gate.rows() == ROWS[1:]
    assert gate.effects() == 1


def test_defect_3_a_process_that_comes_back_after_its_lease_writes_nothing_any_more(gate: Gate) -> None:
    ghost = gate.world.process()

    def meanwhile() -> None:
        gate.world.clock.time += EXECUTING_S + 1
        assert gate.find().proposal.state == "proposed", "given up"
        gate.reject(gate.world.process())

    ghost.store.arm("effect", hook=meanwhile)
    with suppress(AlreadyDecided):
        gate.confirm(ghost)
    assert ghost.store.struck
    assert gate.find().proposal.state == "rejected"
    assert gate.rows() == ROWS
    assert gate.effects() == 0


def test_a_process_that_was_given_up_after_its_effect_is_found_to_have_done_it(gate: Gate) -> None:
    process = gate.world.process()
    process.store.arm("effect", "kill after")
    with suppress(Killed):
        gate.confirm(process)
    assert gate.rows() == ROWS[1:]
    gate.world.clock.time += EXECUTING_S + 1
    with pytest.raises(AlreadyDecided) as refused:
        gate.reject(gate.world.process())
    assert refused.value.details["outcome"] == "succeeded"
    assert gate.effects() == 1
