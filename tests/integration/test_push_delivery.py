"""The push job, from the queue to devices whose push service answers as it is told."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from deckhand.domain.errors import PushUnfinished
from deckhand.domain.job import Actor, Job
from deckhand.domain.principal import Principal
from deckhand.domain.push_message import payload
from deckhand.domain.reminders import LATE_S, LATEST_S, Choice, Fire, Privacy
from deckhand.push import sender as sender_module
from deckhand.push.delivery import Delivery
from deckhand.push.outcome import Outcome
from deckhand.push.sender import TTL_S, Sender
from deckhand.push.vapid import new_key
from deckhand.storage.push_claims import LEASE_S, PushClaims
from deckhand.storage.reminders import Reminders
from deckhand.storage.sqlite import SqliteStore
from deckhand.storage.subscriptions import Subscriptions
from tests.deck import Deck
from tests.fakes import Ids
from tests.push_service import Device, PushService, Told
from tests.stores import Clock, new_token
from tests.unit.test_push_message import TEA

ACTOR = Actor(kind="schedule", id="reminders", user="ann", role="viewer", tenant="main")
TRIGGER = {"type": "daily", "time": "08:00"}
REMINDERS = [
    {
        "id": "am",
        "label": "Morning",
        "title": "Weigh in",
        "body": "Step on the scale",
        "privacy": "public",
        "trigger": TRIGGER,
    },
    {"id": "pm", "label": "Evening", "title": "A secret", "body": "Nobody may read this", "trigger": TRIGGER},
]


class World:
    """A delivery to devices of `ann` on a push service of its own."""

    def __init__(self, store: SqliteStore, service: PushService, clock: Clock) -> None:
        self.store, self.service, self.clock = store, service, clock
        self.deck = Deck(Path("/nonexistent"), store)
        self.subscriptions = Subscriptions(store, "main")
        self.sender = Sender(
            key=new_key().__str__,
            subject="mailto:ann@example.org",
            resolve=lambda _: [],
            now=clock,
            allow_loopback=True,
        )
        self.delivery = Delivery(
            store=store,
            send=self.sender,
            now=clock,
            new_id=Ids(new_token()),
            default_zone=ZoneInfo("UTC"),
            origin="https://deck.example",
        )

    def device(self, name: str, *statuses: int | Told, user: str = "ann") -> Device:
        device = self.service.device(name, *statuses)
        self.subscriptions.put(user, device.subscription, token=new_token())
        return device

    def job(self, *reminders: str, fire: str = "f1", late: bool = False) -> Job:
        due = datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="minutes")
        return Job(kind="push", actor=ACTOR, due=due, reminders=reminders or ("weight#am",), late=late, fire=fire)

    def known(self, user: str = "ann") -> set[str]:
        return {stored.subscription.endpoint for stored in self.subscriptions.all(user)}

    def choose(self, reminder: str, privacy: Privacy) -> None:
        Reminders(self.store, "main").choose("ann", reminder, lambda _: Choice(privacy=privacy), token=new_token())

    @property
    def fires(self) -> dict[str, str]:
        """By reminder: what became of it last."""
        found = Reminders(self.store, "main").of_user("ann").fires
        return {reminder: fire.status for reminder, fire in found.items()}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    clock = Clock()
    with PushService(now=clock) as service, closing(SqliteStore(":memory:", now=clock)) as store:
        Deck(tmp_path, store).create("weight", notifications={"items": REMINDERS})
        yield World(store, service, clock)


def test_a_reminder_reaches_every_device_of_its_person_and_nobody_elses(world: World) -> None:
    phone, desk, other = world.device("phone"), world.device("desk"), world.device("other", user="bob")
    job = world.job()
    world.delivery(job, last=False)
    assert [phone.titles, desk.titles, other.titles] == [["Weigh in"], ["Weigh in"], []]
    fires = Reminders(world.store, "main").of_user("ann").fires
    assert fires == {"weight#am": Fire(at=datetime.fromisoformat(job.due).timestamp(), status="sent")}


def test_a_push_says_how_long_how_urgent_and_for_what(world: World) -> None:
    phone = world.device("phone")
    world.delivery(world.job(), last=False)
    (got,) = phone.received
    assert (got.headers["ttl"], got.headers["urgency"]) == (str(12 * 3600), "normal")
    assert got.headers["content-encoding"] == "aes128gcm"
    assert 0 < len(got.headers["topic"]) <= 32
    assert got.headers["topic"] == got.content["notification"]["tag"]
    assert got.claims["sub"] == "mailto:ann@example.org"
    assert got.content["notification"]["navigate"] == "https://deck.example/?card=weight"


def test_a_private_reminder_is_generic_unless_the_person_chose_otherwise(world: World) -> None:
    phone = world.device("phone")
    world.delivery(world.job("weight#pm", fire="f1"), last=False)
    world.choose("weight#pm", "public")
    world.delivery(world.job("weight#pm", fire="f2"), last=False)
    assert phone.titles == ["Deckhand", "A secret"]
    assert b"secret" not in phone.received[0].text


BLANKS = {"title": "{schedule_due}", "body": "Time for {schedule_due}{missed_earlier}"}
PLAN = {"type": "schedule_due", "card": "pills", "time_of_day": "evening", "time": "08:00"}
"""The evening's list at 08:00 of the morning: what counts is the date."""


