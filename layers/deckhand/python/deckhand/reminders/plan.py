"""What the index must hold for one user and one card, beside what it holds. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from deckhand.domain.occurrence import DAY, Occurrence, next_occurrence, rule_of
from deckhand.domain.reminders import Reminder, items_of, missed, switched_off
from deckhand.domain.times import local

NEAR_S = 120
"""A turn this near might be written into a minute that has been swept; it is kept where every sweep looks."""
AHEAD_S = 2 * DAY
"""A slot further ahead came by a clock that was wrong; a zone alone moves nobody by more than a day."""


@dataclass(frozen=True, slots=True)
class Change:
    """From `old` to `new`; None is not there."""

    old: Reminder | None
    new: Reminder | None


def plan(
    card: str,
    manifest: Mapping[str, Any] | None,
    held: Mapping[str, Reminder],
    zone: ZoneInfo,
    now: float,
    *,
    away: bool = False,
) -> Iterator[Change]:
    """The changes that bring `held` (by item) in step with the manifest (None: no such card) and the zone. No turn is
    pending for one who is `away`.

    A reminder that is new, or whose trigger changed, begins with its next slot; at another time of day, none of its
    slots has been. One whose turn has come and was not
    swept yet keeps the one that counts through a change of zone.
    """
    items = {item["id"]: item for item in items_of(manifest)} if manifest is not None else {}
    off = away or (manifest is not None and switched_off(manifest))
    for item_id, item in items.items():
        old = held.get(item_id)
        new = _wanted(card, item, old, zone, now, off=off)
        if new != old:
            yield Change(old, new)
    for item_id, old in held.items():
        if item_id not in items:
            yield Change(old, None)


def _wanted(
    card: str, item: Mapping[str, Any], old: Reminder | None, zone: ZoneInfo, now: float, *, off: bool
) -> Reminder:
    changed = old is None or old.trigger != item["trigger"]
    base = old or Reminder(card=card, item=item["id"], trigger=item["trigger"])
    base = base.model_copy(update={"trigger": item["trigger"], "default_on": item.get("default", "on") == "on"})
    moved = old is not None and old.trigger["time"] != item["trigger"]["time"]
    if moved or base.last_slot > f"{local(now + AHEAD_S, zone):%Y-%m-%dT%H:%M}":
        base = base.model_copy(update={"last_slot": ""})
    if off:
        return base.with_turn(None, zone, near=False)
    if not changed and base.pending is not None and base.pending <= now:
        return base if base.zone == zone.key else base.with_turn(missed(base, now), zone, near=True)
    turn = next_occurrence(rule_of(base.trigger), zone, now, beyond=base.last_slot)
    if not changed and base.pending == turn.at and base.slot == turn.slot and base.zone == zone.key:
        return base
    return base.with_turn(turn, zone, near=is_near(turn, now))


def is_near(turn: Occurrence, now: float) -> bool:
    return turn.at - now < NEAR_S
