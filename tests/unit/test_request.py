"""One form of request behind every front door (bug case 55)."""

import base64
from typing import Any

import pytest

from deckhand.domain.errors import BodyTooLarge, DeckhandError, InvalidJson
from deckhand.edge.errors import error_status
from deckhand.edge.request import Request, read_request

V1 = {
    "httpMethod": "POST",
    "path": "/api/chat",
    "headers": {"Authorization": "Bearer t", "LAST-EVENT-ID": "5"},
    "multiValueHeaders": {"Authorization": ["Bearer t"], "LAST-EVENT-ID": ["5"]},
    "queryStringParameters": {"after": "3"},
    "body": '{"text":"hé"}',
    "isBase64Encoded": False,
    "requestContext": {"requestId": "r1"},
}
V2 = {
    "version": "2.0",
    "rawPath": "/api/chat",
    "headers": {"authorization": "Bearer t", "last-event-id": "5"},
    "queryStringParameters": {"after": "3"},
    "body": base64.b64encode('{"text":"hé"}'.encode()).decode(),
    "isBase64Encoded": True,
    "requestContext": {"requestId": "r1", "http": {"method": "POST", "path": "/api/chat"}},
}


def test_case_55_both_kinds_of_event_give_one_request() -> None:
    assert read_request(V1) == read_request(V2)
    request = read_request(V1)
    assert (request.method, request.path, request.request_id) == ("POST", "/api/chat", "r1")
    assert (request.headers["authorization"], request.headers["last-event-id"]) == ("Bearer t", "5")
    assert request.query == {"after": "3"}
    assert request.json(100) == {"text": "hé"}


@pytest.mark.parametrize("name", ["Authorization", "authorization", "AUTHORIZATION"])
def test_case_55_header_names_are_compared_without_case(name: str) -> None:
    assert read_request({**V1, "headers": {name: "Bearer x"}}).headers["authorization"] == "Bearer x"


def test_headers_that_come_as_lists_only_are_found() -> None:
    event = {**V1, "headers": None, "multiValueHeaders": {"Accept": ["a", "b"]}}
    assert read_request(event).headers["accept"] == "a, b"


def test_headers_that_come_twice_are_joined() -> None:
    """The single values of API Gateway have the last one only, and that may not be the one that a proxy looked at."""
    twice = {"Authorization": ["Bearer good", "Bearer bad"], "Cookie": ["a=1", "b=2"]}
    last = {name: values[-1] for name, values in twice.items()}
    headers = read_request({**V1, "headers": last, "multiValueHeaders": twice}).headers
    assert (headers["authorization"], headers["cookie"]) == ("Bearer good, Bearer bad", "a=1; b=2")


@pytest.mark.parametrize("missing", ["headers", "multiValueHeaders", "queryStringParameters", "body"])
def test_case_55_what_is_null_or_missing_is_empty(missing: str) -> None:
    for event in ({**V1, missing: None}, {name: value for name, value in V1.items() if name != missing}):
        read_request(event)
    assert read_request({**V1, "body": None}).body == b""


@pytest.mark.parametrize(
    "event",
    [
        {**V1, "body": "%%%", "isBase64Encoded": True},
        {**V1, "body": "eyJ0", "isBase64Encoded": True},
        {**V1, "body": "eyJ0ZXh0IjoiaMOpIn0", "isBase64Encoded": True},
        {**V1, "body": "//79", "isBase64Encoded": True},
        {**V1, "body": "é", "isBase64Encoded": True},
        {**V1, "body": '"\ud800"'},
        {**V1, "body": ""},
    ],
)
def test_case_55_a_body_that_cannot_be_read_is_a_400(event: dict[str, Any]) -> None:
    request = read_request(event)
    with pytest.raises(DeckhandError) as error:
        request.json(100)
    assert (error.value.code, error_status(error.value)) == ("invalid_json", 400)


def test_the_limit_is_measured_in_bytes_and_comes_before_the_syntax() -> None:
    with pytest.raises(BodyTooLarge):
        request("é" * 51).json(100)
    with pytest.raises(InvalidJson):
        request("é" * 50).json(100)


def test_a_body_of_exactly_the_limit_passes() -> None:
    assert request('"' + "x" * 98 + '"').json(100) == "x" * 98


def request(body: str) -> Request:
    return read_request({**V1, "body": body})


def test_an_object_is_asked_for_where_one_is_needed() -> None:
    with pytest.raises(InvalidJson):
        request("[]").json_object(100)
