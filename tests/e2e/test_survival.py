"""Turns on the laptop stack while its processes are killed and it is told to end."""

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from deckhand.storage.conversations import Owner
from deckhand.storage.sqlite import SqliteStore
from infra.local.api_client import Api, ApiError
from infra.local.sse_client import Message
from tests.invariants import check_invariants, log_ids
from tests.laptop import WAIT_S, Laptop, until
from tests.scripted_gateway import DONE, Gate, Reply, ScriptedGateway, delta, text_reply

LEASE_S = 4.0
OWNER = Owner("main", "owner")
T = TypeVar("T")


class Model:
    """Repeats what it was asked, in pieces. Texts that begin with `hold` wait in the middle until they are let go."""

    def __init__(self) -> None:
        self.held: dict[str, Gate] = {}

    def __call__(self, body: Any) -> Reply:
        asked = body["messages"][-1]["content"]
        asked = asked if isinstance(asked, str) else "".join(part["text"] for part in asked)
        if "tools" not in body:
            return text_reply("A made title")
        if not asked.startswith("hold"):
            return Reply([delta(content="you said "), 0.05, delta(content=asked), delta("stop"), DONE])
        gate = self.held[asked] = Gate()
        return Reply([delta(content="you said "), gate, delta(content=asked), delta("stop"), DONE])


@pytest.fixture(scope="module")
def model() -> Model:
    return Model()


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory, gateway: ScriptedGateway) -> Iterator[Laptop]:
    """Shared by tests that leave it running."""
    made = Laptop(tmp_path_factory.mktemp("shared"), gateway.url, lease=LEASE_S)
    try:
        yield made.start()
    finally:
        made.end()


@pytest.fixture(scope="module")
def steady_laptop(tmp_path_factory: pytest.TempPathFactory, gateway: ScriptedGateway) -> Iterator[Laptop]:
    made = Laptop(tmp_path_factory.mktemp("steady"), gateway.url)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def own_laptop(steady_laptop: Laptop) -> Laptop:
    """With leases as they are; running, whatever the test before did to it."""
    return steady_laptop if steady_laptop.is_running else steady_laptop.start()


@pytest.fixture
def brief_laptop(tmp_path: Path, gateway: ScriptedGateway) -> Iterator[Laptop]:
    """One that waits only shortly for what runs when it is told to end."""
    made = Laptop(tmp_path, gateway.url, stop=1)
    try:
        yield made.start()
    finally:
        made.end()


def create(api: Api) -> str:
    made: str = api.call("POST", "/api/conversations", {})["conversation"]["id"]
    return made


