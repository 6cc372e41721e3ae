"""`onBusy: interrupt`: stop the running turn, then start this one."""

import time
from collections.abc import Callable

from deckhand.domain.errors import NoTurnRunning, TurnRunning
from deckhand.domain.turn import LEASE_S
from deckhand.turns.context import TurnContext
from deckhand.turns.idempotency import Claimed
from deckhand.turns.start import NewTurn, Turn, start_turn
from deckhand.turns.stop import stop_turn

# A turn that is lost frees its conversation when its lease is over.
PATIENCE_S = LEASE_S + 5.0


def interrupt_and_start(
    context: TurnContext, wanted: NewTurn, *, sleep: Callable[[float], None] = time.sleep
) -> Turn | Claimed:
    """Raises as `start_turn`; `TurnRunning` when the running turn did not end in time (a tool that takes long)."""
    waited = 0.0
    while True:
        try:
            return start_turn(context, wanted)
        except TurnRunning as running:
            if waited >= PATIENCE_S:
                raise
            # A turn that has nothing left to run on stops no other.
            wanted.admit()
            _stop(context, wanted, running.details["turnId"])
        sleep(context.pace.poll_first)
        waited += context.pace.poll_first


def _stop(context: TurnContext, wanted: NewTurn, turn_id: str) -> None:
    try:
        stop_turn(context, wanted.owner, wanted.conversation, turn_id)
    except NoTurnRunning:
        return