def pills(world: World, *items: dict[str, Any], **reminder: Any) -> None:
    one = {"id": "pm", "label": "Evening", "privacy": "public", "trigger": PLAN, **BLANKS, **reminder}
    world.deck.create("pills", data={"items": list(items)}, notifications={"items": [one]})


def pill(name: str, time_of_day: str, *taken: str) -> dict[str, Any]:
    doses = [{"scheduledDate": day, "takenAt": f"{day}T06:00:00Z"} for day in taken]
    return {"name": name, "schedule": {"type": "daily", "time_of_day": time_of_day}, "doses": doses}


def test_a_reminder_of_a_plan_names_what_is_left_to_do_on_the_persons_date(world: World) -> None:
    phone, day = world.device("phone"), "2026-04-21"
    pills(world, pill("Iron", "morning"), pill("Zinc", "evening"), pill("B12", "evening", day), pill("C", "night"))
    world.delivery(world.job("pills#pm").model_copy(update={"day": day}), last=False)
    note = phone.received[0].content["notification"]
    assert (note["title"], note["body"]) == ("Zinc", "Time for Zinc. Missed earlier: Iron")


@pytest.mark.parametrize("said", [BLANKS, {"title": "Pills", "body": "Take them"}])
def test_what_was_done_while_the_push_was_on_its_way_is_not_reminded_of(world: World, said: dict[str, str]) -> None:
    phone, job = world.device("phone"), world.job("pills#pm", "weight#am")
    pills(world, pill("Zinc", "evening", job.due[:10]), **said)
    world.delivery(job, last=False)
    assert (phone.titles, world.fires) == (["Weigh in"], {"weight#am": "sent"})
    world.delivery(world.job("pills#pm", fire="f2").model_copy(update={"asked": True}), last=False)
    assert len(phone.received) == 2, "who asks for it sees it"


def test_a_private_reminder_of_a_plan_names_nothing(world: World) -> None:
    phone = world.device("phone")
    pills(world, pill("Zinc", "evening"), privacy="private")
    world.delivery(world.job("pills#pm"), last=False)
    assert b"Zinc" not in phone.received[0].text
    assert phone.titles == ["Deckhand"]


def test_blanks_that_nothing_fills_stay_empty_and_a_title_is_always_there(world: World) -> None:
    phone = world.device("phone")
    pills(world, trigger=TRIGGER)
    world.delivery(world.job("pills#pm"), last=False)
    note = phone.received[0].content["notification"]
    assert (note["title"], note["body"]) == ("Deckhand", "Time for")


def test_what_is_due_in_one_minute_is_one_push(world: World) -> None:
    phone = world.device("phone")
    world.delivery(world.job("weight#am", "weight#pm"), last=False)
    assert phone.titles == ["2 reminders"]
    assert world.fires == {"weight#am": "sent", "weight#pm": "sent"}


