"""The state of a conversation's newest turn, and the only ways it may change.

The head is one item with a version. Every change below is written on the condition that the version is still the
one that was read, so of two
that race one wins and the other reads again.
"""

from typing import Literal

from deckhand.domain.model import Model

LEASE_S = 30.0
RENEW_S = 10.0
LINGER_S = 30.0
# Ids that a lost process may have handed out but not stored are skipped.
LOST_ID_GAP = 10_000
MAX_EVENTS = 5_000

Status = Literal["done", "stopped", "failed", "awaiting_confirmation"]


class Head(Model):
    """`fence` rises with every turn; `last_event_id` only ever rises, for the life of the conversation. Instants
    are epoch seconds.
    """

    turn_id: str
    fence: int
    principal: str
    started_at: float
    lease_until: float
    first_event_id: int
    last_event_id: int
    anchor: int
    """Seq of the newest message that the turn answers."""
    generation: str | None = None
    """The transcript that it answers in; a reply of a lost turn does not go into another one."""
    stop: bool = False
    steps: int = 1
    phase: str = "thinking"
    answers: str | None = None
    """The turn whose decided calls this one goes on from."""
    status: Status | None = None
    finished_at: float | None = None

    def running(self, now: float) -> bool:
        return self.status is None and now < self.lease_until

    def lost(self, now: float) -> bool:
        """Past its lease without an end: the process is gone."""
        return self.status is None and now >= self.lease_until

    def renewed(self, now: float, *, last_event_id: int, steps: int, phase: str) -> "Head":
        return self.model_copy(
            update={
                "lease_until": now + LEASE_S,
                "last_event_id": max(self.last_event_id, last_event_id),
                "steps": steps,
                "phase": phase,
            }
        )

    def asked_to_stop(self) -> "Head":
        return self.model_copy(update={"stop": True})

    def ended(self, now: float, status: Status, *, last_event_id: int, steps: int | None = None) -> "Head":
        return self.model_copy(
            update={
                "status": status,
                "finished_at": now,
                "last_event_id": max(self.last_event_id, last_event_id),
                "steps": self.steps if steps is None else steps,
            }
        )


def next_head(
    previous: Head | None,
    *,
    turn_id: str,
    principal: str,
    anchor: int,
    now: float,
    generation: str | None = None,
    answers: str | None = None,
) -> Head:
    """The head of a new turn. The caller made sure that the previous one has ended."""
    last = previous.last_event_id if previous else 0
    return Head(
        turn_id=turn_id,
        fence=(previous.fence if previous else 0) + 1,
        principal=principal,
        started_at=now,
        lease_until=now + LEASE_S,
        first_event_id=last + 1,
        last_event_id=last,
        anchor=anchor,
        generation=generation,
        answers=answers,
    )
