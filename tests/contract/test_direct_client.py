"""What the reference client of the direct form does while a model wakes up (checklist 002-24), against real HTTP."""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deckhand.agent.conductor import HttpConductor
from infra.local.api_client import ApiError
from infra.local.direct_client import AnswerLostError, DirectClient, Patience, Said, converse
from infra.local.foreground import Foreground
from tests.conductor import PAST, TOKEN, Conductor, Told
from tests.scripted_gateway import Recorded, Reply, ScriptedGateway

PENDING = {"reply": "waking", "sessionId": "s", "pendingWake": {"pod": "qwen"}}
ANSWERED = {"reply": "Hi", "sessionId": "s", "model": "m"}
AWAY = "https://pods.test/v1/chat/completions"


def told(body: Any, status: int = 200) -> Reply:
    return Reply([json.dumps(body).encode()], status, {"content-type": "application/json"})


@dataclass
class Meanwhile:
    """A clock that only its own sleep moves; `happenings` are done one a sleep."""

    time: float = 0.0
    happenings: list[Callable[[], object]] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        if self.happenings:
            self.happenings.pop(0)()

    def clock(self) -> float:
        return self.time


class Caller:
    """A person at a terminal. Several on one folder share its foreground."""

    def __init__(self, folder: Path, server: ScriptedGateway, conductor: Conductor) -> None:
        self.server, self.conductor, self._folder, self._marks = server, conductor, folder, 0
        self.url = f"http://127.0.0.1:{server.port}"
        self.meanwhile = Meanwhile()
        self.left = False
        self.notices: list[Said] = []

    def claim(self, session: str = "s") -> Foreground:
        self._marks += 1
        return Foreground(self._folder, url=self.url, session=session, mark=f"{id(self)}-{self._marks}")

    def ask(self, message: str = "hello", *, knows_conductor: bool = True, seconds: float = 60) -> Said:
        client = DirectClient(self.url, "secret")
        try:
            return converse(
                client,
                message,
                "s",
                claim=self.claim(),
                pods=self._pod if knows_conductor else None,
                patience=Patience(
                    seconds, self.meanwhile.sleep, self.meanwhile.clock, lambda: 1_790_000_000.0, lambda: self.left
                ),
                notice=self.notices.append,
            )
        finally:
            client.close()

    def _pod(self, name: str) -> HttpConductor:
        return HttpConductor(self.conductor.url, token=lambda: TOKEN, pod=name)

    @property
    def sent(self) -> list[dict[str, Any]]:
        requests: list[Recorded] = self.server.requests
        assert {(r.method, r.path, r.headers["x-chat-token"]) for r in requests} == {("POST", "/api/chat", "secret")}
        return [request.body for request in requests]


@pytest.fixture
def caller(tmp_path: Path, scripted_gateway: ScriptedGateway) -> Iterator[Caller]:
    with Conductor() as conductor:
        conductor.pod = {"state": "starting"}
        yield Caller(tmp_path, scripted_gateway, conductor)


def sent(mode: str | None, message: str = "hello") -> dict[str, Any]:
    return {"message": message, "sessionId": "s", **({} if mode is None else {"wakeMode": mode})}


def test_002_24_without_a_conductor_to_ask_nothing_is_waited_for(caller: Caller) -> None:
    caller.server.queue(told(ANSWERED))
    assert caller.ask(knows_conductor=False) == Said("Hi")
    assert caller.sent == [sent(None)]


def test_002_24_a_model_that_is_awake_answers_at_once(caller: Caller) -> None:
    caller.server.queue(told(ANSWERED))
    assert caller.ask() == Said("Hi")
    assert (caller.sent, caller.conductor.asked, caller.notices) == ([sent("wait")], [], [])


def test_002_24_the_same_message_goes_out_once_more_when_the_pod_is_ready(caller: Caller) -> None:
    caller.server.queue(told(PENDING), told(ANSWERED))
    caller.meanwhile.happenings = [lambda: None, lambda: caller.conductor.ready(AWAY)]
    assert caller.ask() == Said("Hi")
    assert caller.sent == [sent("wait"), sent("resume")]
    assert (caller.conductor.looks, caller.conductor.starts) == (3, 0)
    assert caller.notices == [Said("waking", "qwen")]


@pytest.mark.parametrize(
    "pod",
    [
        {"state": "stopped"},
        {"state": "running", "endpoint": AWAY, "readySince": None},
        {"state": "running", "endpoint": AWAY, "readySince": "2999-01-01T00:00:00Z"},
        {"state": "running", "endpoint": AWAY, "readySince": "soon"},
        {"state": "starting", "endpoint": AWAY, "readySince": PAST},
    ],
)
def test_002_24_after_the_deadline_nothing_is_sent_any_more(caller: Caller, pod: dict[str, Any]) -> None:
    caller.server.queue(told(PENDING))
    caller.conductor.pod = pod
    with pytest.raises(ApiError) as ended:
        caller.ask(seconds=5)
    assert (ended.value.code, caller.sent) == ("deadline", [sent("wait")])
    assert caller.conductor.looks == 6


def test_002_24_a_status_that_cannot_be_read_for_a_while_is_asked_again(caller: Caller) -> None:
    caller.server.queue(told(PENDING), told(ANSWERED))
    caller.conductor.ready(AWAY)
    caller.conductor.told = Told(500, b"")
    caller.meanwhile.happenings = [lambda: setattr(caller.conductor, "told", None)]
    assert caller.ask() == Said("Hi")