def test_reminders_that_are_gone_are_left_out_and_without_any_nothing_is_sent(world: World) -> None:
    phone = world.device("phone")
    world.delivery(world.job("weight#am", "weight#gone", "gone#am"), last=False)
    world.delivery(world.job("weight#gone", fire="f2"), last=False)
    assert phone.titles == ["Weigh in"]
    assert world.fires == {"weight#am": "sent"}


HIDE = ("POST", "/api/settings/cards/weight/disable", None)
SWITCH_OFF = ("PATCH", "/api/manifests/weight", {"meta": {"notifications": {"enabled": False}}})
NOT_FOR_ME = ("POST", "/api/notifications/state", {"id": "weight#am", "enabled": False})
PAUSE = ("POST", "/api/notifications/global-state", {"paused_until": "2099-01-01T00:00:00Z"})
NIGHT = ("POST", "/api/notifications/global-state", {"quiet_hours": {"start": "00:01", "end": "00:00"}})


@pytest.mark.parametrize(
    ("change", "status"),
    [(HIDE, None), (SWITCH_OFF, None), (NOT_FOR_ME, None), (PAUSE, "paused"), (NIGHT, "quiet")],
)
def test_what_a_person_wants_when_a_push_is_sent_counts_unless_they_ask_for_it(
    world: World, change: tuple[Any, ...], status: str | None
) -> None:
    phone, job = world.device("phone"), world.job()
    world.deck.sign_in(Principal(kind="user", id="ann", user="ann", role="owner"))
    assert world.deck(*change).status == 200
    world.delivery(job, last=False)
    assert (phone.titles, world.fires.get("weight#am")) == ([], status)
    world.delivery(job.model_copy(update={"asked": True}), last=False)
    assert phone.titles == ["Weigh in"]


def test_a_second_try_that_comes_into_a_pause_does_not_unsay_the_first(world: World) -> None:
    phone, slow, job = world.device("phone"), world.device("slow", 503), world.job()
    with pytest.raises(PushUnfinished):
        world.delivery(job, last=False)
    world.deck.sign_in(Principal(kind="user", id="ann", user="ann", role="owner"))
    assert world.deck(*PAUSE).status == 200
    world.delivery(job, last=False)
    assert (len(phone.received), len(slow.received), world.fires) == (1, 1, {"weight#am": "sent"})


def test_a_person_without_a_device_is_told_so(world: World) -> None:
    world.delivery(world.job(), last=False)
    assert world.fires == {"weight#am": "no_device"}


def test_a_late_reminder_is_marked_late(world: World) -> None:
    phone = world.device("phone")
    world.delivery(world.job(late=True), last=False)
    assert (phone.titles, world.fires) == (["Late: Weigh in"], {"weight#am": "sent"})


def test_a_reminder_that_became_late_on_its_way_is_marked_late(world: World) -> None:
    phone, job = world.device("phone", 503), world.job()
    with pytest.raises(PushUnfinished):
        world.delivery(job, last=False)
    world.clock.time = datetime.fromisoformat(job.due).timestamp() + LATE_S
    world.delivery(job, last=False)
    assert phone.titles == ["Weigh in", "Late: Weigh in"]


def test_a_job_past_its_lateness_is_not_sent(world: World) -> None:
    phone, job = world.device("phone"), world.job()
    world.clock.time = datetime.fromisoformat(job.due).timestamp() + LATEST_S
    world.delivery(job, last=False)
    assert phone.titles == ["Late: Weigh in"], "six hours are not too late"
    world.clock.time += 1
    world.delivery(job.model_copy(update={"fire": "f2"}), last=False)
    assert (phone.titles, world.fires) == (["Late: Weigh in"], {"weight#am": "late"})


def test_the_same_job_twice_pushes_once(world: World) -> None:
    phone, job = world.device("phone"), world.job()
    world.delivery(job, last=False)
    world.delivery(job, last=False)
    assert (phone.titles, world.fires) == (["Weigh in"], {"weight#am": "sent"})


