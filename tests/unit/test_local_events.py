"""REST proxy events made from requests, and HTTP made from answers."""

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.local.answers import DELIMITER, MalformedAnswerError, Prelude, PreludeReader, parse_plain, parse_prelude
from infra.local.events import Request, proxy_event

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
REQUEST = Request(
    method="POST",
    path="/api/chat/turn/c 1",
    resource="/api/chat/turn/{id}",
    path_parameters={"id": "c 1"},
    headers=[("host", "localhost:8787"), ("x-a", "1"), ("x-a", "2"), ("user-agent", "curl")],
    query=[("after", "3"), ("after", "4"), ("q", "")],
    body=b'{"a": "z\xc3\xb6"}',
)


def event(request: Request = REQUEST) -> dict[str, Any]:
    return proxy_event(request, request_id="r-1", now=NOW)


def test_path_and_resource_are_both_told() -> None:
    made = event()
    assert (made["path"], made["resource"], made["httpMethod"]) == ("/api/chat/turn/c 1", "/api/chat/turn/{id}", "POST")
    assert made["pathParameters"] == {"id": "c 1"}


def test_of_a_repeated_header_the_last_is_single_and_all_are_multiple() -> None:
    made = event()
    assert made["headers"]["x-a"] == "2"
    assert made["multiValueHeaders"]["x-a"] == ["1", "2"]


def test_query_parameters_come_in_both_forms() -> None:
    made = event()
    assert made["queryStringParameters"] == {"after": "4", "q": ""}
    assert made["multiValueQueryStringParameters"] == {"after": ["3", "4"], "q": [""]}


def test_absent_parts_are_null() -> None:
    made = event(Request("GET", "/a", "/a"))
    absent = ("headers", "queryStringParameters", "multiValueQueryStringParameters", "pathParameters", "body")
    assert [made[name] for name in absent] == [None] * 5


def test_the_context_names_request_client_and_time() -> None:
    context = event()["requestContext"]
    assert context["requestId"] == "r-1"
    assert context["identity"] == {"sourceIp": "127.0.0.1", "userAgent": "curl"}
    assert context["requestTime"] == "04/Mar/2026:05:06:07 +0000"
    assert context["requestTimeEpoch"] == 1772600767000
    assert context["resourcePath"] == "/api/chat/turn/{id}"


@given(st.binary(min_size=1))
def test_a_body_can_be_read_back_exactly(body: bytes) -> None:
    made = event(Request("POST", "/a", "/a", body=body))
    assert (base64.b64decode(made["body"]) if made["isBase64Encoded"] else made["body"].encode()) == body


def test_text_is_not_encoded() -> None:
    made = event()
    assert (made["body"], made["isBase64Encoded"]) == ('{"a": "zö"}', False)


@given(st.integers(0, 40), st.binary())
def test_a_prelude_is_found_wherever_the_bytes_are_split(split: int, body: bytes) -> None:
    data = b'{"statusCode": 200}' + DELIMITER + body
    reader = PreludeReader()
    assert reader.feed(data[:split]) + reader.feed(data[split:]) == body
    assert reader.prelude == Prelude(200)


def test_headers_of_both_maps_are_merged_without_doubles() -> None:
    answer = {
        "statusCode": 200,
        "headers": {"X-A": "1", "X-B": "2"},
        "multiValueHeaders": {"x-a": ["1", "3"]},
        "cookies": ["c=1"],
    }
    assert parse_prelude(answer).headers == (("x-b", "2"), ("x-a", "1"), ("x-a", "3"), ("set-cookie", "c=1"))


def test_framing_is_left_to_the_server() -> None:
    answer = {"statusCode": 200, "headers": {"Content-Length": "99", "Transfer-Encoding": "chunked"}}
    assert parse_prelude(answer).headers == ()


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b"{}", b'{"statusCode": 99}', b'{"statusCode": 200, "body": {}}', b'{"statusCode": "200"}']
)
def test_other_answers_are_malformed(answer: bytes) -> None:
    with pytest.raises(MalformedAnswerError):
        parse_plain(answer)


def test_a_body_that_is_not_the_base64_it_claims_is_malformed() -> None:
    with pytest.raises(MalformedAnswerError):
        parse_plain(b'{"statusCode": 200, "body": "?", "isBase64Encoded": true}')
