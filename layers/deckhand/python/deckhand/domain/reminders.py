"""A person's reminders: what the index remembers of each, what the person chose, and what becomes of one whose turn
has come.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from zoneinfo import ZoneInfo

from deckhand.domain.cards import enabled as shown
from deckhand.domain.model import Model
from deckhand.domain.occurrence import Occurrence, latest_occurrence, next_occurrence, rule_of
from deckhand.domain.times import local, zone_or

LATE_S = 300
"""From here on a push is marked late."""
LATEST_S = 6 * 3600
"""A turn that is missed by more than this is never told."""

Status = Literal["sent", "no_device", "quiet", "paused", "late", "failed"]
Fate = Literal["push", "off", "quiet", "paused", "late"]
Privacy = Literal["private", "public"]


class QuietHours(Model):
    """From `start` until `end`, wall-clock times as HH:MM; over midnight when the end is the earlier."""

    start: str
    end: str

    def cover(self, clock: str) -> bool:
        if self.start <= self.end:
            return self.start <= clock < self.end
        return clock >= self.start or clock < self.end


class Person(Model):
    """What a user set for all reminders. `zone` None: the deployment's. `paused_until` in epoch seconds. `away`: the
    account is disabled, and no reminder reaches it.
    """

    zone: str | None = None
    quiet_hours: QuietHours | None = None
    paused_until: float | None = None
    away: bool = False


class Choice(Model):
    """What a user set for one reminder; None leaves it to the card."""

    enabled: bool | None = None
    privacy: Privacy | None = None


class Fire(Model):
    """When a reminder's turn last came (epoch seconds), and what became of it."""

    at: float
    status: Status


class Reminder(Model):
    """One reminder of one user in the index, with its trigger as the card has it.

    `pending` is the instant of its next turn in epoch seconds, None while the card's reminders are off as a whole;
    `slot` the local time that it stands for; `near` tells where it is kept; `zone` is what later turns are reckoned in.
    `last_slot` is the last local time whose turn came: slots of a reminder only rise, whatever moves.
    """

    card: str
    item: str
    trigger: dict[str, Any]
    default_on: bool = True
    zone: str = "UTC"
    pending: int | None = None
    slot: str = ""
    near: bool = False
    last_slot: str = ""

    @property
    def id(self) -> str:
        return f"{self.card}#{self.item}"

    def with_turn(self, turn: Occurrence | None, zone: ZoneInfo, *, near: bool) -> "Reminder":
        moved: dict[str, Any] = {"pending": None, "slot": "", "near": False}
        if turn is not None:
            moved = {"pending": turn.at, "slot": turn.slot, "near": near}
        return self.model_copy(update={**moved, "zone": zone.key})


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that has come: the slot that counts, the next one, and how many seconds have gone by."""

    came: Occurrence
    follows: Occurrence
    missed_by: float


def turn_of(reminder: Reminder, zone: ZoneInfo, now: float) -> Turn:
    """Of a reminder whose pending instant has come. The next one is reckoned from now, in the zone of now."""
    came = missed(reminder, now)
    follows = next_occurrence(rule_of(reminder.trigger), zone, now, beyond=came.slot)
    return Turn(came, follows, now - came.at)


def missed(reminder: Reminder, now: float) -> Occurrence:
    """The turn that counts of a reminder whose pending instant has come."""
    first = Occurrence(reminder.pending or 0, reminder.slot)
    return latest_occurrence(rule_of(reminder.trigger), zone_or(reminder.zone, ZoneInfo("UTC")), first, now)


def fate(person: Person, choice: Choice, zone: ZoneInfo, *, default_on: bool, missed_by: float, now: float) -> Fate:
    """What becomes of a turn. The pause or the quiet hours that it came in use it up, also when it is swept after them;
    those of now do, too.
    """
    if not is_on(choice, default_on=default_on):
        return "off"
    if missed_by > LATEST_S:
        return "late"
    came = now - missed_by
    if person.paused_until is not None and came < person.paused_until:
        return "paused"
    quiet = person.quiet_hours
    if quiet is not None and any(quiet.cover(local(moment, zone).strftime("%H:%M")) for moment in (came, now)):
        return "quiet"
    return "push"


def is_on(choice: Choice, *, default_on: bool) -> bool:
    return default_on if choice.enabled is None else choice.enabled


def items_of(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A card's reminder items."""
    block = manifest["meta"].get("notifications") or {}
    return list(block.get("items") or [])


def switched_off(manifest: Mapping[str, Any]) -> bool:
    """Whether the card's reminders are off as a whole: by themselves, or as the card is hidden."""
    block = manifest["meta"].get("notifications") or {}
    return bool(block.get("enabled") is False or not shown(manifest))


def reminders_differ(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> bool:
    """Whether the index has to know of this change of a card; None is no card."""
    return _told(old) != _told(new)


def _told(manifest: Mapping[str, Any] | None) -> object:
    items = items_of(manifest) if manifest is not None else []
    if manifest is None or not items:
        return None
    return switched_off(manifest), [(item["id"], item["trigger"], item.get("default")) for item in items]
