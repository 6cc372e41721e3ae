"""Reminders of a card: set one, remove one."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired

from pydantic import Field

from deckhand.domain.cards import check_manifest
from deckhand.domain.errors import InvalidManifestField, UnknownNotification
from deckhand.domain.faults import Faults
from deckhand.domain.merge_patch import merge
from deckhand.domain.notifications import MAX_ITEMS, check_item, plain_trigger
from deckhand.domain.reminders import switched_off
from deckhand.domain.slug import slug
from deckhand.operations.arguments import Arguments, IfMatch
from deckhand.operations.caller import Caller
from deckhand.operations.manifest_schema import TRIGGER
from deckhand.operations.registry import Http, operation
from deckhand.operations.schema import HTTP_SCHEMA
from deckhand.operations.shapes import Done
from deckhand.storage.cards import Card, Change

ROUTE = "/api/manifests/{card_id}/notifications/{notification_id}"


class Reminder(Arguments):
    card_id: str = Field(description="The card's id.")
    notification_id: str | None = Field(default=None, description="Leave out to make a new one from the label.")
    label: str = Field(description="What the person calls it, at most 80 characters.")
    title: str = Field(description="At most 30 characters.")
    body: str = Field(description="At most 80 characters: a reminder to act, never values or past entries.")
    trigger: dict[str, Any] = Field(
        description=(
            '{"type": "daily", "time": "08:00"} or {"type": "weekly", "time": "08:00", "days": ["mon", "thu"]}, '
            "in the person's time; or schedule_due with card, time_of_day and time: only when that card's plan has "
            "something left to do, which title and body may name as {schedule_due} and {missed_earlier}."
        ),
        json_schema_extra={HTTP_SCHEMA: TRIGGER},
    )
    privacy: Literal["private", "public"] | None = Field(default=None, description="private (default) hides the text.")
    if_match: IfMatch = None


class ReminderId(Arguments):
    card_id: str = Field(description="The card's id.")
    notification_id: str = Field(description="The reminder's id, as the card's meta.notifications.items has it.")
    if_match: IfMatch = None


class NamedReminder(Done):
    card_id: str
    notification_id: str


class SetReminder(NamedReminder):
    """`created`: there was none of that id. `trigger` is how a trigger was read that came in another form, and
    `remindersOff` says that the card's reminders are switched off as a whole, so that this one will not fire.
    """

    created: bool
    trigger: NotRequired[dict[str, Any]]
    remindersOff: NotRequired[str]


class RemovedReminder(NamedReminder):
    """`remaining` counts the reminders that the card still has."""

    remaining: int


@operation(
    summary="Set a reminder on a card",
    description="Adds or changes a reminder on a card. Only when the person asked for one.",
    input=Reminder,
    http=Http("PUT", ROUTE),
    agent=True,
    mutates=True,
    card="card_id",
    change="changed",
    label="Setting a reminder",
)
def set_notification(caller: Caller, given: Reminder) -> SetReminder:
    """The same id again changes it, and so does the same label at the same time; another one with the same slug gets a
    number. A card whose reminders are
    switched off as a whole stays so.

    Raises `UnknownManifest`, `InvalidManifestField`, `StaleVersion`.
    """
    results: list[SetReminder] = []
    trigger = plain_trigger(given.trigger)

    def edit(card: Card) -> Change:
        block = card.manifest["meta"].get("notifications") or {}
        items = list(block.get("items") or [])
        by_id = {item["id"]: n for n, item in enumerate(items)}
        item_id = given.notification_id or _known(items, given.label, trigger) or slug(given.label, by_id, "reminder")
        at = by_id.get(item_id)
        fresh = given.model_dump(exclude_none=True, exclude={"card_id", "notification_id", "if_match"})
        item = {**(items[at] if at is not None else {}), **fresh, "trigger": trigger, "id": item_id}
        _check(item, len(items) + (at is None))
        items[len(items) if at is None else at : len(items) if at is None else at + 1] = [item]
        patch = {
            "meta": {"notifications": {**block, "enabled": block.get("enabled", True) is not False, "items": items}}
        }
        manifest = merge(card.manifest, patch)
        check_manifest(manifest)
        result: SetReminder = {
            "ok": True,
            "card_id": given.card_id,
            "notification_id": item_id,
            "created": at is None,
        }
        if trigger != given.trigger:
            result["trigger"] = trigger
        if switched_off(card.manifest):
            result["remindersOff"] = "The reminders of this card are switched off as a whole, so it will not fire."
        results[:] = [result]
        return Change(card.state, manifest)

    caller.cards.change(given.card_id, edit, token=caller.new_id(), version=given.if_match)
    caller.reminders.card_changed(given.card_id)
    return results[0]


def _known(items: Sequence[Mapping[str, Any]], label: str, trigger: Mapping[str, Any]) -> str | None:
    """The reminder that a call without an id means when it comes again."""
    return next((item["id"] for item in items if (item["label"], item["trigger"]) == (label, trigger)), None)


def _check(item: dict[str, Any], count: int) -> None:
    faults = Faults()
    check_item(item, faults, "reminder")
    if count > MAX_ITEMS:
        faults.add("notifications", "items", f"a card has at most {MAX_ITEMS} reminders")
    if faults.found:
        text = "; ".join(f"{path} {message}" for _, path, message in faults.found)
        raise InvalidManifestField(f"invalid notifications: {text}", errors=faults.as_list())


@operation(
    summary="Remove a reminder",
    description="Removes a reminder from a card. Ask the person once before.",
    input=ReminderId,
    http=Http("DELETE", ROUTE),
    agent=True,
    mutates=True,
    destructive=True,
    card="card_id",
    change="changed",
    label="Removing a reminder",
)
def remove_notification(caller: Caller, given: ReminderId) -> RemovedReminder:
    """Raises `UnknownManifest`, `UnknownNotification`, `StaleVersion`."""
    remaining: list[int] = []

    def edit(card: Card) -> Change:
        block = card.manifest["meta"].get("notifications") or {}
        items = [item for item in block.get("items") or [] if item["id"] != given.notification_id]
        if len(items) == len(block.get("items") or []):
            raise UnknownNotification()
        remaining[:] = [len(items)]
        return Change(card.state, merge(card.manifest, {"meta": {"notifications": {**block, "items": items}}}))

    caller.cards.change(given.card_id, edit, token=caller.new_id(), version=given.if_match)
    caller.reminders.card_changed(given.card_id)
    return {
        "ok": True,
        "card_id": given.card_id,
        "notification_id": given.notification_id,
        "remaining": remaining[0],
    }
