"""The queue and what it does behind requests: titles, queued turns, a worker whose records fail one by one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from deckhand.agent.title import clean_title
from deckhand.bootstrap import Parts
from deckhand.domain.errors import StorageUnavailable
from deckhand.domain.job import Actor, Job
from deckhand.settings import read_settings
from deckhand.storage.queue import MAX_TRIES, JobQueue
from deckhand.storage.sqlite_queue import RETRY_S, VISIBILITY_S, Delivery, SqliteQueue
from deckhand.storage.sqs import SqsQueue
from infra.local.ticker import sqs_event
from tests.front_door import FrontDoor
from tests.integration.test_contention import at_once
from tests.scripted_gateway import Gate, Reply, ScriptedGateway, delta, error_reply, text_reply
from tests.stores import CREDENTIALS, Clock

ACTOR = Actor(kind="token", id="agent", user="owner", role="agent", tenant="main")


def job(conversation: str = "c1") -> Job:
    return Job(kind="title", actor=ACTOR, conversation=conversation)


# -- the queue of the laptop


@pytest.fixture
def queue(tmp_path: Path, clock: Clock) -> SqliteQueue:
    return SqliteQueue(tmp_path / "jobs.sqlite3", now=clock)


def test_a_job_is_handed_out_until_it_is_done(queue: SqliteQueue, clock: Clock) -> None:
    queue.send(job())
    (first,) = queue.take(8)
    assert Job.model_validate_json(first.body) == job()
    assert queue.take(8) == [], "hidden while it is worked on"
    clock.time += VISIBILITY_S
    (again,) = queue.take(8)
    assert (again.id, again.tries) == (first.id, 2), "its worker was never heard of again"
    queue.done(again.id)
    clock.time += VISIBILITY_S
    assert queue.take(8) == []


def test_a_failed_job_comes_again_later_each_time_and_is_put_aside_at_last(queue: SqliteQueue, clock: Clock) -> None:
    queue.send(job())
    waits = []
    for _ in range(MAX_TRIES):
        began = clock.time
        while not (taken := queue.take(1)):
            clock.time += 0.5
        waits.append(clock.time - began)
        queue.failed(taken[0].id, taken[0].tries)
    assert waits == sorted(waits)
    assert waits[1] >= RETRY_S
    clock.time += 10 * VISIBILITY_S
    assert queue.take(1) == []
    assert [Job.model_validate_json(one.body) for one in queue.dead()] == [job()]


def test_a_job_whose_workers_keep_dying_is_put_aside_too(queue: SqliteQueue, clock: Clock) -> None:
    queue.send(job())
    for _ in range(MAX_TRIES):
        assert len(queue.take(1)) == 1
        clock.time += VISIBILITY_S
    assert queue.take(1) == []
    assert len(queue.dead()) == 1


def test_eight_takers_share_the_jobs_and_none_is_taken_twice(queue: SqliteQueue) -> None:
    for n in range(24):
        queue.send(job(f"c{n}"))
    taken = [one for some in at_once([lambda: queue.take(5)] * 8) if isinstance(some, list) for one in some]
    assert len({one.id for one in taken}) == len(taken) == 24


def test_a_queue_without_a_file_has_no_work(tmp_path: Path) -> None:
    assert SqliteQueue(tmp_path / "none.sqlite3", now=Clock()).take(1) == []


# -- both queues


def sqs(url: str, endpoint: str | None) -> tuple[SqsQueue, Callable[[], list[str]]]:
    client = boto3.client("sqs", endpoint_url=endpoint)

    def bodies() -> list[str]:
        found = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        client.close()
        return [message["Body"] for message in found]

    return SqsQueue(url, endpoint=endpoint), bodies


@pytest.fixture(params=["sqlite", "moto", "ministack"])
def any_queue(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[JobQueue, Callable[[], list[str]]]]:
    """A queue, and what a worker would get from it."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv({"region_name": "AWS_DEFAULT_REGION"}.get(name, name.upper()), value)
    if request.param == "sqlite":
        local = SqliteQueue(tmp_path / "jobs.sqlite3", now=Clock())
        yield local, lambda: [one.body for one in local.take(10)]
        return
    endpoint = request.getfixturevalue("ministack_url") if request.param == "ministack" else None
    if endpoint is None:
        with mock_aws():
            yield from _sqs_queue(None)
    else:
        yield from _sqs_queue(endpoint)


