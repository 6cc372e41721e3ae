"""The scripted gateway keeps its promises to the tests that lean on it."""

import http.client

import pytest

from tests.scripted_gateway import ScriptedGateway, text_reply


def post(gateway: ScriptedGateway) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=10)
    connection.request("POST", "/v1/chat/completions", b'{"messages": []}')
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status


def test_a_request_that_nothing_was_queued_for_fails_the_test() -> None:
    with ScriptedGateway() as gateway:
        post(gateway)

    with pytest.raises(AssertionError, match="nothing was queued"):
        gateway.verify()


def test_a_reply_that_nobody_asked_for_fails_the_test() -> None:
    with ScriptedGateway() as gateway:
        gateway.queue(text_reply("Hi"))

    with pytest.raises(AssertionError, match="nobody asked"):
        gateway.verify()


def test_replies_are_given_in_order_and_then_made_from_the_request(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(text_reply("Hi"))
    scripted_gateway.respond = lambda body: text_reply(str(body["messages"]))

    assert [post(scripted_gateway) for _ in range(3)] == [200, 200, 200]
    assert scripted_gateway.requests[2].messages == []
