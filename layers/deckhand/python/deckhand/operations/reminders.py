"""A user's reminders: what is to come, what became of it, and what the user sets: on or off, hidden or shown, quiet
hours, a pause, the time zone.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator
from typing_extensions import TypedDict

from deckhand.domain.errors import RateLimited, UnknownNotification, UnknownZone
from deckhand.domain.notifications import TIME
from deckhand.domain.reminders import Choice, Person, Privacy, QuietHours, Status, is_on, items_of
from deckhand.domain.times import in_utc, iso, local, zone
from deckhand.operations.arguments import Arguments, Nothing
from deckhand.operations.caller import Caller
from deckhand.operations.permission import visible_cards
from deckhand.operations.registry import Http, operation
from deckhand.operations.shapes import Done
from deckhand.reminders.claim import push_job
from deckhand.storage.cards import Card
from deckhand.storage.reminders import TEST_EVERY_S, UserReminders

MAX_ZONE = 64
NO_ZONES = ("right/", "posix/", "posixrules", "localtime", "Factory")
"""What a machine may have beside IANA's zones, and another may not: those below right/ count leap seconds, which no
schedule does, and localtime is the machine's own."""
_ID = "The reminder: card#item."


class ReminderChoice(Arguments):
    id: str = Field(description=_ID)
    enabled: bool | None = Field(default=None, description="Whether it reaches you.")
    privacy: Literal["private", "public"] | None = Field(default=None, description="private hides its text.")


class Quiet(Arguments):
    start: str = Field(pattern=f"^{TIME.pattern}$", description="HH:MM")
    end: str = Field(pattern=f"^{TIME.pattern}$", description="HH:MM; earlier than the start is the next day.")

    @model_validator(mode="after")
    def _some_time(self) -> "Quiet":
        if self.start == self.end:
            raise ValueError("start and end must differ")
        return self


class GlobalState(Arguments):
    quiet_hours: Quiet | None = Field(default=None, description="null switches them off.")
    paused_until: datetime | None = Field(
        default=None, description="An instant in ISO 8601; without a zone it is UTC. null ends the pause."
    )

    @field_validator("paused_until")
    @classmethod
    def _some_instant(cls, given: datetime | None) -> datetime | None:
        return None if given is None else in_utc(given)


class ReminderToTest(Arguments):
    id: str = Field(description=_ID)


class TimeZone(Arguments):
    tz: str = Field(description="IANA name of your time zone, such as Europe/Helsinki.")


class QuietTime(TypedDict):
    """Local times as HH:MM; over midnight when the end is the earlier."""

    start: str
    end: str


class ShownReminder(TypedDict):
    """`id` is card#item; `card_emoji` and `trigger` are as the card has them. `enabled` and `privacy` are what holds
    for you. Instants are ISO 8601, null where there is none; `last_fire_status` is what became of the turn at
    `last_fired`.
    """

    id: str
    card_id: str
    item_id: str
    label: str
    card_label: str
    card_emoji: Any
    title: str
    body: str
    trigger: dict[str, Any]
    privacy: Privacy
    enabled: bool
    next_due: str | None
    last_fired: str | None
    last_fire_status: Status | None


class Silence(TypedDict):
    """`paused_until` is ISO 8601."""

    quiet_hours: QuietTime | None
    paused_until: str | None


class ShownReminders(Silence):
    notifications: list[ShownReminder]


class ReminderSwitch(TypedDict):
    enabled: bool
    privacy: Privacy


class SwitchedReminder(Done):
    state: ReminderSwitch


class SetSilence(Done, Silence):
    pass


class SetTimeZone(Done):
    """`changed`: it was another one."""

    tz: str
    changed: bool


@operation(summary="List your reminders", input=Nothing, http=Http("GET", "/api/notifications"))
def list_notifications(caller: Caller, _: Nothing) -> ShownReminders:
    """In the order of the deck, those too that are off."""
    kept = caller.reminders.reminders.of_user(caller.principal.user)
    person = caller.reminders.people.find(caller.principal.user).person
    notifications = [
        shown
        for card in visible_cards(caller, "list_notifications")
        if _seen(caller, card.id)
        for shown in _shown(card, kept)
    ]
    return {"notifications": notifications, **_global_state(person)}


def _shown(card: Card, kept: UserReminders) -> Iterator[ShownReminder]:
    meta = card.manifest["meta"]
    for item in items_of(card.manifest):
        name = f"{card.id}#{item['id']}"
        choice, state, fire = kept.choice(name), kept.states.get(name), kept.fires.get(name)
        on = is_on(choice, default_on=item.get("default", "on") == "on")
        pending = state.reminder.pending if state is not None and on else None
        yield {
            "id": name,
            "card_id": card.id,
            "item_id": item["id"],
            "label": item["label"],
            "card_label": meta["label"],
            "card_emoji": meta.get("emoji"),
            "title": item["title"],
            "body": item["body"],
            "trigger": item["trigger"],
            "privacy": choice.privacy or item.get("privacy", "private"),
            "enabled": on,
            "next_due": None if pending is None else iso(pending),
            "last_fired": None if fire is None else iso(fire.at),
            "last_fire_status": None if fire is None else fire.status,
        }


