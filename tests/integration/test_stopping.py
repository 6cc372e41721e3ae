"""Stops against a gateway that speaks HTTP: its connection closes, what was visible stays, the next request is valid.
Repeats and queues through the routes.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.front_door import FrontDoor, Stream
from tests.invariants import check_request
from tests.scripted_gateway import Gate, Reply, ScriptedGateway, call, call_reply, delta, error_reply, text_reply

THINKING = [delta(content="<think>The user wants"), delta(content=" a secret")]
REASONING = delta(reasoning_content="a secret")


@pytest.fixture
def door(tmp_path: Path, scripted_gateway: ScriptedGateway) -> Iterator[FrontDoor]:
    with closing(FrontDoor(tmp_path, scripted_gateway.url)) as door:
        yield door


def half_call() -> bytes:
    return delta(tool_calls=[call("list_cards", '{"a"')])


CASES: dict[str, tuple[list[Reply], list[str], str | None]] = {
    # replies of the gateway, what the watcher sees before the stop, what is kept
    "before the first token": ([Reply(end="hold")], ["status"], None),
    "in the middle of text": ([Reply([delta(content="Half "), delta(content="of")], end="hold")], ["token"], "Half "),
    "in a think block": ([Reply(THINKING, end="hold")], ["status"], None),
    "in reasoning behind text": ([Reply([delta(content="Half "), REASONING], end="hold")], ["token"], "Half "),
    "inside tool arguments": ([Reply([half_call()], end="hold")], ["status"], None),
    "inside tool arguments behind text": (
        [Reply([delta(content="Half "), half_call()], end="hold")],
        ["token"],
        "Half ",
    ),
    "behind a tool, before the next token": (
        [call_reply(call("list_cards", {}), text="Let me see."), Reply(end="hold")],
        ["reset", "status", "status"],
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_stop(door: FrontDoor, scripted_gateway: ScriptedGateway, case: str) -> None:
    replies, seen, kept = CASES[case]
    scripted_gateway.queue(*replies, text_reply("Here I am."))
    conversation = door.conversation()
    _, stream = door.chat(conversation, "Go.", stream=True)
    for name in seen:
        stream.until(name)
    scripted_gateway.wait_for_requests(len(replies))
    status, body = door.ask("DELETE", f"/api/chat/turn/{conversation}")
    frames = list(stream)
    assert [frame.name for frame in frames[-2:]] == ["stopped", "done"]
    assert (status, body["turnId"]) == (200, frames[-1].data["turnId"])
    assert scripted_gateway.requests[-1].wait_closed()

    message = door.messages(conversation)[-1]
    if kept is None:
        assert message["role"] == "user"
    else:
        assert message["content"].startswith(kept)
        assert "secret" not in message["content"]
        assert message["stopped"] is True
    assert door.chat(conversation, "Still there?")[1]["reply"] == "Here I am."
    check_request(scripted_gateway.requests[-1].messages[1:])
    assert not any(
        call
        for m in scripted_gateway.requests[-1].messages
        for call in m.get("tool_calls") or []
        if call["function"]["arguments"] == '{"a"'
    )


def test_a_stop_while_the_gateway_asked_for_patience(door: FrontDoor, scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(error_reply(429, headers={"retry-after": "9"}), text_reply("Here I am."))
    conversation = door.conversation()
    _, stream = door.chat(conversation, "Go.", stream=True)
    stream.until("status")
    scripted_gateway.wait_for_requests(1)
    door.ask("DELETE", f"/api/chat/turn/{conversation}")
    assert stream.names()[-2:] == ["stopped", "done"]
    assert [message["role"] for message in door.messages(conversation)] == ["user"]
    assert door.chat(conversation, "Still there?")[1]["reply"] == "Here I am."
    assert len(scripted_gateway.requests) == 2


def test_a_stop_in_buffered_mode_says_so(door: FrontDoor, scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(Reply([delta(content="Half ")], end="hold"))
    conversation = door.conversation()
    waiting = Call(lambda: door.chat(conversation, "Go."))
    scripted_gateway.wait_for_requests(1)
    _, stopped = door.ask("DELETE", f"/api/chat/turn/{conversation}")
    assert waiting.result() == (200, {"stopped": True, "turnId": stopped["turnId"]})


def test_a_stop_that_names_another_turn_is_told_that_none_runs(
    door: FrontDoor, scripted_gateway: ScriptedGateway
) -> None:
    scripted_gateway.queue(Reply([delta(content="Half ")], end="hold"))
    conversation = door.conversation()
    _, stream = door.chat(conversation, "Go.", stream=True)
    stream.until("token")
    status, body = door.ask("DELETE", f"/api/chat/turn/{conversation}?turnId=other")
    assert (status, body["code"]) == (404, "no_turn_running")
    assert door.ask("DELETE", f"/api/chat/turn/{conversation}")[0] == 200
    assert stream.names()[-1] == "done"


# -- what is refused before the first byte


def test_case_51_a_refusals_are_plain_json_with_their_status_for_streams_too(
    door: FrontDoor, scripted_gateway: ScriptedGateway
) -> None:
    scripted_gateway.queue(Reply(end="hold"))
    conversation = door.conversation()
    _, stream = door.chat(conversation, "Go.", stream=True)
    status, body = door.chat(conversation, "More.", stream=True)
    assert (status, body["code"]) == (409, "turn_running")
    assert door.chat("unknown", "Hello?", stream=True)[1]["code"] == "unknown_conversation"
    assert door.chat(conversation, " ", stream=True)[1]["code"] == "invalid_messages"
    scripted_gateway.wait_for_requests(1)
    door.ask("DELETE", f"/api/chat/turn/{conversation}?turnId={body['turnId']}")
    assert stream.names()[-1] == "done"
    assert len(door.messages(conversation)) == 1


# -- Idempotency-Key


def test_a_repeat_with_the_same_body_is_told_the_first_turn_from_its_start(
    door: FrontDoor, scripted_gateway: ScriptedGateway
) -> None:
    scripted_gateway.queue(text_reply("Once only."))
    conversation = door.conversation()
    first = list(door.chat(conversation, "Go.", stream=True, key="k")[1])
    again = door.chat(conversation, "Go.", stream=True, key="k")[1]
    assert isinstance(again, Stream)
    assert list(again) == first
    assert len(door.messages(conversation)) == 2


def test_a_repeat_in_buffered_mode_waits_for_the_reply(door: FrontDoor, scripted_gateway: ScriptedGateway) -> None:
    gate = Gate()
    whole = text_reply("Once only.")
    scripted_gateway.queue(Reply([gate, *whole.steps]))
    conversation = door.conversation()
    first = Call(lambda: door.chat(conversation, "Go.", key="k"))
    assert gate.reached.wait(30)
    second = Call(lambda: door.chat(conversation, "Go.", key="k"))
    gate.open()
    assert first.result() == second.result()
    assert first.result()[1]["reply"] == "Once only."
    assert door.chat(conversation, "Go.", key="k")[1] == first.result()[1]


def test_another_body_under_the_same_key_is_refused(door: FrontDoor, scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(text_reply("Once only."))
    conversation = door.conversation()
    door.chat(conversation, "Go.", key="k")
    status, body = door.chat(conversation, "Go on.", key="k")
    assert (status, body["code"]) == (422, "idempotency_mismatch")


def test_a_queued_message_is_answered_behind_the_turn(door: FrontDoor, scripted_gateway: ScriptedGateway) -> None:
    gate = Gate()
    scripted_gateway.queue(Reply([gate, *text_reply("One.").steps]), text_reply("Two."))
    conversation = door.conversation()
    _, stream = door.chat(conversation, "First.", stream=True)
    assert gate.reached.wait(30)
    status, body = door.chat(conversation, "Second.", onBusy="enqueue", key="q")
    assert (status, body["queued"]) == (202, True)
    assert door.chat(conversation, "Second.", onBusy="enqueue", key="q") == (202, body)
    assert [m.get("queued") for m in door.messages(conversation)] == [None, True]
    running = door.ask("GET", "/api/chat/turns")[1]["turns"]
    assert [turn["conversationId"] for turn in running] == [conversation]
    gate.open()
    stream.names()
    for delivery in door.parts.jobs.take(10):  # type: ignore[attr-defined]
        if '"queued_turn"' in delivery.body:
            door.worker(sqs(delivery.body), None)
    said = [message["content"] for message in door.messages(conversation)]
    assert said == ["First.", "One.", "Second.", "Two."]
    assert door.messages(conversation)[2]["id"] == body["messageId"]
    assert door.ask("GET", "/api/chat/turns")[1]["turns"] == []


def sqs(body: str) -> dict[str, Any]:
    return {"Records": [{"messageId": "1", "receiptHandle": "1", "body": body, "eventSource": "aws:sqs"}]}


class Call:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._given: Any = None

        def run() -> None:
            self._given = call()

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def result(self) -> Any:
        self._thread.join(60)
        return self._given
