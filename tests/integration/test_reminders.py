"""Reminders from the request that sets one to the push that is queued."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from deckhand.domain.account import Account
from deckhand.domain.errors import StorageUnavailable
from deckhand.domain.job import Actor, Job
from deckhand.domain.principal import Principal
from deckhand.reminders.claim import Claimed, Claims
from deckhand.storage.accounts import Accounts, Edit
from deckhand.storage.reminders import Fires
from deckhand.storage.sqlite import SqliteStore
from tests.deck import WRITEABLE, manifest
from tests.reminder_world import World, at, daily
from tests.stores import Clock

AM = "weight#am"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    clock = Clock(at("2026-03-27 12:00"))
    with closing(SqliteStore(":memory:", now=clock)) as store:
        world = World(tmp_path, store, clock, zone="Europe/Madrid")
        world.deck.create()
        world.sweep()
        yield world


def test_a_reminder_is_queued_once_at_its_minute(world: World) -> None:
    assert world.remind("am", daily("09:00")).status == 200
    assert world.listed()[AM]["next_due"] == "2026-03-28T08:00:00.000Z"
    assert world.go("2026-03-28 07:59") == []
    (job,) = world.go("2026-03-28 08:00:05")
    actor = Actor(kind="schedule", id="reminders", user="owner", role="viewer", tenant="main")
    due = {"due": "2026-03-28T08:00Z", "day": "2026-03-28"}
    assert job == Job(kind="push", actor=actor, **due, reminders=(AM,), fire=job.fire)
    assert job.fire
    assert world.go("2026-03-28 08:00:40") == []
    assert world.go("2026-03-28 08:01") == []
    assert world.listed()[AM]["next_due"] == "2026-03-29T07:00:00.000Z"


def test_case_57_a_spring_gap_and_an_autumn_overlap_ring_once_a_date(world: World) -> None:
    world.remind("am", daily("02:30"))
    told = []
    for moment in ("2026-03-28 01:30", "2026-03-29 00:30", "2026-03-29 01:30", "2026-03-29 02:30", "2026-03-30 00:30"):
        told += [job.due for job in world.go(moment)]
    assert told == ["2026-03-28T01:30Z", "2026-03-29T01:30Z", "2026-03-30T00:30Z"]
    world.go("2026-10-24 12:00")
    told = [job.due for moment in ("2026-10-25 00:30", "2026-10-25 01:30") for job in world.go(moment)]
    assert told == ["2026-10-25T00:30Z"]


def test_case_58_whoever_moves_is_reminded_at_the_new_place_once(world: World) -> None:
    world.remind("am", daily("09:00"))
    world.clock.time = at("2026-03-28 07:00")
    assert world.moves_to("America/New_York") == {"ok": True, "tz": "America/New_York", "changed": True}
    assert world.listed()[AM]["next_due"] == "2026-03-28T13:00:00.000Z"
    assert world.fired("2026-03-28 08:00") == []
    assert world.fired("2026-03-28 13:00") == [AM]
    assert world.moves_to("Europe/Madrid")["changed"] is True
    assert world.moves_to("Europe/Madrid")["changed"] is False
    assert world.listed()[AM]["next_due"] == "2026-03-29T07:00:00.000Z"


def test_case_58_a_move_west_behind_the_reminder_brings_it_not_again(world: World) -> None:
    world.remind("am", daily("09:00"))
    assert world.fired("2026-03-28 08:00") == [AM]
    world.moves_to("America/New_York")
    assert world.fired("2026-03-28 13:00") == []
    assert world.fired("2026-03-29 13:00") == [AM]


def test_case_58_a_zone_that_is_none_is_refused(world: World) -> None:
    local = ("right/Europe/Madrid", "posix/Europe/Madrid", "localtime", "Factory")
    for name in ("Europe/Nowhere", "", "../etc/passwd", "x" * 5_000, "Europe", *local):
        answer = world.deck("POST", "/api/user/tz", {"tz": name})
        assert (answer.status, answer.code) == (400, "unknown_zone"), name


def test_when_the_deployment_moves_so_do_the_reminders_of_all_who_said_no_zone(world: World) -> None:
    world.remind("am", daily("09:00"))
    world.sign_in("ann")
    world.moves_to("Europe/Madrid")
    world.zone = "America/New_York"
    world.go("2026-03-28 07:59")
    assert [job.actor.user for job in world.go("2026-03-28 08:00")] == ["ann"]
    assert [job.actor.user for job in world.go("2026-03-28 13:00")] == ["owner"]


def test_a_zone_that_this_machine_does_not_have_stops_no_sweep(world: World) -> None:
    """Its person's reminders come in the deployment's."""
    world.remind("am", daily("09:00"))
    world.index().set_person("owner", lambda person: person.model_copy(update={"zone": "Europe/Atlantis"}))
    assert world.fired("2026-03-28 08:00") == [AM]
    state = world.index().reminders.of_user("owner").states[AM]
    lost = state.reminder.model_copy(update={"zone": "Europe/Atlantis"})
    world.store.write([world.index().reminders.put_state("owner", lost, state.version)], token="lost")
    assert world.fired("2026-03-29 07:00") == [AM]


def test_case_60_after_days_without_sweeps_one_late_push_comes_and_the_next_is_reckoned_from_now(world: World) -> None:
    world.remind("am", daily("09:00"))
    world.clock.time = at("2026-03-31 12:00")
    (job,) = world.go("2026-03-31 12:00")
    assert (job.due, job.late) == ("2026-03-31T07:00Z", True)
    assert world.listed()[AM]["next_due"] == "2026-04-01T07:00:00.000Z"


@pytest.mark.parametrize(("moment", "late"), [("08:04:59", False), ("08:05", True)])
def test_from_five_minutes_on_a_push_is_late(world: World, moment: str, late: bool) -> None:
    world.remind("am", daily("09:00"))
    assert [job.late for job in world.go(f"2026-03-28 {moment}")] == [late]


def test_case_60_what_is_missed_by_more_than_six_hours_is_only_noted(world: World) -> None:
    world.remind("am", daily("09:00"))
    assert world.go("2026-03-31 13:00:01") == []
    shown = world.listed()[AM]
    assert (shown["last_fire_status"], shown["next_due"]) == ("late", "2026-04-01T07:00:00.000Z")


def test_a_new_or_changed_reminder_begins_with_its_next_slot(world: World) -> None:
    world.remind("am", daily("12:00"))
    assert world.fired("2026-03-27 12:01") == []
    world.remind("am", daily("13:30"))
    assert world.fired("2026-03-27 12:30") == [AM]
    assert world.fired("2026-03-28 11:00") == []


def test_a_reminder_for_the_next_minute_is_not_missed_when_that_minute_was_just_swept(world: World) -> None:
    world.clock.time = at("2026-03-27 12:00:59")
    world.remind("am", daily("13:01"))
    world.clock.time = at("2026-03-27 12:01")
    world.sweep()
    assert [job.reminders for job in world.pushed()] == [(AM,)]


def test_what_is_due_in_one_minute_is_one_push(world: World) -> None:
    world.deck.create("mood")
    world.remind("am", daily("09:00"))
    world.remind("am", daily("09:00"), card="mood")
    world.remind("pm", daily("21:00"))
    (job,) = world.go("2026-03-28 08:00")
    assert sorted(job.reminders) == ["mood#am", AM]


def test_reminders_reach_everybody_in_their_own_zone(world: World) -> None:
    world.remind("am", daily("09:00"))
    world.sign_in("ann")
    world.moves_to("America/New_York")
    assert world.listed()[AM]["next_due"] == "2026-03-27T13:00:00.000Z"
    assert [job.actor.user for job in world.go("2026-03-27 13:00")] == ["ann"]
    assert [job.actor.user for job in world.go("2026-03-28 08:00")] == ["owner"]


def test_one_who_switched_a_reminder_off_is_left_alone(world: World) -> None:
    world.remind("am", daily("09:00"))
    answer = world.deck("POST", "/api/notifications/state", {"id": AM, "enabled": False})
    assert answer.body == {"ok": True, "state": {"enabled": False, "privacy": "private"}}
    assert world.fired("2026-03-28 08:00") == []
    assert (world.listed()[AM]["next_due"], world.listed()[AM]["last_fire_status"]) == (None, None)
    world.deck("POST", "/api/notifications/state", {"id": AM, "enabled": True})
    assert world.fired("2026-03-29 07:00") == [AM]


def test_quiet_hours_and_a_pause_use_a_turn_up(world: World) -> None:
    world.remind("am", daily("23:30"))
    quiet = {"quiet_hours": {"start": "22:00", "end": "07:00"}}
    assert world.deck("POST", "/api/notifications/global-state", quiet).body == {
        "ok": True,
        **quiet,
        "paused_until": None,
    }
    assert world.fired("2026-03-27 22:30") == []
    assert world.listed()[AM]["last_fire_status"] == "quiet"
    pause = {"paused_until": "2026-03-28T23:00:00+01:00", "quiet_hours": None}
    assert (
        world.deck("POST", "/api/notifications/global-state", pause).body["paused_until"] == "2026-03-28T22:00:00.000Z"
    )
    assert world.fired("2026-03-28 22:30") == [AM]
    world.deck("POST", "/api/notifications/global-state", {"paused_until": "2026-03-30T00:00:00Z"})
    assert world.fired("2026-03-29 21:30") == []
    assert world.listed()[AM]["last_fire_status"] == "paused"


@pytest.mark.parametrize(("until", "told"), [("2026-03-28T08:00:30Z", []), ("2026-03-28T08:00:00Z", [AM])])
def test_a_pause_that_a_turn_came_in_uses_it_up_also_when_it_is_swept_later(
    world: World, until: str, told: list[str]
) -> None:
    world.remind("am", daily("09:00"))
    world.deck("POST", "/api/notifications/global-state", {"paused_until": until})
    assert world.fired("2026-03-28 08:40") == told
    assert world.listed()[AM]["last_fire_status"] == (None if told else "paused")


def test_quiet_hours_that_a_turn_came_in_use_it_up_also_when_it_is_swept_later(world: World) -> None:
    world.remind("am", daily("06:59"))
    world.deck("POST", "/api/notifications/global-state", {"quiet_hours": {"start": "22:00", "end": "07:00"}})
    assert world.fired("2026-03-28 06:30") == []
    shown = world.listed()[AM]
    assert (shown["last_fire_status"], shown["last_fired"]) == ("quiet", "2026-03-28T05:59:00.000Z")


def test_each_person_has_their_own_quiet_hours_over_midnight(world: World) -> None:
    """At one instant it is 23:30 in Madrid, and 07:30 of the next day in Tokyo."""
    night = {"quiet_hours": {"start": "22:00", "end": "07:00"}}
    world.remind("pm", daily("23:30"))
    world.remind("am", daily("07:30"))
    world.deck("POST", "/api/notifications/global-state", night)
    world.sign_in("ann")
    world.moves_to("Asia/Tokyo")
    world.deck("POST", "/api/notifications/global-state", night)
    assert world.fired("2026-03-27 14:30") == []
    assert world.listed()["weight#pm"]["last_fire_status"] == "quiet"
    told = [(job.actor.user, job.reminders) for job in world.go("2026-03-27 22:30")]
    assert told == [("ann", (AM,))]
    world.sign_in("owner")
    assert world.listed()["weight#pm"]["last_fire_status"] == "quiet"


def test_a_new_time_of_day_is_kept_also_behind_a_move_west(world: World) -> None:
    """What has been of the old time does not count against it."""
    world.remind("am", daily("12:00"))
    assert world.fired("2026-03-28 11:00") == [AM]
    world.moves_to("America/New_York")
    world.remind("am", {"type": "weekly", "time": "12:00", "days": ["sat"]})
    assert world.listed()[AM]["next_due"] == "2026-04-04T16:00:00.000Z", "it is the same time again"
    world.remind("am", daily("08:00"))
    assert world.fired("2026-03-28 12:00") == [AM]


def test_a_reminder_that_is_removed_leaves_nothing(world: World) -> None:
    world.remind("am", daily("09:00"))
    world.deck("POST", "/api/notifications/state", {"id": AM, "enabled": False})
    Fires(world.store).record("main", "owner", AM, world.clock(), "sent")
    world.deck("DELETE", "/api/manifests/weight/notifications/am")
    assert world.fired("2026-03-28 08:00") == []
    world.remind("am", daily("09:00"))
    shown = world.listed()[AM]
    assert (shown["enabled"], shown["last_fired"]) == (True, None)


@pytest.mark.parametrize("change", ["deleted", "patched", "switched off", "hidden"])
def test_whatever_takes_a_reminder_away_takes_its_turn_away(world: World, change: str) -> None:
    world.remind("am", daily("09:00"))
    requests = {
        "deleted": ("DELETE", "/api/manifests/weight", None),
        "patched": ("PATCH", "/api/manifests/weight", {"meta": {"notifications": None}}),
        "switched off": ("PATCH", "/api/manifests/weight", {"meta": {"notifications": {"enabled": False}}}),
        "hidden": ("POST", "/api/settings/cards/weight/disable", None),
    }
    assert world.deck(*requests[change]).status == 200
    assert [shown["next_due"] for shown in world.listed().values()] in ([], [None])
    assert world.fired("2026-03-28 08:00") == []


def test_whatever_brings_a_reminder_brings_its_turn(world: World) -> None:
    item = {"id": "am", "label": "a", "title": "a", "body": "a", "trigger": daily("09:00")}
    world.deck.create("mood", notifications={"items": [item]})
    world.deck("PATCH", "/api/manifests/weight", {"meta": {"notifications": {"items": [item]}}})
    assert sorted(world.fired("2026-03-28 08:00")) == ["mood#am", AM]


def test_a_change_whose_process_died_is_made_good_by_the_next_sweep(world: World) -> None:
    world.remind("am", daily("09:00"))
    cards = world.index().cards
    cards.remove("weight", token="t")
    world.deck.create("mood")
    assert world.fired("2026-03-28 08:00") == []
    world.clock.time = at("2026-03-28 08:00:30")
    world.deck.create("weight", writeable=WRITEABLE)
    assert world.listed() == {}


def test_a_push_whose_queue_fails_is_sent_by_a_later_sweep(world: World) -> None:
    world.remind("am", daily("09:00"))
    world.queue.failure = StorageUnavailable()
    assert world.go("2026-03-28 08:00") == []
    world.queue.failure = None
    assert world.fired("2026-03-28 08:01") == [AM]
    assert world.fired("2026-03-28 08:02") == []


def test_what_nobody_foresaw_in_one_persons_data_keeps_no_other_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.sign_in("ann")
    world.remind("am", daily("09:00"))
    world.moves_to("Europe/Madrid")
    real = Claims.of_user

    def odd(self: Claims, user: str) -> Claimed:
        if user == "ann":
            raise TypeError()
        return real(self, user)

    with monkeypatch.context() as patched:
        patched.setattr(Claims, "of_user", odd)
        assert [job.actor.user for job in world.go("2026-03-28 08:00")] == ["owner"]
    assert [job.actor.user for job in world.go("2026-03-28 08:01")] == ["ann"]


def test_a_test_is_queued_at_once_and_once_a_minute(world: World) -> None:
    world.remind("am", daily("09:00"))
    assert world.deck("POST", "/api/notifications/test", {"id": AM}).body == {"ok": True}
    (job,) = world.pushed()
    assert (job.kind, job.reminders, job.due, job.late) == ("push", (AM,), "2026-03-27T12:00Z", False)
    refused = world.deck("POST", "/api/notifications/test", {"id": AM})
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "rate_limited", "60")
    world.clock.time += 60
    assert world.deck("POST", "/api/notifications/test", {"id": AM}).status == 200


@pytest.mark.parametrize("path", ["state", "test"])
@pytest.mark.parametrize("name", ["weight#none", "none#am", "weight", "", "#", "weight#am#x"])
def test_a_reminder_that_is_not_there_is_unknown(world: World, path: str, name: str) -> None:
    world.remind("am", daily("09:00"))
    answer = world.deck("POST", f"/api/notifications/{path}", {"id": name})
    assert (answer.status, answer.code) == (404, "unknown_notification")


def test_what_delivery_records_is_shown(world: World) -> None:
    world.remind("am", daily("09:00"))
    Fires(world.store).record("main", "owner", AM, at("2026-03-28 08:00:03"), "sent")
    shown = world.listed()[AM]
    assert (shown["last_fired"], shown["last_fire_status"]) == ("2026-03-28T08:00:03.000Z", "sent")


def test_a_reminder_that_is_off_by_default_waits_to_be_switched_on(world: World) -> None:
    item = {"id": "am", "label": "a", "title": "a", "body": "a", "trigger": daily("09:00"), "default": "off"}
    world.deck("PATCH", "/api/manifests/weight", {"meta": {"notifications": {"items": [item]}}})
    assert world.fired("2026-03-28 08:00") == []
    world.deck("POST", "/api/notifications/state", {"id": AM, "enabled": True})
    assert world.fired("2026-03-29 07:00") == [AM]


def test_a_user_who_comes_is_reached_and_one_who_is_disabled_is_not(world: World) -> None:
    world.remind("am", daily("09:00"))
    accounts = Accounts(world.store, "main", new_id=world.ids)
    accounts.add(Account(id="ann", name="Ann", role="viewer", created_at=world.clock()), [])
    world.go("2026-03-27 12:01")
    assert sorted(job.actor.user for job in world.go("2026-03-28 08:00")) == ["ann", "owner"]
    accounts.change("ann", lambda account: Edit(account.model_copy(update={"disabled": True})))
    assert [job.actor.user for job in world.go("2026-03-29 07:00")] == ["owner"]
    accounts.change("ann", lambda account: Edit(account.model_copy(update={"disabled": False})))
    world.go("2026-03-29 07:01")
    assert sorted(job.actor.user for job in world.go("2026-03-30 07:00")) == ["ann", "owner"]


def test_a_token_for_some_cards_sees_the_reminders_of_no_others(world: World) -> None:
    world.deck.create("mood")
    world.remind("am", daily("09:00"))
    world.remind("am", daily("09:00"), card="mood")
    scoped = Principal(kind="token", id="t", user="owner", role="agent", cards=frozenset({"mood"}))
    world.deck.sign_in(scoped)
    assert set(world.listed()) == {"mood#am"}
    assert world.deck("POST", "/api/notifications/test", {"id": AM}).code == "unknown_notification"


def test_case_58_turns_behind_a_move_are_reckoned_at_the_new_place_even_when_no_sweep_saw_it(world: World) -> None:
    world.remind("am", daily("09:00"))
    world.clock.time = at("2026-03-29 08:00")
    world.moves_to("America/New_York")
    assert world.go("2026-03-30 08:30") == []
    assert world.listed()[AM]["last_fire_status"] == "late"
    assert [job.late for job in world.go("2026-03-30 13:00")] == [False]


def test_case_58_a_turn_that_was_missed_just_before_a_move_is_still_told(world: World) -> None:
    world.remind("am", daily("09:00"))
    world.clock.time = at("2026-03-29 08:00")
    world.moves_to("America/New_York")
    (job,) = world.go("2026-03-29 12:00")
    assert (job.due, job.late) == ("2026-03-29T07:00Z", True)
    assert world.go("2026-03-29 13:00") == []


PLAN = {"type": "schedule_due", "card": "meds", "time_of_day": "morning", "time": "09:00"}


def test_a_reminder_of_a_plan_comes_only_while_something_is_left_to_do(world: World) -> None:
    item = {"name": "Zinc", "schedule": {"type": "daily", "time_of_day": "morning"}, "doses": []}
    world.deck.create("meds", data={"items": [item]}, writeable=WRITEABLE)
    assert world.remind("zinc", PLAN, card="meds").status == 200
    assert world.fired("2026-03-28 08:00") == ["meds#zinc"]
    taken = {"scheduledDate": "2026-03-29", "takenAt": "2026-03-29T06:00:00Z"}
    world.clock.time = at("2026-03-29 06:00")
    answer = world.deck("POST", "/api/manifests/meds/data", {"data": {"items": [{**item, "doses": [taken]}]}})
    assert answer.status == 200
    assert world.fired("2026-03-29 07:00") == []
    assert world.fired("2026-03-30 07:00") == ["meds#zinc"]


WEEK = [f"2026-{day}" for day in ("04-06", "04-07", "04-08", "04-09", "04-10", "04-11", "04-12")]
"""From a Monday on."""


@pytest.mark.parametrize(
    ("schedule", "days"),
    [
        ({"type": "daily", "start_date": WEEK[4]}, WEEK[4:]),
        ({"type": "weekly", "on_days": ["tue", "Sunday"]}, [WEEK[1], WEEK[6]]),
        ({"type": "every_n_days", "interval_days": 3, "start_date": WEEK[0]}, [WEEK[0], WEEK[3], WEEK[6]]),
        ({"type": "on_off", "on_days": 2, "off_days": 3, "start_date": WEEK[0]}, [*WEEK[:2], *WEEK[5:]]),
        (
            {
                "type": "phased",
                "start_date": "2026-04-01",
                "loading": {"duration_weeks": 1, "days": ["mon", "tue"]},
                "maintenance": {"days": ["sat"]},
            },
            [*WEEK[:2], WEEK[5]],
        ),
        ({"type": "as_needed"}, []),
    ],
)
def test_a_reminder_of_a_plan_keeps_its_schedule_and_says_so_until_it_is_done(
    world: World, schedule: dict[str, object], days: list[str]
) -> None:
    """Each of those days it is said in the morning, missed in the evening, and then done in time every other day."""
    item: dict[str, object] = {"name": "Zinc", "schedule": {**schedule, "time_of_day": "morning"}}
    world.deck.create("pills", data={"items": [item]}, writeable=WRITEABLE)
    world.remind("am", {**PLAN, "card": "pills"})
    world.remind("pm", {**PLAN, "card": "pills", "time_of_day": "evening", "time": "21:00"})
    world.clock.time = at(f"{WEEK[0]} 00:30")
    world.sweep()
    world.pushed()
    told = []
    for n, day in enumerate(WEEK):
        told += [(job.day, job.reminders) for job in world.go(f"{day} 07:00")]
        if n % 2:
            item["doses"] = [{"scheduledDate": day, "takenAt": f"{day}T07:30:00Z"}]
            assert world.deck("POST", "/api/manifests/pills/data", {"data": {"items": [item]}}).status == 200
        told += [(job.day, job.reminders) for job in world.go(f"{day} 19:00")]
    done = set(WEEK[1::2])
    expected = [[(day, ("weight#am",)), (day, ("weight#pm",))][: 1 if day in done else 2] for day in days]
    assert told == [one for day in expected for one in day]


def test_the_date_of_a_plan_is_that_of_its_person(world: World) -> None:
    item = {"name": "Zinc", "schedule": {"type": "weekly", "on_days": ["sun"], "time_of_day": "morning"}}
    world.deck.create("pills", data={"items": [item]})
    world.remind("am", {**PLAN, "card": "pills"})
    world.moves_to("Pacific/Kiritimati")
    (job,) = world.go("2026-03-28 19:00")
    assert (job.day, job.due) == ("2026-03-29", "2026-03-28T19:00Z")
    world.deck("POST", "/api/notifications/test", {"id": AM})
    assert [job.day for job in world.pushed()] == ["2026-03-29"]


def test_a_reminder_of_a_plan_that_is_gone_says_nothing(world: World) -> None:
    world.remind("zinc", {**PLAN, "card": "none"})
    assert world.fired("2026-03-28 08:00") == []
    assert world.listed()["weight#zinc"]["next_due"] == "2026-03-29T07:00:00.000Z"


def test_case_59_days_may_be_numbers_and_the_answer_shows_their_names(world: World) -> None:
    answer = world.remind("am", {"type": "weekly", "time": "08:00", "days": [0, "MON"]})
    assert answer.body["trigger"] == {"type": "weekly", "time": "08:00", "days": ["sun", "mon"]}
    assert world.listed()[AM]["trigger"] == answer.body["trigger"]
    for days in ([8], [0, 7], ["someday"], []):
        refused = world.remind("am", {"type": "weekly", "time": "08:00", "days": days})
        assert (refused.status, refused.code) == (422, "invalid"), days


def test_a_body_that_tells_a_reading_is_refused_with_the_reason(world: World) -> None:
    refused = world.remind("am", daily("09:00"), body="You were at 85.5 kg")
    assert (refused.status, refused.code) == (422, "invalid")
    (fault,) = refused.body["errors"]
    assert fault["path"] == "reminder.body"
    assert "a number with the unit of a reading" in fault["message"]
    assert "85.5" not in refused.text
    assert world.listed() == {}


@pytest.mark.parametrize("text", [{"title": "85.5 kg: go on"}, {"body": "You were at 85.5 kg"}])
def test_what_a_reminder_may_not_say_is_refused_by_every_way_to_write_one(world: World, text: dict[str, str]) -> None:
    item = {"id": "am", "label": "a", "title": "a", "body": "a", "trigger": daily("09:00"), **text}
    meta = {"notifications": {"items": [item]}}
    for refused in (
        world.remind("am", daily("09:00"), **text),
        world.deck("PATCH", "/api/manifests/weight", {"meta": meta}),
        world.deck("POST", "/api/manifests", manifest("mood", **meta)),
    ):
        (fault,) = refused.body["errors"]
        assert (refused.status, fault["path"].rpartition(".")[2]) == (422, *text)
        assert "a number with the unit of a reading" in fault["message"]
    assert world.listed() == {}


@pytest.mark.parametrize("change", [{"title": "x" * 31}, {"body": "x" * 81}, {"label": "x" * 81}, {"title": " "}])
def test_a_text_that_is_too_long_or_empty_is_refused(world: World, change: dict[str, str]) -> None:
    assert world.remind("am", daily("09:00"), **change).status == 422
    assert world.listed() == {}


@pytest.mark.parametrize("block", [{"notifications": {"enabled": False}}, {"enabled": False}])
def test_a_reminder_on_a_card_that_is_switched_off_stays_off_and_the_answer_says_so(
    world: World, block: dict[str, object]
) -> None:
    world.deck("PATCH", "/api/manifests/weight", {"meta": block})
    assert "remindersOff" in world.remind("am", daily("09:00")).body
    assert world.listed()[AM]["next_due"] is None
    assert world.fired("2026-03-28 08:00") == []


def test_an_update_keeps_the_action_and_the_default_of_a_reminder(world: World) -> None:
    kept = {"action": {"type": "open-card"}, "default": "off"}
    item = {"id": "am", "label": "a", "title": "a", "body": "a", "trigger": daily("09:00"), **kept}
    world.deck("PATCH", "/api/manifests/weight", {"meta": {"notifications": {"items": [item]}}})
    assert world.remind("am", daily("10:00")).body["created"] is False
    (stored,) = world.deck.get("/api/manifests/weight")["meta"]["notifications"]["items"]
    assert {name: stored[name] for name in kept} == kept


@pytest.mark.parametrize(
    "body",
    [
        {"quiet_hours": {"start": "22:00", "end": "22:00"}},
        {"quiet_hours": {"start": "24:00", "end": "07:00"}},
        {"quiet_hours": {"start": "22:00"}},
        {"paused_until": "soon"},
        {"paused_until": "9999-12-31T23:59:59-12:00"},
        {"paused_until": "0001-01-01T00:00:00+14:00"},
        {"zone": "UTC"},
    ],
)
def test_quiet_hours_or_a_pause_that_cannot_be_read_change_nothing(world: World, body: dict[str, object]) -> None:
    assert world.deck("POST", "/api/notifications/global-state", body).status == 422
    shown = world.deck.get("/api/notifications")
    assert (shown["quiet_hours"], shown["paused_until"]) == (None, None)


def test_the_day_of_a_person_is_that_of_their_zone(world: World) -> None:
    world.clock.time = at("2026-03-27 23:30")
    world.moves_to("Pacific/Kiritimati")
    world.deck.append("weight", {"date": "2026-03-28", "kg": 80})
    assert world.deck("POST", "/api/manifests/weight/rows", {"value": {"date": "2026-03-29", "kg": 80}}).status == 403
