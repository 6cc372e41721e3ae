"""Reminders in the deployment: the schedule starts the sweep, the queue its delivery, and poison is put aside."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from deckhand.domain.cards import SCHEMA
from tests.e2e.deployed.conftest import ZONE, Deployed, Emulator, until


@pytest.fixture
def jobs(deployed: Deployed, emulator: Emulator) -> Iterator[tuple[str, str]]:
    """The queue, whose messages come again at once while it is used here, and the one for dead letters."""
    sqs, stack = emulator.client("sqs"), emulator.client("cloudformation")
    found = {
        name: stack.describe_stack_resource(StackName="deckhand", LogicalResourceId=name)["StackResourceDetail"][
            "PhysicalResourceId"
        ]
        for name in ("JobsQueue", "DeadJobsQueue")
    }
    sqs.set_queue_attributes(QueueUrl=found["JobsQueue"], Attributes={"VisibilityTimeout": "1"})
    yield found["JobsQueue"], found["DeadJobsQueue"]
    sqs.set_queue_attributes(QueueUrl=found["JobsQueue"], Attributes={"VisibilityTimeout": "960"})


def test_the_rule_starts_the_sweep_and_the_queue_delivers(deployed: Deployed) -> None:
    card = {"$schema": SCHEMA, "meta": {"id": "pills", "label": "Pills"}}
    assert deployed.api.post("/api/manifests", json=card).status_code == 201
    due = datetime.now(UTC).astimezone(ZoneInfo(ZONE)) + timedelta(seconds=80)
    trigger = {"type": "daily", "time": due.strftime("%H:%M")}
    reminder = {"label": "a", "title": "a", "body": "a", "trigger": trigger}
    assert deployed.api.put("/api/manifests/pills/notifications/am", json=reminder).status_code == 200

    def shown() -> Any:
        answer = deployed.api.get("/api/notifications")
        assert answer.status_code == 200, answer.text
        (one,) = answer.json()["notifications"]
        return one

    before = shown()["next_due"]
    assert before.startswith(due.astimezone(UTC).strftime("%Y-%m-%dT%H:%M"))
    fired = until(lambda: (one := shown())["last_fire_status"] and one)
    assert fired["last_fire_status"] == "no_device"
    assert fired["next_due"] > before


def test_poison_in_the_queue_is_put_aside_as_a_dead_letter(emulator: Emulator, jobs: tuple[str, str]) -> None:
    sqs, (queue, dead) = emulator.client("sqs"), jobs
    sqs.send_message(QueueUrl=queue, MessageBody='{"kind": "poison"}')
    (letter,) = until(lambda: sqs.receive_message(QueueUrl=dead).get("Messages"))
    assert letter["Body"] == '{"kind": "poison"}'
