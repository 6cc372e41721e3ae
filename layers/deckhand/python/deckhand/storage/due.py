"""The due index: which occurrences are pending, and the desk that every sweep looks at first.

    deck  <tenant>#due#<minute>  <user>#<card>#<item>            an occurrence, at its minute of UTC
    deck  <tenant>#sweep         cursor                          the last minute that was swept
    deck  <tenant>#sweep         due#<minute>#<user>#<card>#<item>  an occurrence that was near when it was written
    deck  <tenant>#sweep         outbox#<fire>                   a push that was claimed and is not known to be queued
    deck  <tenant>#sweep         card#<card>, person#<user>, account#<user>
                                                                 what changed, until the index is in step again

The desk is one partition, so that a sweep with nothing due reads two things: the desk and the minute.
"""

import zlib
from dataclasses import dataclass, field
from enum import StrEnum

from deckhand.domain.errors import ConditionFailed
from deckhand.domain.job import Job
from deckhand.domain.model import Model
from deckhand.domain.occurrence import minute_text
from deckhand.domain.reminders import Reminder
from deckhand.storage.port import ABSENT, Condition, Delete, Item, ItemStore, Key, Put, VersionIs


class Outgoing(Model):
    """A push on its way to the queue, with the instant of its claim (epoch seconds)."""

    job: Job
    at: float


@dataclass(frozen=True, slots=True)
class Cursor:
    """`minute` in epoch seconds; None before the first sweep. `zone`: that of people who have not said theirs, by which
    the index was made.
    """

    minute: int | None = None
    version: int = 0
    zone: str = ""


class Marked(StrEnum):
    """What a marker says has changed: a card's reminders, a person's settings, or that an account came or went."""

    CARD = "card"
    PERSON = "person"
    ACCOUNT = "account"


class Mark(Model):
    """`away` is an account's: whether it is disabled now."""

    away: bool = False


@dataclass(frozen=True, slots=True)
class Marker:
    """Says that what is of this kind and name changed."""

    key: Key
    kind: Marked
    name: str
    version: int
    away: bool = False


@dataclass(slots=True)
class Desk:
    """`near` are the users with an occurrence that was kept here, and its instant."""

    cursor: Cursor = field(default_factory=Cursor)
    near: list[tuple[int, str]] = field(default_factory=list)
    outgoing: list[Outgoing] = field(default_factory=list)
    markers: list[Marker] = field(default_factory=list)


class Occurring(Model):
    """An occurrence as it is stored: whose, and when."""

    user: str
    at: int


class CursorAt(Model):
    minute: int
    zone: str = ""


class Due:
    """Blocking; raises storage errors."""

    def __init__(self, store: ItemStore, tenant: str) -> None:
        self._store, self._tenant = store, tenant

    # -- occurrences

    def put(self, user: str, reminder: Reminder, at: int) -> Put:
        key = self._place(user, reminder, at)
        return Put(Item(key.table, key.pk, key.sk, Occurring(user=user, at=at).to_json()))

    def take(self, user: str, reminder: Reminder, at: int) -> Delete:
        return Delete(self._place(user, reminder, at))

    def users_at(self, minute: int) -> set[str]:
        """Who has an occurrence in that minute. One query."""
        items = self._store.query("deck", f"{self._tenant}#due#{minute_text(minute)}").items
        return {Occurring.model_validate_json(item.body).user for item in items}

    # -- the desk

    def desk(self) -> Desk:
        """All that lies on it. One query."""
        found = Desk()
        for item in self._store.query("deck", self._desk_pk).items:
            kind = item.sk.partition("#")[0]
            if kind == "cursor":
                at = CursorAt.model_validate_json(item.body)
                found.cursor = Cursor(at.minute, item.version, at.zone)
            elif kind == "due":
                near = Occurring.model_validate_json(item.body)
                found.near.append((near.at, near.user))
            elif kind == "outbox":
                found.outgoing.append(Outgoing.model_validate_json(item.body))
            else:
                found.markers.append(_marker(item))
        return found

    def move(self, cursor: Cursor, minute: int, *, zone: str, token: str) -> Cursor | None:
        """None when another sweep moved it meanwhile: it knows better."""
        version = cursor.version + 1
        condition: Condition = VersionIs(cursor.version) if cursor.version else ABSENT
        body = CursorAt(minute=minute, zone=zone).to_json()
        try:
            self._store.write([Put(Item("deck", self._desk_pk, "cursor", body, version), condition)], token=token)
        except ConditionFailed:
            return None
        return Cursor(minute, version, zone)

    def put_outgoing(self, outgoing: Outgoing) -> Put:
        key = self._outbox(outgoing.job)
        return Put(Item(key.table, key.pk, key.sk, outgoing.to_json()))

    def sent(self, jobs: list[Job]) -> None:
        """They are in the queue."""
        self._store.delete_many([self._outbox(job) for job in jobs])

    def marker(self, kind: Marked, name: str) -> Marker | None:
        item = self._store.get(Key("deck", self._desk_pk, f"{kind}#{name}"))
        return None if item is None else _marker(item)

    def settle(self, marker: Marker, *, token: str) -> None:
        """Takes the marker away, unless there was another change since."""
        try:
            self._store.write([Delete(marker.key, VersionIs(marker.version))], token=token)
        except ConditionFailed:
            return

    def _place(self, user: str, reminder: Reminder, at: int) -> Key:
        minute, name = minute_text(at), f"{user}#{reminder.id}"
        if reminder.near:
            return Key("deck", self._desk_pk, f"due#{minute}#{name}")
        return Key("deck", f"{self._tenant}#due#{minute}", name)

    @property
    def _desk_pk(self) -> str:
        return desk_pk(self._tenant)

    def _outbox(self, job: Job) -> Key:
        return Key("deck", self._desk_pk, f"outbox#{job.fire}")


def desk_pk(tenant: str) -> str:
    return f"{tenant}#sweep"


def mark(tenant: str, kind: Marked, name: str, change: str, *, away: bool = False) -> Put:
    """For the transaction of a change that the index must follow. `change` names it: no two share a version."""
    version = 1 + zlib.crc32(change.encode())
    return Put(Item("deck", desk_pk(tenant), f"{kind}#{name}", Mark(away=away).to_json(), version))


def _marker(item: Item) -> Marker:
    kind, _, name = item.sk.partition("#")
    away = Mark.model_validate_json(item.body).away
    return Marker(Key(item.table, item.pk, item.sk), Marked(kind), name, item.version, away)