def messages(api: Api, conversation: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.call("GET", f"/api/conversations/{conversation}")["conversation"]["messages"]
    return found


def patiently(call: Callable[[], T]) -> T:
    """Does what a client is told where everything is taken: tries again shortly."""
    while True:
        try:
            return call()
        except ApiError as refused:
            if refused.code != "busy":
                raise
            time.sleep(0.1)


def reply_of(told: list[Message]) -> str:
    return str(next(message.data for message in told if message.event == "reply")["reply"])


class Watching:
    """A client in a thread: starts a turn, reattaches when its connection breaks, and keeps what it is told."""

    def __init__(self, laptop: Laptop, conversation: str, text: str) -> None:
        self.told: list[Message] = []
        self._laptop, self._wanted = laptop, (conversation, text)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        # A server that has ended for good is no fault of a client; what it was told until then is.
        with self._laptop.api() as api, suppress(ApiError):
            for message in api.turn(*self._wanted):
                self.told.append(message)

    def until_stored(self) -> None:
        """Until the text so far is in the log, too: what is not is gone with its process."""
        until(lambda: any(message.event == "token" for message in self.told))
        shown = self.told[-1].id
        with closing(SqliteStore(self._laptop.data / "deckhand.sqlite3", now=time.time)) as store:
            until(lambda: shown in log_ids(store, OWNER, self._wanted[0]))

    def result(self) -> list[Message]:
        self._thread.join(WAIT_S)
        assert self.told[-1].event == "done"
        ids = [message.id for message in self.told if message.id is not None]
        assert ids == sorted(set(ids))
        return self.told


def check(laptop: Laptop, conversation: str, asked: list[str]) -> None:
    with closing(SqliteStore(laptop.data / "deckhand.sqlite3", now=time.time)) as store:
        replies = [f"you said {text}" for text in asked]
        check_invariants(store, OWNER, conversation, now=time.time(), asked=asked, replies=replies)


def test_fifty_conversations_at_once_all_finish_and_none_is_mixed(own_laptop: Laptop) -> None:
    def talk(number: int) -> str:
        with own_laptop.api() as api:
            conversation = patiently(lambda: create(api))
            told = patiently(lambda: list(api.turn(conversation, f"words of {number}")))
            assert reply_of(told) == f"you said words of {number}"
            assert {message.data["conversationId"] for message in told if message.event == "done"} == {conversation}
            said = [message["content"] for message in patiently(lambda: messages(api, conversation))]
            assert said == [f"words of {number}", f"you said words of {number}"]
        return conversation

    with ThreadPoolExecutor(50) as threads:
        conversations = list(threads.map(talk, range(50)))
    assert len(set(conversations)) == 50
    for number, conversation in enumerate(conversations):
        check(own_laptop, conversation, [f"words of {number}"])


class Aftermath:
    """Three turns whose workers were killed at the same moment. Behind the second one a new turn was begun as soon as
    that was possible (`refusals` are the codes until then), behind the third a message was queued.
    """

    def __init__(self, laptop: Laptop) -> None:
        self.laptop, self.refusals = laptop, list[str]()
        self.told: list[Message] = []
        with laptop.api() as api:
            self.alone, self.followed, self.queued = create(api), create(api), create(api)
            asked = {self.alone: "hold a", self.followed: "hold b", self.queued: "hold c"}
            self.watching = {one: Watching(laptop, one, text) for one, text in asked.items()}
            for watching in self.watching.values():
                watching.until_stored()
            later = {**_buffered(self.queued, "later"), "onBusy": "enqueue"}
            assert api.call("POST", "/api/chat", later)["queued"] is True
            laptop.kill_workers("chat")
            until(lambda: self._starts(api))

    def _starts(self, api: Api) -> bool:
        try:
            self.told.extend(api.turn(self.followed, "again"))
        except ApiError as refused:
            self.refusals.append(refused.code)
            return False
        return True


@pytest.fixture(scope="module")
def aftermath(laptop: Laptop) -> Aftermath:
    return Aftermath(laptop)


def test_a_worker_that_is_killed_in_a_turn_costs_a_lease_of_waiting_and_nothing_else(aftermath: Aftermath) -> None:
    told = aftermath.watching[aftermath.alone].result()
    assert [message.event for message in told[-2:]] == ["error", "done"]
    assert told[-2].data["code"] == "turn_lost"
    with aftermath.laptop.api() as api:
        (question, partial) = messages(api, aftermath.alone)
        assert (question["content"], partial["content"], partial["interrupted"]) == ("hold a", "you said ", True)
        assert reply_of(list(api.turn(aftermath.alone, "again"))) == "you said again"
    check(aftermath.laptop, aftermath.alone, ["hold a", "again"])


def test_a_start_behind_a_killed_worker_waits_no_longer_than_the_lease(aftermath: Aftermath) -> None:
    assert set(aftermath.refusals) <= {"turn_running", "function_failed"}, "some may meet a worker that is just dying"
    assert reply_of(aftermath.told) == "you said again"
    aftermath.watching[aftermath.followed].result()
    check(aftermath.laptop, aftermath.followed, ["hold b", "again"])


def test_a_queued_message_outlives_the_process_that_queued_it_and_the_one_that_ran(aftermath: Aftermath) -> None:
    with aftermath.laptop.api() as api:
        # The watcher that reattaches finds the turn lost, and wakes the queue.
        until(lambda: messages(api, aftermath.queued)[-1]["content"] == "you said later")
    aftermath.watching[aftermath.queued].result()
    check(aftermath.laptop, aftermath.queued, ["hold c", "later"])


def test_a_stack_that_is_killed_and_started_again_works_on_at_once(own_laptop: Laptop, model: Model) -> None:
    with own_laptop.api() as api:
        conversation = create(api)
        api.call("POST", "/api/chat", _buffered(conversation, "before"))
    watching = Watching(own_laptop, conversation, "hold d")
    watching.until_stored()
    own_laptop.kill()
    own_laptop.start()
    with own_laptop.api() as api:
        assert api.call("GET", "/api/chat/turns") == {"turns": []}, "closed at the start, before their leases"
        assert reply_of(list(api.turn(conversation, "again"))) == "you said again"
        said = [message["content"] for message in messages(api, conversation)]
        assert said == ["before", "you said before", "hold d", "you said ", "again", "you said again"]
    check(own_laptop, conversation, ["before", "hold d", "again"])


def test_a_signal_lets_turns_end_that_nobody_watches_and_queued_ones_too(own_laptop: Laptop, model: Model) -> None:
    with own_laptop.api() as api:
        unwatched, queued = create(api), create(api)
        for _ in api.turn(unwatched, "hold e"):
            if "hold e" in model.held:
                break  # and hang up
        watching = Watching(own_laptop, queued, "hold f")
        watching.until_stored()
        body = {"conversationId": queued, "messages": [{"role": "user", "content": "hold g"}], "onBusy": "enqueue"}
        api.call("POST", "/api/chat", body)
        model.held["hold f"].open()
        watching.result()
        until(lambda: "hold g" in model.held and model.held["hold g"].reached.is_set())
    own_laptop.process.terminate()
    until(lambda: not _answers(own_laptop))
    model.held["hold e"].open()
    model.held["hold g"].open()
    assert own_laptop.process.wait(WAIT_S) == 0
    assert _stored(own_laptop, unwatched) == ["hold e", "you said hold e"]
    assert _stored(own_laptop, queued) == ["hold f", "you said hold f", "hold g", "you said hold g"]
    check(own_laptop, unwatched, ["hold e"])
    check(own_laptop, queued, ["hold f", "hold g"])


def test_a_turn_that_does_not_end_in_time_is_closed_as_lost_by_a_clean_end(brief_laptop: Laptop) -> None:
    with brief_laptop.api() as api:
        conversation = create(api)
    watching = Watching(brief_laptop, conversation, "hold h")
    watching.until_stored()
    brief_laptop.process.terminate()
    assert brief_laptop.process.wait(WAIT_S) == 0
    with closing(sqlite3.connect(brief_laptop.data / "deckhand.sqlite3")) as connection:
        pk = f"main#conv#{conversation}"
        (head,) = connection.execute("SELECT body FROM items WHERE pk = ? AND sk = 'head'", (pk,)).fetchone()
    assert json.loads(head)["status"] == "failed"
    assert _stored(brief_laptop, conversation) == ["hold h", "you said "]
    check(brief_laptop, conversation, ["hold h"])
    brief_laptop.start()
    with brief_laptop.api() as api:
        assert reply_of(list(api.turn(conversation, "again"))) == "you said again"


def _buffered(conversation: str, text: str) -> dict[str, Any]:
    return {"conversationId": conversation, "messages": [{"role": "user", "content": text}]}


def _stored(laptop: Laptop, conversation: str) -> list[str]:
    with closing(sqlite3.connect(laptop.data / "deckhand.sqlite3")) as connection:
        rows = connection.execute(
            "SELECT body FROM items WHERE pk = ? AND sk LIKE 'm#%' ORDER BY sk", (f"main#conv#{conversation}",)
        ).fetchall()
    return [json.loads(body)["content"] for (body,) in rows]


def _answers(laptop: Laptop) -> bool:
    with laptop.api() as api:
        try:
            api.call("GET", "/healthz")
        except ApiError:
            return False
    return True
