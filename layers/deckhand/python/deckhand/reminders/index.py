"""Keeps the index of due reminders in step with cards and people.

A change of a card's reminders, or of a person's zone, leaves a marker in its own transaction. Whoever made it settles
the marker at once; when that process is gone, the next sweep does. What is written holds only on the condition that
card, person and state are still as they were read, so that of two who settle at once the older view never wins.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from deckhand.domain.errors import ConditionFailed, StorageError, StorageUnavailable, UnknownManifest
from deckhand.domain.reminders import Person
from deckhand.domain.times import zone_or
from deckhand.reminders.plan import Change, plan
from deckhand.storage.cards import Card, Cards
from deckhand.storage.due import Due, Marked, Marker, mark
from deckhand.storage.people import People, StoredPerson
from deckhand.storage.port import ItemStore, Op
from deckhand.storage.reminders import Reminders, StoredReminder

logger = logging.getLogger(__name__)
ATTEMPTS = 20


class ReminderIndex:
    """Blocking. `default_zone` is that of people who have not said theirs; `now` gives epoch seconds."""

    def __init__(
        self,
        store: ItemStore,
        tenant: str,
        *,
        default_zone: ZoneInfo,
        now: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        self._store, self._tenant = store, tenant
        self.default_zone = default_zone
        self._now, self._new_id = now, new_id
        self.cards, self.people = Cards(store, tenant), People(store, tenant)
        self.reminders, self.due = Reminders(store, tenant), Due(store, tenant)

    def zone_of(self, person: Person) -> ZoneInfo:
        return self.default_zone if person.zone is None else zone_or(person.zone, self.default_zone)

    # -- what others call when something changed

    def card_changed(self, card: str) -> None:
        """After a change of a card: settles its marker, when it left one. What fails is left to the next sweep."""
        self._settle_soon(Marked.CARD, card)

    def set_person(self, user: str, edit: Callable[[Person], Person]) -> StoredPerson:
        """Changes what a user set for all reminders; everybody who did is reached by reminders."""
        change = self._new_id()
        stored = self.people.change(
            user,
            edit,
            token=change,
            beside=lambda version: [mark(self._tenant, Marked.PERSON, user, f"{change}.{version}")],
        )
        self._settle_soon(Marked.PERSON, user)
        return stored

    # -- settling

    def settle(self, marker: Marker) -> None:
        """Raises storage errors."""
        if marker.kind is Marked.CARD:
            self.arm_card(marker.name)
        else:
            if marker.kind is Marked.ACCOUNT:
                self.set_person(marker.name, lambda person: person.model_copy(update={"away": marker.away}))
            self.arm_person(marker.name)
        self.due.settle(marker, token=self._new_id())

    def arm_card(self, card: str) -> None:
        """One card's reminders for everybody. Raises storage errors."""
        for _ in range(ATTEMPTS):
            found = self.card(card)
            try:
                for stored in self.people.all():
                    self._bring(stored, card, found, self.reminders.states_of_card(stored.user, card))
            except ConditionFailed:
                continue
            return
        raise StorageUnavailable()

    def arm_person(self, user: str) -> None:
        """All cards' reminders for one user. Raises storage errors."""
        for _ in range(ATTEMPTS):
            stored = self.people.find(user)
            held: dict[str, dict[str, StoredReminder]] = {}
            for state in self.reminders.of_user(user).states.values():
                held.setdefault(state.reminder.card, {})[state.reminder.item] = state
            cards = {card.id: card for card in self.cards.all()}
            try:
                for card in {**cards, **held}:
                    self._bring(stored, card, cards.get(card), held.get(card, {}))
            except ConditionFailed:
                continue
            return
        raise StorageUnavailable()

    def arm_everybody(self) -> None:
        """Everything anew: what the index holds, whatever it is, ends in step. Raises storage errors."""
        for stored in self.people.all():
            self.arm_person(stored.user)

    # -- inside

    def _settle_soon(self, kind: Marked, name: str) -> None:
        try:
            marker = self.due.marker(kind, name)
            if marker is not None:
                self.settle(marker)
        except StorageError:
            logger.warning("reminders not brought in step; the next sweep does it", exc_info=True)

    def card(self, card: str) -> Card | None:
        """None when there is no such card."""
        try:
            return self.cards.find(card)
        except UnknownManifest:
            return None

    def _bring(self, stored: StoredPerson, card: str, found: Card | None, held: Mapping[str, StoredReminder]) -> None:
        """One user's reminders of one card, in one transaction."""
        manifest: Mapping[str, Any] | None = None if found is None else found.manifest
        reminders = {item: state.reminder for item, state in held.items()}
        person = stored.person
        changes = plan(card, manifest, reminders, self.zone_of(person), self._now(), away=person.away)
        ops = [op for change in changes for op in self._ops(stored.user, change, held)]
        if ops:
            checks = [self.cards.unchanged(card, found), self.people.unchanged(stored)]
            self._store.write([*checks, *ops], token=self._new_id())

    def _ops(self, user: str, change: Change, held: Mapping[str, StoredReminder]) -> list[Op]:
        old, new = change.old, change.new
        ops: list[Op] = []
        version = None if old is None else held[old.item].version
        if new is None and old is not None and version is not None:
            ops += self.reminders.forget(user, old.id, version)
        elif new is not None:
            ops.append(self.reminders.put_state(user, new, version))
        here = None if new is None or new.pending is None else self.due.put(user, new, new.pending)
        if old is not None and old.pending is not None:
            gone = self.due.take(user, old, old.pending)
            if here is None or here.key != gone.key:
                ops.append(gone)
        if here is not None:
            ops.append(here)
        return ops
