"""The command's client against a server that answers, breaks off and comes back as a test tells it."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from infra.local import api_client
from infra.local.api_client import Api, ApiError
from infra.local.sse_client import Message
from tests.scripted_gateway import Gate, Reply, ScriptedGateway, page_reply

DONE = (9, "done", {"status": "done"})


@pytest.fixture
def api(scripted_gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setattr(api_client, "RECONNECT_SECONDS", 0.01)
    with closing(Api(f"http://127.0.0.1:{scripted_gateway.port}", "secret")) as one:
        yield one


def stream(*told: tuple[int, str, dict[str, Any]] | Gate, end: Any = "whole") -> Reply:
    frames = [one if isinstance(one, Gate) else frame(*one) for one in told]
    return Reply([b": deckhand\n\n", *frames], end=end)


def frame(number: int, name: str, data: dict[str, Any]) -> bytes:
    return f"id: {number}\nevent: {name}\ndata: {json.dumps(data)}\n\n".encode()


def token(number: int) -> tuple[int, str, dict[str, Any]]:
    return (number, "token", {"text": f"{number} "})


def plain(status: int, body: Any) -> Reply:
    return Reply([json.dumps(body).encode()], status, {"content-type": "application/json"})


def refusal(status: int, code: str) -> Reply:
    return plain(status, {"error": f"It is {code}.", "code": code})


NOTHING = Reply([], 204, {"content-length": "0"}, framing="close")


def ids(messages: Iterator[Message]) -> list[int | None]:
    return [message.id for message in messages]


@pytest.mark.parametrize("end", ["cut", "reset", "whole"])
def test_a_broken_stream_is_taken_up_behind_its_last_event(
    api: Api, scripted_gateway: ScriptedGateway, end: str
) -> None:
    scripted_gateway.queue(stream(token(4), token(5), end=end), stream(token(6), end=end), stream(token(7), DONE))
    assert ids(api.turn("c", "hello")) == [4, 5, 6, 7, 9]
    asked = [(r.method, r.path, r.headers.get("last-event-id")) for r in scripted_gateway.requests]
    again = "/api/chat/turn/c"
    assert asked == [("POST", "/api/chat", None), ("GET", again, "5"), ("GET", again, "6")]


def test_a_turn_that_broke_off_before_its_first_event_is_joined_not_started_again(
    api: Api, scripted_gateway: ScriptedGateway
) -> None:
    scripted_gateway.queue(stream(end="cut"), stream(token(1), DONE))
    assert ids(api.turn("c", "hello")) == [1, 9]
    first, second = scripted_gateway.requests
    assert (first.method, first.raw) == (second.method, second.raw)
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


def test_two_turns_have_keys_of_their_own(api: Api, scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(stream(DONE), stream(DONE))
    for _ in range(2):
        ids(api.turn("c", "hello"))
    first, second = scripted_gateway.requests
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]


@pytest.mark.parametrize("passing", [refusal(503, "busy"), page_reply(502), Reply(before=[b""], end="cut")])
def test_a_server_that_fails_for_a_moment_is_asked_again(
    api: Api, scripted_gateway: ScriptedGateway, passing: Reply
) -> None:
    scripted_gateway.queue(stream(token(1), end="cut"), passing, stream(token(2), DONE))
    assert ids(api.turn("c", "hello")) == [1, 2, 9]


def test_a_refusal_after_a_break_is_told_at_once(api: Api, scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(stream(token(1), end="cut"), refusal(401, "unauthenticated"))
    with pytest.raises(ApiError, match="token is not accepted"):
        ids(api.turn("c", "hello"))


def test_a_turn_that_can_no_longer_be_told_ends_without_done(api: Api, scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(stream(token(1), end="cut"), NOTHING)
    assert ids(api.turn("c", "hello")) == [1]


def test_a_server_that_does_not_come_back_is_given_up(
    api: Api, scripted_gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_client, "RECONNECTS", 2)
    scripted_gateway.queue(stream(token(1), end="cut"), *[refusal(503, "busy")] * 2)
    with pytest.raises(ApiError, match=r"does not answer.*chat --continue shows the rest"):
        ids(api.turn("c", "hello"))


def test_the_first_answer_counts_when_it_is_a_refusal(api: Api, scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(refusal(503, "chat_not_configured"))
    with pytest.raises(ApiError, match=r"^It is chat_not_configured\.$") as refused:
        ids(api.turn("c", "hello"))
    assert (refused.value.code, refused.value.status) == ("chat_not_configured", 503)


def test_a_conversations_name_stays_one_part_of_the_path(api: Api, scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(NOTHING)
    assert ids(api.reattach("../x?y")) == []
    assert scripted_gateway.requests[0].path == "/api/chat/turn/..%2Fx%3Fy"


def test_a_stop_that_finds_no_turn_says_so(api: Api, scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(refusal(404, "no_turn_running"), plain(200, {"ok": True, "turnId": "t"}))
    assert [api.stop("c"), api.stop("c")] == [False, True]


STRANGERS = {
    "a page": page_reply(200),
    "a redirect": Reply([], 302, {"location": "https://elsewhere.invalid/"}),
    "events of another kind": Reply([b"data: hello\n\n"]),
}


@pytest.mark.parametrize("said", STRANGERS.values(), ids=STRANGERS.keys())
def test_another_server_is_not_taken_for_deckhand(api: Api, scripted_gateway: ScriptedGateway, said: Reply) -> None:
    scripted_gateway.queue(said)
    with pytest.raises(ApiError, match="is not Deckhand"):
        ids(api.turn("c", "hello"))


@pytest.mark.parametrize("said", [page_reply(200), Reply([b"{"], 200)])
def test_an_answer_that_is_no_json_is_not_deckhands(api: Api, scripted_gateway: ScriptedGateway, said: Reply) -> None:
    scripted_gateway.queue(said)
    with pytest.raises(ApiError, match="is not Deckhand"):
        api.call("GET", "/api/conversations")


def test_a_server_that_does_not_run_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with closing(Api(f"http://127.0.0.1:{port}", "secret")) as api:
        for ask in (lambda: ids(api.turn("c", "hello")), lambda: api.call("GET", "/api/conversations")):
            with pytest.raises(ApiError, match="Nothing answers"):
                ask()


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://127.0.0.1", "http://", "http://h:x", "127.0.0.1:8787"])
def test_what_is_no_address_is_named(url: str) -> None:
    with pytest.raises(ApiError, match="is not an address"):
        Api(url, "secret")


@pytest.mark.parametrize("secret", ["", "café", "two\nlines"])
def test_what_can_be_no_token_is_never_sent(secret: str) -> None:
    with pytest.raises(ApiError, match="characters that no token has"):
        Api("http://127.0.0.1:1", secret)


def test_a_refusal_names_the_fields_at_fault() -> None:
    told = {
        "error": "Some fields are not valid.",
        "code": "invalid",
        "errors": [{"path": "name", "message": "too long"}],
    }
    refused = api_client.refusal(422, json.dumps(told).encode())
    assert str(refused) == "Some fields are not valid. name: too long"
