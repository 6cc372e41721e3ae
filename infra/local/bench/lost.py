"""How soon a turn whose process was killed is told as lost, after its lease."""

import time
import uuid
from collections.abc import Iterator

from deckhand.domain.conversation import Header
from deckhand.domain.principal import Principal
from deckhand.domain.times import iso
from deckhand.domain.turn import LEASE_S
from deckhand.storage.sqlite import SqliteStore
from deckhand.storage.sqlite_queue import SqliteQueue
from deckhand.turns.context import TurnContext
from deckhand.turns.start import NewTurn, Turn, owner_of, start_turn
from infra.local.bench.numbers import Measure, at_most, measure
from infra.local.bench.processes import CannotMeasureError

PRINCIPAL = Principal(kind="token", id="bench", user="owner", role="agent")


def lost_measures() -> Iterator[Measure]:
    samples = [_take_over() for _ in range(20)]
    yield measure("take-over of a lost turn, after its lease", "ms", samples, at_most(1_000))


def _take_over() -> float:
    """The clock is moved past the lease, then the next start is timed: it closes the lost turn and takes its place."""
    moved = [0.0]
    store = SqliteStore(":memory:", now=lambda: time.time() + moved[0])
    context = TurnContext.on(
        store,
        now=lambda: time.time() + moved[0],
        new_id=lambda: uuid.uuid4().hex,
        jobs=SqliteQueue(":memory:", now=time.time),
    )
    now = iso(time.time())
    header = Header(id=context.new_id(), title="bench", created_at=now, updated_at=now)
    context.conversations.create(owner_of(PRINCIPAL), header, [], token=context.new_id())
    start_turn(context, NewTurn(PRINCIPAL, header.id, ["first"]))
    moved[0] = LEASE_S + 0.1
    began = time.perf_counter()
    taken = start_turn(context, NewTurn(PRINCIPAL, header.id, ["second"]))
    elapsed = (time.perf_counter() - began) * 1000
    store.close()
    if not isinstance(taken, Turn) or taken.head.head.fence != 2:
        raise CannotMeasureError("The lost turn was not taken over.")
    return elapsed