def test_002_24_a_newer_message_of_the_session_ends_the_older_ones_waiting(caller: Caller) -> None:
    newer = caller.claim()
    caller.server.queue(told(PENDING))

    def from_another_terminal() -> None:
        newer.take()
        caller.conductor.ready(AWAY)

    caller.meanwhile.happenings = [from_another_terminal]
    with pytest.raises(ApiError) as ended:
        caller.ask()
    assert (ended.value.code, caller.sent) == ("cancelled", [sent("wait")])
    assert newer.is_ours()


def test_002_24_a_newer_message_ends_the_waiting_for_a_pod_that_is_still_asleep(caller: Caller) -> None:
    caller.server.queue(told(PENDING))
    caller.meanwhile.happenings = [caller.claim().take]
    with pytest.raises(ApiError) as ended:
        caller.ask()
    assert (ended.value.code, caller.conductor.looks) == ("cancelled", 2)


@pytest.mark.parametrize("answers", [[told(ANSWERED)], [told(PENDING), told(ANSWERED)], [told({}, 500)]])
def test_002_24_a_message_that_is_over_leaves_no_claim(caller: Caller, answers: list[Reply]) -> None:
    caller.server.queue(*answers)
    caller.conductor.ready(AWAY)
    with contextlib.suppress(ApiError):
        caller.ask()
    assert [path.name for path in (caller._folder / "direct").iterdir()] == ["lock"]


def test_002_24_a_message_of_another_session_ends_nothing(caller: Caller) -> None:
    caller.server.queue(told(PENDING), told(ANSWERED))

    def elsewhere() -> None:
        caller.claim("another").take()
        caller.conductor.ready(AWAY)

    caller.meanwhile.happenings = [elsewhere]
    assert caller.ask() == Said("Hi")


def test_002_24_who_left_the_foreground_sends_nothing_any_more(caller: Caller) -> None:
    caller.server.queue(told(PENDING))

    def left() -> None:
        caller.left = True
        caller.conductor.ready(AWAY)

    caller.meanwhile.happenings = [left]
    with pytest.raises(ApiError) as ended:
        caller.ask()
    assert (ended.value.code, caller.sent) == ("cancelled", [sent("wait")])


def test_002_24_an_interrupt_while_waiting_ends_it_for_good(caller: Caller) -> None:
    caller.server.queue(told(PENDING))

    def interrupt() -> None:
        raise KeyboardInterrupt

    caller.meanwhile.happenings = [interrupt]
    with pytest.raises(KeyboardInterrupt):
        caller.ask()
    assert caller.sent == [sent("wait")]


def test_002_24_a_resume_that_is_told_to_wait_again_is_no_reply_and_no_reason_to_wait(caller: Caller) -> None:
    caller.server.queue(told(PENDING), told(PENDING))
    caller.conductor.ready(AWAY)
    with pytest.raises(ApiError) as ended:
        caller.ask()
    assert ended.value.code == "asleep"


@pytest.mark.parametrize("end", ["cut", "reset"])
def test_002_24_a_message_whose_answer_was_lost_is_not_sent_again(caller: Caller, end: Any) -> None:
    caller.server.queue(Reply([b'{"reply"'], end=end))
    with pytest.raises(AnswerLostError):
        caller.ask()
    assert caller.sent == [sent("wait")]


@pytest.mark.parametrize(
    "answer",
    [
        Reply(end="cut"),
        Reply([b'{"reply": "H'], end="reset"),
        told({"error": "The AI service failed.", "code": "provider_failed"}, 502),
        Reply([b"<html>"], 504, {"content-type": "text/html"}),
        told(PENDING),
        told([]),
    ],
    ids=["cut", "reset", "502", "504", "pending", "strange"],
)
def test_002_24_the_resume_is_the_last_that_is_sent_whatever_comes_of_it(caller: Caller, answer: Reply) -> None:
    caller.server.queue(told(PENDING), answer)
    caller.conductor.ready(AWAY)
    with contextlib.suppress(ApiError):
        caller.ask()
    assert caller.sent == [sent("wait"), sent("resume")]
    assert caller.conductor.starts == 0


def test_002_24_the_claim_is_consumed_before_the_resume_is_sent(caller: Caller) -> None:
    caller.conductor.ready(AWAY)
    held: list[bool] = []

    def resumed(body: Any) -> Reply:
        if body["wakeMode"] == "wait":
            return told(PENDING)
        held.extend(path.name != "lock" for path in (caller._folder / "direct").iterdir())
        return told(ANSWERED)

    caller.server.respond = resumed
    assert caller.ask() == Said("Hi")
    assert held == [False]


def test_002_24_a_claim_is_consumed_by_one_only(caller: Caller) -> None:
    claim = caller.claim()
    claim.take()
    assert [claim.consume(), claim.consume()] == [True, False]


def test_no_message_is_kept_on_the_machine(caller: Caller) -> None:
    caller.server.queue(told(PENDING), told(ANSWERED))
    kept: list[str] = []

    def look() -> None:
        kept.extend(path.read_text() for path in (caller._folder / "direct").iterdir())
        caller.conductor.ready(AWAY)

    caller.meanwhile.happenings = [look]
    caller.ask("a private thing")
    assert kept
    assert not any("private" in text for text in kept)


def test_a_refusal_is_told_in_the_servers_words(caller: Caller) -> None:
    caller.server.queue(told({"error": "too many chats in flight", "code": "too_many_chats"}, 429))
    with pytest.raises(ApiError, match="too many chats in flight"):
        caller.ask()
