"""A reminder on the laptop stack: set over HTTP, claimed by the minute, queued, worked off."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.local.api_client import Api
from tests.deck import manifest
from tests.laptop import Laptop, until
from tests.push_service import PushService

BEFORE_THE_MINUTE_S = 10
"""From the start of the stack to the next minute; where the start takes longer, it is the one after."""
LONGEST_WAIT_S = 100


@pytest.fixture
def offset() -> float:
    """Moves the stack's clock close to a full minute."""
    return round(60 - BEFORE_THE_MINUTE_S - time.time() % 60, 3)


@pytest.fixture
def service() -> Iterator[PushService]:
    with PushService() as service:
        yield service


@pytest.fixture
def api(tmp_path: Path, offset: float) -> Iterator[Api]:
    settings = {"DECKHAND_CLOCK_OFFSET_S": str(offset), "DECKHAND_PUSH_ALLOW_LOOPBACK": "1"}
    laptop = Laptop(tmp_path, "http://127.0.0.1:9/v1/chat/completions", settings=settings)
    try:
        with laptop.start().api() as api:
            yield api
    finally:
        laptop.end()


def plan(name: str, *taken: datetime) -> dict[str, Any]:
    """A card's data: one thing to do each morning, done on some days."""
    doses = [{"scheduledDate": f"{day:%Y-%m-%d}", "takenAt": f"{day:%Y-%m-%d}T00:00:00Z"} for day in taken]
    return {"items": [{"name": name, "schedule": {"type": "daily", "time_of_day": "morning"}, "doses": doses}]}


def reminder(time: datetime, **trigger: str) -> dict[str, Any]:
    """Of a plan where the trigger names one."""
    trigger = {"type": "daily", "time": f"{time:%H:%M}", **trigger}
    return {"label": "a", "title": "Now {schedule_due}", "body": "a", "privacy": "public", "trigger": trigger}


@pytest.mark.timeout(300)
def test_reminders_come_up_at_the_next_minute_and_those_of_a_plan_while_it_is_open(
    api: Api, offset: float, service: PushService
) -> None:
    phone, clock = service.device("phone"), time.time() + offset
    api.call("POST", "/api/push/subscribe", phone.body)
    days = [datetime.fromtimestamp(moment, UTC) for moment in (clock, clock + 300)]
    api.call("POST", "/api/manifests", manifest("open", data=plan("Zinc")))
    api.call("POST", "/api/manifests", manifest("done", data=plan("Mint", *days)))
    # One that is due in a moment would not be set in time.
    due = datetime.fromtimestamp((time.time() + offset + 2) // 60 * 60 + 60, UTC)
    asking = {"type": "schedule_due", "time_of_day": "morning"}
    items = [{"id": card, **reminder(due, **asking, card=card)} for card in ("open", "done")]
    api.call("POST", "/api/manifests", manifest("weight", notifications={"items": items}))
    api.call("PUT", "/api/manifests/weight/notifications/am", reminder(due))

    def shown(name: str) -> dict[str, Any]:
        return {one["item_id"]: one[name] for one in api.call("GET", "/api/notifications")["notifications"]}

    assert shown("next_due") == dict.fromkeys(("open", "done", "am"), f"{due:%Y-%m-%dT%H:%M}:00.000Z")
    until(lambda: time.time() + offset >= due.timestamp(), LONGEST_WAIT_S)
    until(lambda: shown("last_fire_status")["am"])
    assert shown("last_fire_status") == {"open": "sent", "done": None, "am": "sent"}
    tomorrow = due + timedelta(days=1)
    assert shown("next_due") == dict.fromkeys(("open", "done", "am"), f"{tomorrow:%Y-%m-%dT%H:%M}:00.000Z")
    (push,) = phone.received
    assert push.content["notification"]["title"] == "2 reminders"
    assert sorted(push.content["notification"]["body"].split(" · ")) == ["Now", "Now Zinc"]