def _global_state(person: Person) -> Silence:
    quiet = person.quiet_hours
    return {
        "quiet_hours": None if quiet is None else {"start": quiet.start, "end": quiet.end},
        "paused_until": None if person.paused_until is None else iso(person.paused_until),
    }


@operation(
    summary="Switch a reminder on or off for yourself, hide or show its text",
    input=ReminderChoice,
    http=Http("POST", "/api/notifications/state"),
    mutates=True,
)
def set_notification_state(caller: Caller, given: ReminderChoice) -> SwitchedReminder:
    """What is left out, or null, stays. Raises `UnknownNotification`."""
    item = _item(caller, given.id)
    chosen = given.model_dump(include={"enabled", "privacy"}, exclude_none=True)

    def edit(choice: Choice) -> Choice:
        return choice.model_copy(update=chosen)

    user, reminders = caller.principal.user, caller.reminders.reminders
    choice = reminders.choose(user, given.id, edit, token=caller.new_id())
    on = is_on(choice, default_on=item.get("default", "on") == "on")
    return {"ok": True, "state": {"enabled": on, "privacy": choice.privacy or item.get("privacy", "private")}}


@operation(
    summary="Set your quiet hours and your pause",
    input=GlobalState,
    http=Http("POST", "/api/notifications/global-state"),
    mutates=True,
)
def set_global_notification_state(caller: Caller, given: GlobalState) -> SetSilence:
    """What is left out stays; null takes it away."""
    changed: dict[str, Any] = {}
    if "quiet_hours" in given.model_fields_set:
        quiet = given.quiet_hours
        changed["quiet_hours"] = None if quiet is None else QuietHours(start=quiet.start, end=quiet.end)
    if "paused_until" in given.model_fields_set:
        changed["paused_until"] = None if given.paused_until is None else given.paused_until.timestamp()

    def edit(person: Person) -> Person:
        return person.model_copy(update=changed)

    stored = caller.reminders.set_person(caller.principal.user, edit)
    return {"ok": True, **_global_state(stored.person)}


@operation(
    summary="Push a reminder now, to see how it looks",
    input=ReminderToTest,
    http=Http("POST", "/api/notifications/test"),
    mutates=True,
)
def send_test_notification(caller: Caller, given: ReminderToTest) -> Done:
    """The push is queued. Raises `UnknownNotification`, and `RateLimited` within a minute of the last one."""
    _item(caller, given.id)
    user, now = caller.principal.user, caller.now()
    if not caller.reminders.reminders.test_begins(user, given.id, now=now, token=caller.new_id()):
        raise RateLimited(TEST_EVERY_S)
    day = local(now, caller.reminders.zone_of(caller.reminders.people.find(user).person)).date()
    tenant, fire = caller.principal.tenant, caller.new_id()
    caller.jobs.send(push_job(tenant, user, [given.id], at=now, day=day, fire=fire, asked=True))
    return {"ok": True}


@operation(summary="Tell your time zone", input=TimeZone, http=Http("POST", "/api/user/tz"), mutates=True)
def set_time_zone(caller: Caller, given: TimeZone) -> SetTimeZone:
    """Your reminders move to it, and none comes twice. Raises `UnknownZone`."""
    name = _zone(given.tz)
    user, people = caller.principal.user, caller.reminders.people
    before = people.find(user)
    if before.version and before.person.zone == name:
        return {"ok": True, "tz": name, "changed": False}
    caller.reminders.set_person(user, lambda person: person.model_copy(update={"zone": name}))
    return {"ok": True, "tz": name, "changed": True}


def _item(caller: Caller, reminder: str) -> dict[str, Any]:
    card, _, item_id = reminder.partition("#")
    found = caller.reminders.card(card) if _seen(caller, card) else None
    for item in items_of(found.manifest) if found is not None else []:
        if item["id"] == item_id:
            return item
    raise UnknownNotification()


def _seen(caller: Caller, card: str) -> bool:
    """A token may be for some cards only."""
    return caller.principal.cards is None or card in caller.principal.cards


def _zone(name: str) -> str:
    if len(name) > MAX_ZONE or name.startswith(NO_ZONES):
        raise UnknownZone()
    try:
        return zone(name).key
    except ValueError:
        raise UnknownZone() from None