def _sqs_queue(endpoint: str | None) -> Iterator[tuple[JobQueue, Callable[[], list[str]]]]:
    client = boto3.client("sqs", endpoint_url=endpoint)
    url = client.create_queue(QueueName="jobs")["QueueUrl"]
    client.close()
    queue, bodies = sqs(url, endpoint)
    yield queue, bodies
    if queue._client is not None:
        queue._client.close()


def test_what_is_sent_is_what_a_worker_gets(any_queue: tuple[JobQueue, Callable[[], list[str]]]) -> None:
    queue, bodies = any_queue
    queue.send(job("c1"))
    assert [Job.model_validate_json(body) for body in bodies()] == [job("c1")]


def test_all_that_is_sent_at_once_is_what_a_worker_gets(any_queue: tuple[JobQueue, Callable[[], list[str]]]) -> None:
    queue, bodies = any_queue
    sent = [job(f"m{n}") for n in range(3)]
    queue.send_many(sent)
    found = [Job.model_validate_json(body) for body in bodies()]
    assert sorted((one for one in found if one in sent), key=lambda one: one.conversation) == sent


def test_a_queue_that_takes_some_of_many_says_that_it_did_not_take_them(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    class Choosy:
        def send_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> dict[str, Any]:
            taken.append(len(Entries))
            return {"Failed": [{"Id": "1"}]} if len(taken) == 2 else {}

    queue = SqsQueue("url")
    queue._client = Choosy()
    with pytest.raises(StorageUnavailable):
        queue.send_many([job(f"m{n}") for n in range(25)])
    assert taken == [10, 10]


def test_a_queue_that_does_not_take_a_job_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv({"region_name": "AWS_DEFAULT_REGION"}.get(name, name.upper()), value)
    with mock_aws():
        unknown = SqsQueue("https://sqs.eu-west-1.amazonaws.com/123456789012/none")
        with pytest.raises(StorageUnavailable):
            unknown.send(job())
        unknown._client.close()
    (tmp_path / "folder.sqlite3").mkdir()
    with pytest.raises(StorageUnavailable):
        SqliteQueue(tmp_path / "folder.sqlite3", now=Clock()).send(job())


# -- titles and the worker


@pytest.fixture
def door(tmp_path: Path, scripted_gateway: ScriptedGateway) -> Iterator[FrontDoor]:
    with closing(FrontDoor(tmp_path, scripted_gateway.url)) as door:
        yield door


def first_exchange(door: FrontDoor, scripted_gateway: ScriptedGateway) -> tuple[str, str]:
    """A conversation, and the body of the job that it left."""
    scripted_gateway.queue(text_reply("Green or black."))
    conversation = door.conversation()
    door.chat(conversation, "Which tea do I   have\nat home, and how much of it is left? Count it.")
    taken = door.parts.jobs.take(10)  # type: ignore[attr-defined]
    (sent,) = [one for one in taken if Job.model_validate_json(one.body).kind != "notices"]
    assert Job.model_validate_json(sent.body).kind == "title"
    return conversation, sent.body


def title_of(door: FrontDoor, conversation: str) -> Any:
    return door.ask("GET", f"/api/conversations/{conversation}")[1]["conversation"]["title"]


def records(*bodies: str) -> dict[str, Any]:
    made = [sqs_event(Delivery(f"id{n}", body, 1))["Records"][0] for n, body in enumerate(bodies)]
    return {"Records": made}


FALLBACK = "Which tea do I have at home, and how much of it is left?…"
CASE_33 = {
    "unclosed thinking": (text_reply("<think>The user wants"), FALLBACK),
    "thinking, then a title": (text_reply("<think>The user wants tea.</think>Tea notes"), "Tea notes"),
    "in quotes": (text_reply('"Tea notes"'), "Tea notes"),
    "with label, marks and a second line": (text_reply("Title: **Tea notes**\nIt is about tea."), "Tea notes"),
    "reasoning only": (Reply([delta(reasoning_content="The user wants"), delta("stop")]), FALLBACK),
    "half a sentence": (text_reply("I need to generate a", finish="length"), FALLBACK),
    "half a sentence that claims to be whole": (text_reply("I need to generate a"), FALLBACK),
    "too many words": (text_reply("All about the tea that there is at home"), FALLBACK),
    "nothing": (text_reply(" "), FALLBACK),
}


@pytest.mark.parametrize("case", CASE_33)
def test_case_33_a_title_is_a_title_or_the_first_words(
    door: FrontDoor, scripted_gateway: ScriptedGateway, case: str
) -> None:
    reply, expected = CASE_33[case]
    conversation, sent = first_exchange(door, scripted_gateway)
    assert title_of(door, conversation) == FALLBACK
    scripted_gateway.queue(reply)
    assert door.worker(records(sent), None) == {"batchItemFailures": []}
    assert title_of(door, conversation) == expected
    assert "tools" not in scripted_gateway.requests[-1].body


def test_case_33_a_title_that_fails_never_fails_the_turn_and_is_tried_again(
    door: FrontDoor, scripted_gateway: ScriptedGateway
) -> None:
    conversation, sent = first_exchange(door, scripted_gateway)
    scripted_gateway.queue(error_reply(401))
    assert door.worker(records(sent), None)["batchItemFailures"] == [{"itemIdentifier": "id0"}]
    assert title_of(door, conversation) == FALLBACK
    scripted_gateway.queue(text_reply("Tea notes"))
    assert door.worker(records(sent), None) == {"batchItemFailures": []}
    assert title_of(door, conversation) == "Tea notes"
    assert door.worker(records(sent), None) == {"batchItemFailures": []}, "done twice, it asks nobody"


def test_a_title_that_a_person_sets_while_the_job_runs_wins(door: FrontDoor, scripted_gateway: ScriptedGateway) -> None:
    conversation, sent = first_exchange(door, scripted_gateway)
    gate = Gate()
    scripted_gateway.queue(Reply([gate, *text_reply("Tea notes").steps]))
    working = threading.Thread(target=lambda: door.worker(records(sent), None))
    working.start()
    assert gate.reached.wait(30)
    door.ask("PATCH", f"/api/conversations/{conversation}", {"title": "Mine"})
    gate.open()
    working.join()
    assert title_of(door, conversation) == "Mine"


def test_a_made_title_does_not_move_the_conversation_up(door: FrontDoor, scripted_gateway: ScriptedGateway) -> None:
    conversation, sent = first_exchange(door, scripted_gateway)
    before = door.ask("GET", f"/api/conversations/{conversation}")[1]["conversation"]["updatedAt"]
    scripted_gateway.queue(text_reply("Tea notes"))
    door.worker(records(sent), None)
    assert door.ask("GET", f"/api/conversations/{conversation}")[1]["conversation"]["updatedAt"] == before


def test_a_title_for_a_conversation_that_is_gone_is_no_failure(
    door: FrontDoor, scripted_gateway: ScriptedGateway
) -> None:
    conversation, sent = first_exchange(door, scripted_gateway)
    door.ask("DELETE", f"/api/conversations/{conversation}")
    assert door.worker(records(sent), None) == {"batchItemFailures": []}
    assert door.ask("GET", "/api/conversations")[1] == {"conversations": []}


def test_one_record_that_fails_does_not_fail_the_others(door: FrontDoor, scripted_gateway: ScriptedGateway) -> None:
    conversation, sent = first_exchange(door, scripted_gateway)
    scripted_gateway.queue(text_reply("Tea notes"))
    failed = door.worker(records("not a job", sent, '{"kind":"unknown"}'), None)["batchItemFailures"]
    assert failed == [{"itemIdentifier": "id0"}, {"itemIdentifier": "id2"}]
    assert title_of(door, conversation) == "Tea notes"


def test_a_batch_that_fails_whole_names_every_record(door: FrontDoor, scripted_gateway: ScriptedGateway) -> None:
    first_exchange(door, scripted_gateway)
    failed = door.worker(records("no", "no"), None)["batchItemFailures"]
    assert failed == [{"itemIdentifier": "id0"}, {"itemIdentifier": "id1"}]


def test_a_title_keeps_its_own_language_and_marks() -> None:
    assert clean_title("Título: «Té verde»") == "Té verde"
    assert clean_title("## C++ & C#") == "C++ & C#"


def test_a_push_needs_no_gateway(tmp_path: Path) -> None:
    parts = Parts(read_settings({"DECKHAND_SQLITE": str(tmp_path / "deckhand.sqlite3")}))
    push = Job(kind="push", actor=ACTOR, due="2027-01-15T08:00Z", reminders=("weight#am",), fire="f1")
    assert parts.job_worker()(records(push.to_json()), None) == {"batchItemFailures": []}
