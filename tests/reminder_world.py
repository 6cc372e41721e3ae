"""A deployment of reminders in this process: a deck over HTTP events, people, a clock, a queue, and sweeps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from deckhand.domain.job import Job
from deckhand.domain.principal import Principal
from deckhand.reminders.claim import Claims
from deckhand.reminders.index import ReminderIndex
from deckhand.reminders.sweep import Sweep, Swept
from deckhand.storage.port import ItemStore
from tests.deck import Answer, Deck
from tests.fakes import FakeQueue, Ids
from tests.stores import Clock

WEIGHT = "weight"
TEXT = {"label": "Weigh in", "title": "Weigh in", "body": "Before breakfast"}


def at(text: str) -> float:
    """Epoch seconds of an instant such as `2026-03-29 01:30`, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def daily(time: str) -> dict[str, Any]:
    return {"type": "daily", "time": time}


@dataclass
class World:
    folder: Path
    store: ItemStore
    clock: Clock
    zone: str = "UTC"
    queue: FakeQueue = field(default_factory=FakeQueue)
    ids: Callable[[], str] = field(default_factory=Ids)

    def __post_init__(self) -> None:
        self.deck = Deck(self.folder, self.store, {"DECKHAND_TZ": self.zone})
        self.deck.parts.__dict__["now"] = self.clock
        self.deck.parts.__dict__["jobs"] = self.queue
        self.sign_in("owner")

    def sign_in(self, user: str) -> None:
        """From here on requests are this user's."""
        self.deck.sign_in(Principal(kind="user", id=user, user=user, role="owner"))

    def index(self, store: ItemStore | None = None) -> ReminderIndex:
        return ReminderIndex(
            store or self.store, "main", default_zone=ZoneInfo(self.zone), now=self.clock, new_id=self.ids
        )

    def sweeper(self, store: ItemStore | None = None, *, workers: int = 1) -> Sweep:
        """One process's, with its own way to the store."""
        index = self.index(store)
        claims = Claims(index, store or self.store, tenant="main", now=self.clock, new_id=self.ids)
        return Sweep(index, claims, self.queue, now=self.clock, new_id=self.ids, workers=workers)

    def sweep(self) -> Swept:
        return self.sweeper().run()

    def go(self, text: str) -> list[Job]:
        """Moves the clock to an instant of UTC, sweeps, and hands out what was queued."""
        self.clock.time = at(text)
        self.sweep()
        return self.pushed()

    def pushed(self) -> list[Job]:
        jobs, self.queue.jobs = self.queue.jobs, []
        return [job for job in jobs if job.kind == "push"]

    def fired(self, text: str) -> list[str]:
        """The reminders that a sweep at an instant pushes."""
        return [reminder for job in self.go(text) for reminder in job.reminders]

    def remind(self, item: str, trigger: Mapping[str, Any], *, card: str = WEIGHT, **more: Any) -> Answer:
        """Sets a reminder over HTTP."""
        body = {**TEXT, "trigger": trigger, **more}
        return self.deck("PUT", f"/api/manifests/{card}/notifications/{item}", body)

    def listed(self) -> dict[str, dict[str, Any]]:
        """The reminders of whoever is signed in, by id."""
        return {one["id"]: one for one in self.deck.get("/api/notifications")["notifications"]}

    def moves_to(self, zone: str) -> Any:
        answer = self.deck("POST", "/api/user/tz", {"tz": zone})
        assert answer.status == 200, answer
        return answer.body
