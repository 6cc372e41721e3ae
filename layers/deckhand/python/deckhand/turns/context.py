"""What every part of a turn needs from outside: stores, clock, ids, pace."""

from collections.abc import Callable
from dataclasses import dataclass

from deckhand.storage.conversations import Conversations
from deckhand.storage.port import ItemStore
from deckhand.storage.queue import JobQueue
from deckhand.storage.turns import Turns


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. On DynamoDB each write costs; SQLite can be quicker.

    The log is written every `flush_first`, growing to `flush_grown` in a long turn; readers look every `poll_first` to
    `poll_grown`; the run looks for a stop every `watch`.
    """

    flush_first: float = 0.25
    flush_grown: float = 0.55
    poll_first: float = 0.1
    poll_grown: float = 0.5
    watch: float = 0.5


@dataclass(frozen=True, slots=True)
class TurnContext:
    """`now` gives epoch seconds, `new_id` a fresh id (also used as write token)."""

    store: ItemStore
    conversations: Conversations
    turns: Turns
    now: Callable[[], float]
    new_id: Callable[[], str]
    jobs: JobQueue
    pace: Pace = Pace()

    @classmethod
    def on(
        cls,
        store: ItemStore,
        *,
        now: Callable[[], float],
        new_id: Callable[[], str],
        jobs: JobQueue,
        pace: Pace | None = None,
    ) -> "TurnContext":
        return cls(store, Conversations(store), Turns(store), now, new_id, jobs, pace or Pace())
