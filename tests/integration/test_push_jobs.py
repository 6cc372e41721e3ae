"""The push job in the queue worker: when it is tried again, when for the last time, and what it needs."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from deckhand.bootstrap import Parts
from deckhand.domain.errors import PushUnfinished, StorageUnavailable
from deckhand.domain.job import Actor, Job
from deckhand.push.vapid import new_key
from deckhand.settings import read_settings
from deckhand.storage.queue import MAX_TRIES
from deckhand.storage.sqlite import SqliteStore
from deckhand.storage.sqlite_queue import Delivery
from deckhand.storage.sqs import SqsQueue
from deckhand.storage.subscriptions import Subscriptions
from infra.local.ticker import sqs_event
from tests.deck import Deck
from tests.fakes import FakeQueue
from tests.integration.test_push_delivery import REMINDERS
from tests.push_service import PushService
from tests.stores import CREDENTIALS, new_token

ACTOR = Actor(kind="schedule", id="reminders", user="ann", role="viewer", tenant="main")
PUSH = Job(kind="push", actor=ACTOR, due="2026-04-20T08:00Z", reminders=("weight#am",), fire="f1")
ROOT = Path(__file__).resolve().parents[2]


class Delivering:
    """A delivery that ends as it is told, and keeps which tries it took for the last."""

    def __init__(self, wait: float | None) -> None:
        self._wait = wait
        self.lasts: list[bool] = []

    def __call__(self, job: Job, *, last: bool) -> None:
        assert job == PUSH
        self.lasts.append(last)
        if self._wait is not None:
            raise PushUnfinished(wait=self._wait)


class Worker:
    def __init__(self, folder: Path, delivering: Delivering) -> None:
        parts = Parts(read_settings({"DECKHAND_SQLITE": str(folder / "deckhand.sqlite3")}))
        self.queue = FakeQueue()
        parts.__dict__.update(push_delivery=delivering, jobs=self.queue)
        self._worker = parts.job_worker()

    def __call__(self, tries: int) -> Any:
        return self._worker(sqs_event(Delivery("j1", PUSH.to_json(), tries)), None)


FAILED = {"batchItemFailures": [{"itemIdentifier": "j1"}]}


def test_a_push_that_every_device_has_is_done(tmp_path: Path) -> None:
    worker = Worker(tmp_path, delivering := Delivering(None))
    assert worker(1) == {"batchItemFailures": []}
    assert (delivering.lasts, worker.queue.delays) == ([False], {})


def test_a_push_that_is_not_done_comes_again_later_each_time(tmp_path: Path) -> None:
    worker = Worker(tmp_path, Delivering(0.0))
    waits = []
    for tries in range(1, MAX_TRIES):
        assert worker(tries) == FAILED
        waits.append(worker.queue.delays.pop("j1"))
    assert waits == [30, 120, 480, 900]


@pytest.mark.parametrize(("asked", "waited"), [(77.0, 77.0), (3.0, 30.0), (86_400.0, 900.0)])
def test_a_push_service_that_says_when_is_heard_within_bounds(tmp_path: Path, asked: float, waited: float) -> None:
    worker = Worker(tmp_path, Delivering(asked))
    assert worker(1) == FAILED
    assert worker.queue.delays == {"j1": waited}


def test_the_last_try_of_the_queue_is_the_last_of_the_push(tmp_path: Path) -> None:
    worker = Worker(tmp_path, delivering := Delivering(None))
    for tries in range(1, MAX_TRIES + 1):
        worker(tries)
    assert delivering.lasts == [False] * (MAX_TRIES - 1) + [True]


def test_a_queue_that_cannot_delay_only_makes_it_later(tmp_path: Path) -> None:
    worker = Worker(tmp_path, Delivering(0.0))
    worker.queue.failure = StorageUnavailable()
    assert worker(1) == FAILED


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv({"region_name": "AWS_DEFAULT_REGION"}.get(name, name.upper()), value)
    with mock_aws():
        yield


@pytest.mark.usefixtures("aws")
def test_on_sqs_a_job_is_hidden_for_as_long_as_it_is_delayed() -> None:
    client = boto3.client("sqs")
    url = client.create_queue(QueueName="jobs", Attributes={"VisibilityTimeout": "960"})["QueueUrl"]
    queue = SqsQueue(url)
    queue.send(PUSH)
    (taken,) = client.receive_message(QueueUrl=url)["Messages"]
    assert "Messages" not in client.receive_message(QueueUrl=url)
    queue.delay(taken["ReceiptHandle"], 0)
    (again,) = client.receive_message(QueueUrl=url)["Messages"]
    assert again["Body"] == taken["Body"]
    client.close()
    queue._client.close()


def test_the_whole_way_from_the_queue_to_a_device(tmp_path: Path) -> None:
    settings = {"DECKHAND_VAPID_KEY": new_key(), "DECKHAND_PUSH_ALLOW_LOOPBACK": "1"}
    deck = Deck(tmp_path, settings=settings)
    deck.create("weight", notifications={"items": REMINDERS})
    store = deck.parts.store
    assert isinstance(store, SqliteStore)
    with closing(store), PushService() as service:
        phone = service.device("phone")
        Subscriptions(store, "main").put("ann", phone.subscription, token=new_token())
        now = deck.parts.caller(ACTOR.principal(), "api").now()
        due = datetime.fromtimestamp(now, UTC).isoformat(timespec="minutes")
        job = PUSH.model_copy(update={"due": due})
        done = deck.parts.job_worker()(sqs_event(Delivery("j1", job.to_json(), 1)), None)
        assert done == {"batchItemFailures": []}
        assert phone.titles == ["Weigh in"]


@pytest.mark.parametrize("function", ["chat", "conversations", "manifests", "identity", "jobs"])
def test_no_function_imports_what_pushing_needs_before_it_pushes(function: str, tmp_path: Path) -> None:
    code = (
        "import sys, runpy; runpy.run_path('handler.py');"
        "print([name for name in ('pywebpush', 'py_vapid', 'requests', 'aiohttp', 'http_ece')"
        " if name in sys.modules])"
    )
    environment = {"DECKHAND_SQLITE": str(tmp_path / "d.sqlite3"), "POWERTOOLS_TRACE_DISABLED": "true"}
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / "functions" / function,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout.strip().splitlines()[-1] == "[]"