def test_a_push_that_another_worker_is_sending_is_left_to_it_until_its_lease_ends(world: World) -> None:
    phone, job = world.device("phone"), world.job()
    claims = PushClaims(world.store, "main", "ann", fire="f1")
    claims.take(phone.subscription.id, now=world.clock(), token=new_token())
    with pytest.raises(PushUnfinished):
        world.delivery(job, last=False)
    assert (phone.titles, world.fires) == ([], {})
    world.clock.time += LEASE_S
    world.delivery(job, last=False)
    assert (phone.titles, world.fires) == (["Weigh in"], {"weight#am": "sent"})


@pytest.mark.parametrize("status", [404, 410])
def test_case_62_a_device_that_is_gone_is_removed_and_no_other(world: World, status: int) -> None:
    gone, phone = world.device("gone", status), world.device("phone")
    other = world.device("other", user="bob")
    world.delivery(world.job(), last=False)
    assert (world.known(), world.known("bob")) == ({phone.endpoint}, {other.endpoint})
    assert (phone.titles, world.fires) == (["Weigh in"], {"weight#am": "sent"})
    world.delivery(world.job(), last=False)
    assert len(gone.received) == 1


def test_when_all_devices_are_gone_there_is_none(world: World) -> None:
    world.device("gone", 410)
    world.delivery(world.job(), last=False)
    assert world.fires == {"weight#am": "no_device"}


@pytest.mark.parametrize("status", [429, 500, 503])
def test_case_62_a_device_that_may_take_it_later_is_tried_again_and_alone(world: World, status: int) -> None:
    slow, phone = world.device("slow", status), world.device("phone")
    job = world.job()
    with pytest.raises(PushUnfinished):
        world.delivery(job, last=False)
    assert (len(slow.received), len(phone.received)) == (1, 1), "the other has its push"
    assert world.fires == {"weight#am": "sent"}
    world.delivery(job, last=False)
    assert (len(slow.received), len(phone.received)) == (2, 1)
    assert world.known() == {slow.endpoint, phone.endpoint}


def test_case_62_a_push_service_says_when_to_come_again(world: World) -> None:
    world.device("slow", Told(429, {"Retry-After": "77"}))
    world.device("slower", Told(503, {"Retry-After": "500"}))
    with pytest.raises(PushUnfinished) as unfinished:
        world.delivery(world.job(), last=False)
    assert unfinished.value.wait == 500


def test_case_62_a_device_whose_service_hangs_holds_up_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "READ_S", 0.3)
    hung, phone = world.device("hung", Told(201, hang=True)), world.device("phone")
    with pytest.raises(PushUnfinished):
        world.delivery(world.job(), last=False)
    assert (len(hung.received), phone.titles, world.fires) == (1, ["Weigh in"], {"weight#am": "sent"})


def test_when_no_device_took_it_at_the_last_try_it_failed(world: World) -> None:
    world.device("slow", 500, 500)
    job = world.job()
    with pytest.raises(PushUnfinished):
        world.delivery(job, last=False)
    assert world.fires == {}
    world.delivery(job, last=True)
    assert world.fires == {"weight#am": "failed"}


@pytest.mark.parametrize("status", [301, 400, 401, 403])
def test_a_push_that_is_refused_failed_and_the_device_stays(world: World, status: int) -> None:
    refusing = world.device("refusing", Told(status, {"Location": f"{world.service.url}/push/elsewhere"}))
    world.delivery(world.job(), last=False)
    world.delivery(world.job(), last=False)
    assert (len(refusing.received), world.fires) == (1, {"weight#am": "failed"})
    assert world.known() == {refusing.endpoint}


def test_case_62_a_push_that_is_too_large_gets_one_shorter_try(world: World) -> None:
    phone = world.device("phone", 413)
    world.delivery(world.job(), last=False)
    long, short = phone.received
    assert len(short.text) < len(long.text)
    assert (phone.titles, world.fires) == (["Weigh in"] * 2, {"weight#am": "sent"})


def test_case_62_a_push_that_is_too_large_twice_failed(world: World) -> None:
    phone = world.device("phone", 413, 413)
    world.delivery(world.job(), last=False)
    assert (len(phone.received), world.fires) == (2, {"weight#am": "failed"})


