"""The job queue's port: at least once, in no order; a job that keeps failing is put aside, never lost silently."""

from collections.abc import Sequence
from typing import Protocol

from deckhand.domain.job import Job

MAX_TRIES = 5


class JobQueue(Protocol):
    def send(self, job: Job) -> None:
        """Hands the job over. Raises `StorageUnavailable` when the queue did not take it."""
        ...

    def send_many(self, jobs: Sequence[Job]) -> None:
        """Hands all of them over. Raises `StorageUnavailable` when the queue did not take every one; it may have taken
        some.
        """
        ...

    def delay(self, receipt: str, seconds: float) -> None:
        """When a job that is about to fail comes again, at the soonest; without it, when its worker would have run out
        of time. `receipt` is of the present delivery. Raises `StorageUnavailable`.
        """
        ...
