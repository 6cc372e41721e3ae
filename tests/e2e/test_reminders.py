"""A reminder on the laptop stack: set over HTTP, claimed by the minute, queued, worked off."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infra.local.api_client import Api
from tests.laptop import Laptop, until

BEFORE_THE_MINUTE_S = 10
"""From the start of the stack to the next minute; where the start takes longer, it is the one after."""
LONGEST_WAIT_S = 100
MANIFEST = {"$schema": "klebb.datafile.v1", "meta": {"id": "weight", "label": "Weight"}}


@pytest.fixture
def offset() -> float:
    """Moves the stack's clock close to a full minute."""
    return round(60 - BEFORE_THE_MINUTE_S - time.time() % 60, 3)


@pytest.fixture
def api(tmp_path: Path, offset: float) -> Iterator[Api]:
    settings = {"DECKHAND_CLOCK_OFFSET_S": str(offset)}
    laptop = Laptop(tmp_path, "http://127.0.0.1:9/v1/chat/completions", settings=settings)
    try:
        with laptop.start().api() as api:
            yield api
    finally:
        laptop.end()


@pytest.mark.timeout(300)
def test_a_reminder_comes_up_at_the_next_minute_and_says_that_there_is_no_device(api: Api, offset: float) -> None:
    api.call("POST", "/api/manifests", MANIFEST)
    # One that is due in a moment would not be set in time.
    due = (time.time() + offset + 2) // 60 * 60 + 60
    clock = datetime.fromtimestamp(due, UTC).strftime("%H:%M")
    reminder = {"label": "a", "title": "a", "body": "a", "trigger": {"type": "daily", "time": clock}}
    api.call("PUT", "/api/manifests/weight/notifications/am", reminder)

    def shown() -> dict[str, str]:
        (one,) = api.call("GET", "/api/notifications")["notifications"]
        return dict(one)

    assert shown()["next_due"] == datetime.fromtimestamp(due, UTC).strftime("%Y-%m-%dT%H:%M:00.000Z")
    until(lambda: time.time() + offset >= due, LONGEST_WAIT_S)
    until(lambda: shown()["last_fire_status"])
    assert shown()["last_fire_status"] == "no_device"
    assert shown()["next_due"] == datetime.fromtimestamp(due + 86_400, UTC).strftime("%Y-%m-%dT%H:%M:00.000Z")