def test_case_62_4_000_tea_cups_fit_into_what_every_service_takes(world: World) -> None:
    phone = world.device("phone")
    content = {"web_push": 8030, "notification": {"title": "Tea", "body": TEA * 4_000, "navigate": "/", "tag": "t"}}
    assert world.sender(phone.subscription, payload(content), topic="t") == Outcome("sent")
    (got,) = phone.received
    assert 4_090 < len(got.body) <= 4_096
    assert set(got.content["notification"]["body"]) == {TEA, "…"}


def test_case_63_each_push_service_gets_claims_of_its_own_also_the_next_day(world: World) -> None:
    first = world.device("phone")
    with PushService(now=world.clock) as elsewhere:
        second = elsewhere.device("phone")
        world.subscriptions.put("ann", second.subscription, token=new_token())
        world.delivery(world.job(), last=False)
        world.clock.time += 25 * 3600
        world.delivery(world.job(fire="f2"), last=False)
        for device, service in ((first, world.service), (second, elsewhere)):
            assert [got.claims["aud"] for got in device.received] == [service.url] * 2
            today, tomorrow = (got.claims["exp"] for got in device.received)
            assert tomorrow - today == 25 * 3600
            assert tomorrow == int(world.clock()) + TTL_S


def test_case_64_no_push_is_silent(world: World) -> None:
    phone = world.device("phone")
    world.delivery(world.job("weight#am", "weight#pm"), last=False)
    world.delivery(world.job("weight#pm", fire="f2"), last=False)
    for got in phone.received:
        note = got.content["notification"]
        assert note["title"]
        assert note["navigate"]
        assert note.get("silent") is None


def test_case_65_an_endpoint_is_checked_again_when_it_is_sent_to(world: World) -> None:
    phone = world.device("phone")
    strict = replace(world.sender, allow_loopback=False)
    assert strict(phone.subscription, b"{}", topic="t") == Outcome("failed")
    rebound = phone.subscription.model_copy(update={"endpoint": "https://push.example.org/x"})
    private = replace(world.sender, resolve=lambda _: ["93.184.216.34", "127.0.0.1"])
    assert private(rebound, b"{}", topic="t") == Outcome("failed")
    assert phone.received == []


def test_without_a_key_nothing_is_sent_and_the_push_failed(world: World) -> None:
    phone = world.device("phone")
    replace(world.delivery, send=replace(world.sender, key=lambda: None))(world.job(), last=False)
    assert (phone.received, world.fires) == ([], {"weight#am": "failed"})


def test_a_service_that_cannot_be_reached_is_tried_later(world: World) -> None:
    closed = Device("http://127.0.0.1:1/push/x").subscription
    assert world.sender(closed, b"{}", topic="t") == Outcome("later")


def test_nothing_of_a_reminder_is_in_the_open(world: World) -> None:
    phone = world.device("phone")
    world.delivery(world.job(), last=False)
    (got,) = phone.received
    assert b"Weigh" not in got.body
    assert "weight" not in json.dumps(got.headers).lower()


def test_a_job_without_a_name_is_told_apart_by_minute_and_reminders(world: World) -> None:
    phone = world.device("phone")
    for reminders in (("weight#am",), ("weight#am",), ("weight#pm",)):
        world.delivery(world.job(*reminders, fire=""), last=False)
    world.clock.time += 60
    world.delivery(world.job(fire=""), last=False)
    assert phone.titles == ["Weigh in", "Deckhand", "Weigh in"]


def kept(world: World) -> list[Any]:
    return [json.loads(item.body) for item in world.store.query("turns", "main#push#ann#f1").items]


def test_what_is_kept_of_a_push_holds_none_of_its_text_and_goes_after_a_day(world: World) -> None:
    world.device("phone")
    world.delivery(world.job(), last=False)
    assert [sorted(one) for one in kept(world)] == [["state", "until"]]
    world.clock.time += 24 * 3600 + LEASE_S
    assert kept(world) == []
