"""What a person sees of turns that are refused, cut, or over before they could be followed."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from infra.local import api_client
from infra.local.api_client import Api, ApiError
from infra.local.dialogue import Dialogue
from tests.contract.test_api_client import DONE, NOTHING, plain, refusal, stream, token
from tests.scripted_gateway import Gate, Reply, ScriptedGateway

MADE = plain(201, {"conversation": {"id": "c1"}})
NONE_WAIT = plain(200, {"proposals": []})
REPLY = (8, "reply", {"reply": "1 2 "})


@pytest.fixture
def dialogue(scripted_gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dialogue]:
    monkeypatch.setattr(api_client, "RECONNECT_SECONDS", 0.01)
    with closing(Api(f"http://127.0.0.1:{scripted_gateway.port}", "secret")) as api:
        yield Dialogue(api)


def transcript(*messages: tuple[str, str], title: str | None = "Weights") -> Any:
    said = [{"role": role, "content": content} for role, content in messages]
    return plain(200, {"conversation": {"id": "c1", "title": title, "messages": said}})


def asked(gateway: ScriptedGateway) -> list[str]:
    return [f"{request.method} {request.path}" for request in gateway.requests]


def test_the_first_message_makes_the_conversation_and_the_next_stays_in_it(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway
) -> None:
    scripted_gateway.queue(MADE, stream(REPLY, DONE), stream(REPLY, DONE))
    dialogue.say("hello")
    dialogue.say("and?")
    assert asked(scripted_gateway) == ["POST /api/conversations", "POST /api/chat", "POST /api/chat"]
    assert {request.body["conversationId"] for request in scripted_gateway.requests[1:]} == {"c1"}


def test_a_cut_answer_that_is_over_is_read_from_the_conversation(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = transcript(("user", "hello"), ("assistant", "1 2 3"))
    scripted_gateway.queue(MADE, stream(token(1), end="cut"), NOTHING, stored)
    screen = dialogue.say("hello")
    assert (screen.failed, capsys.readouterr().out) == (False, "1 2 3\n")


def test_a_message_without_an_answer_is_told_as_that(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted_gateway.queue(MADE, stream(token(1), end="cut"), NOTHING, transcript(("user", "hello")), NONE_WAIT)
    assert dialogue.say("hello").failed
    assert capsys.readouterr().err == "This message got no answer.\n"


def test_a_refused_first_message_leaves_no_empty_conversation(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway
) -> None:
    scripted_gateway.queue(MADE, refusal(503, "chat_not_configured"), plain(200, {"ok": True}))
    with pytest.raises(ApiError, match="chat_not_configured"):
        dialogue.say("hello")
    assert asked(scripted_gateway)[2:] == ["DELETE /api/conversations/c1"]
    assert dialogue.conversation is None


def test_a_refused_later_message_leaves_the_conversation(dialogue: Dialogue, scripted_gateway: ScriptedGateway) -> None:
    dialogue.conversation = "c1"
    scripted_gateway.queue(refusal(409, "turn_running"))
    with pytest.raises(ApiError, match=r"turn_running\. The message was not sent: .* deckhand turns --stop c1\.$"):
        dialogue.say("hello")
    assert dialogue.conversation == "c1"


def test_bytes_of_the_terminal_that_are_no_text_are_marked(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway
) -> None:
    scripted_gateway.queue(MADE, stream(REPLY, DONE))
    dialogue.say(b"caf\xe9".decode("utf-8", "surrogateescape"))
    assert scripted_gateway.requests[1].body["messages"][0]["content"] == "caf\ufffd"


def test_resuming_shows_the_last_messages_and_no_turn_when_the_last_is_an_answer(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    dialogue.conversation = "c1"
    scripted_gateway.queue(transcript(("user", "hello"), ("assistant", "Hi\x1b[2J"), title=None), NONE_WAIT)
    dialogue.resume()
    assert capsys.readouterr().out == "— untitled —\n> hello\nHi[2J\n"


def test_resuming_follows_the_turn_that_answers_the_last_message(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    dialogue.conversation = "c1"
    scripted_gateway.queue(transcript(("user", "hello")), stream(token(1), token(2), REPLY, DONE), NONE_WAIT)
    dialogue.resume()
    assert capsys.readouterr().out == "— Weights —\n> hello\n1 2 \n"
    assert asked(scripted_gateway)[1:] == ["GET /api/chat/turn/c1", "GET /api/chat/proposals?conversationId=c1"]


def test_there_is_nothing_to_resume_before_the_first_conversation(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway
) -> None:
    scripted_gateway.queue(plain(200, {"conversations": []}))
    dialogue.open_newest()
    with pytest.raises(ApiError, match="no conversation yet"):
        dialogue.resume()


@pytest.mark.parametrize("number", ["0", "3", "x", "", "-1", "²", "9" * 5000])
def test_a_place_that_the_list_does_not_have_is_refused(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, number: str
) -> None:
    scripted_gateway.queue(plain(200, {"conversations": [{"id": "a"}, {"id": "b"}]}))
    with pytest.raises(ApiError, match="There are 2 conversations"):
        dialogue.open(number)


def test_the_list_marks_the_conversation_that_is_open(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [{"id": "a", "title": "One", "messageCount": 2}, {"id": "b", "title": None, "messageCount": 0}]
    dialogue.conversation = "b"
    scripted_gateway.queue(plain(200, {"conversations": found}))
    dialogue.show_all()
    assert capsys.readouterr().out == "  1  One (2 messages)\n  2* untitled (0 messages)\n"


def test_ctrl_c_means_what_it_did_when_a_turn_is_over(dialogue: Dialogue, scripted_gateway: ScriptedGateway) -> None:
    before = signal.getsignal(signal.SIGINT)
    scripted_gateway.queue(MADE, stream(REPLY, DONE))
    dialogue.say("hello")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_stop_is_asked_for_until_there_is_a_turn_that_takes_it(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    stop = Gate()
    turn = stream(token(1), stop, (2, "stopped", {}), DONE)
    dialogue.conversation = "c1"
    scripted_gateway.queue(turn, *[refusal(404, "no_turn_running")] * 2, plain(200, {"ok": True, "turnId": "t"}))

    def press_ctrl_c() -> None:
        scripted_gateway.wait_for_requests(1)
        os.kill(os.getpid(), signal.SIGINT)
        scripted_gateway.wait_for_requests(4)
        stop.open()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(press_ctrl_c)
        screen = dialogue.say("hello")
    assert asked(scripted_gateway)[1:] == ["DELETE /api/chat/turn/c1"] * 3
    assert (screen.stopped, capsys.readouterr()) == (True, ("1 \n", "(stopped)\n"))


def test_a_second_ctrl_c_leaves_the_turn(dialogue: Dialogue, scripted_gateway: ScriptedGateway) -> None:
    never = Gate()
    dialogue.conversation = "c1"
    scripted_gateway.queue(stream(token(1), never), Reply(before=[never]))

    def press_ctrl_c_twice() -> None:
        for requests in (1, 2):
            scripted_gateway.wait_for_requests(requests)
            os.kill(os.getpid(), signal.SIGINT)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(press_ctrl_c_twice)
        with pytest.raises(KeyboardInterrupt):
            dialogue.say("hello")
    never.open()
