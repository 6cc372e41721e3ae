"""On whose behalf an operation runs, and what it may use. Operations know nothing of HTTP or models."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from zoneinfo import ZoneInfo

from deckhand.domain.access import Policy
from deckhand.domain.allowance import Allowance
from deckhand.domain.audit import Origin
from deckhand.domain.errors import StorageError
from deckhand.domain.job import Actor, Job, Notice
from deckhand.domain.principal import Channel, Principal
from deckhand.domain.times import local
from deckhand.push.service import PushService
from deckhand.reminders.index import ReminderIndex
from deckhand.storage.cards import Cards
from deckhand.storage.conversations import Conversations, Owner
from deckhand.storage.once import ReadOnce
from deckhand.storage.port import ItemStore
from deckhand.storage.queue import JobQueue
from deckhand.storage.reports import Reports
from deckhand.storage.turns import Turns

NO_ORIGIN = Origin()


@dataclass(frozen=True)
class Caller:
    """`now` gives epoch seconds; `default_zone` is that of users who have not said theirs; `random` gives that many
    bytes for secrets; every store is bound to the principal's tenant. `confirmed`: a person has agreed to this very
    call, and `target` is the hash of what they were shown that it changes, where it has one. `origin` is the turn it
    belongs to. `bound` is a card and the version that the call may change.
    """

    principal: Principal
    channel: Channel
    policy: Policy
    store: ItemStore
    jobs: JobQueue
    reports: Reports
    now: Callable[[], float]
    new_id: Callable[[], str]
    default_zone: ZoneInfo
    random: Callable[[int], bytes] = os.urandom
    allowance: Allowance = field(default_factory=Allowance)
    push: PushService = field(default_factory=PushService)
    confirmed: bool = False
    bound: tuple[str, int] | None = None
    target: str | None = None
    origin: Origin = NO_ORIGIN

    def looking(self) -> "Caller":
        """The same for one look at what a call is about: nothing is read twice."""
        return replace(self, store=ReadOnce(self.store))

    @property
    def owner(self) -> Owner:
        return Owner(self.principal.tenant, self.principal.user)

    @cached_property
    def zone(self) -> ZoneInfo:
        """The user's. Costs a read, once."""
        return self.reminders.zone_of(self.reminders.people.find(self.principal.user).person)

    @property
    def today(self) -> date:
        """In the user's zone, everywhere."""
        return local(self.now(), self.zone).date()

    @property
    def cards(self) -> Cards:
        return Cards(self.store, self.principal.tenant, bound=self.bound)

    @property
    def conversations(self) -> Conversations:
        return Conversations(self.store)

    @property
    def turns(self) -> Turns:
        return Turns(self.store)

    @property
    def reminders(self) -> ReminderIndex:
        return ReminderIndex(
            self.store,
            self.principal.tenant,
            default_zone=self.default_zone,
            now=self.now,
            new_id=self.new_id,
        )

    def drop_rows(self, card: str, generation: str) -> None:
        """Behind the request; what a failing queue leaves behind is out of sight, and does no harm but take room."""
        self._send(Job(kind="drop_rows", actor=Actor.of(self.principal), card=card, generation=generation))

    def announce(self, notice: Notice) -> None:
        """Told to whoever listens behind the queue."""
        self._send(Job(kind="notices", actor=Actor.of(self.principal), notices=(notice,)))

    def _send(self, job: Job) -> None:
        with suppress(StorageError):
            self.jobs.send(job)
