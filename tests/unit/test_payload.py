"""Both payload versions: the same request, the same answer, and every cookie arrives (bug cases 53 and 55)."""

import json
from typing import Any

from deckhand.edge.answer import json_answer
from deckhand.edge.app import App, Route
from deckhand.edge.proxy_answer import chunks, prelude
from deckhand.edge.request import Request
from deckhand.edge.session_cookie import session_cookie
from infra.local.answers import parse_prelude

V1 = {
    "httpMethod": "POST",
    "path": "/in/ann",
    "headers": {"Cookie": "a=1; b=2"},
    "body": "{}",
    "requestContext": {"requestId": "r1", "identity": {"sourceIp": "203.0.113.7"}},
}
V2 = {
    "version": "2.0",
    "rawPath": "/in/ann",
    "headers": {"x-forwarded-for": "198.51.100.1"},
    "cookies": ["a=1", "b=2"],
    "body": "{}",
    "requestContext": {
        "requestId": "r1",
        "http": {"method": "POST", "path": "/in/ann", "sourceIp": "203.0.113.7"},
    },
}


def answer_to(event: dict[str, Any]) -> dict[str, Any]:
    """From a route that sets two cookies and tells what it was asked."""

    def sign_in(request: Request, parts: Any, _: Any) -> Any:
        told = {"who": parts["who"], "cookie": request.headers["cookie"], "from": request.source_ip}
        answer = json_answer(201, told)
        answer.cookies += [session_cookie("__Host-deckhand", "s"), session_cookie("csrf", "t")]
        return answer

    return App([Route("POST", "/in/{who}", sign_in)])(event, None)


def cookies(answer: dict[str, Any]) -> list[str]:
    """As they arrive behind the laptop's front door, which takes both kinds of answer."""
    return [value.partition(";")[0] for name, value in parse_prelude(answer).headers if name == "set-cookie"]


def test_case_55_both_versions_are_understood_alike() -> None:
    first, second = answer_to(V1), answer_to(V2)
    assert (first["statusCode"], second["statusCode"]) == (201, 201)
    told = {"who": "ann", "cookie": "a=1; b=2", "from": "203.0.113.7"}
    assert json.loads(first["body"]) == json.loads(second["body"]) == told


def test_case_53_version_1_has_a_list_of_values() -> None:
    answer = answer_to(V1)
    assert [value.partition(";")[0] for value in answer["multiValueHeaders"]["Set-Cookie"]] == [
        "__Host-deckhand=s",
        "csrf=t",
    ]
    assert "cookies" not in answer


def test_case_53_version_2_has_a_list_of_cookies() -> None:
    answer = answer_to(V2)
    assert [value.partition(";")[0] for value in answer["cookies"]] == ["__Host-deckhand=s", "csrf=t"]
    assert "multiValueHeaders" not in answer
    headers = {name.lower(): value for name, value in answer["headers"].items()}
    assert (headers["x-request-id"], headers["cache-control"]) == ("r1", "no-store")
    assert headers["content-type"].startswith("application/json")


def test_case_53_cookies_arrive_through_the_streaming_prelude() -> None:
    for event in (V1, V2):
        answer = answer_to(event)
        opened = json.loads(prelude(answer))
        assert cookies(opened) == cookies(answer) == ["__Host-deckhand=s", "csrf=t"]
        assert b"".join(chunks(answer)) == answer["body"].encode()


def test_an_unknown_path_of_version_2_is_a_404() -> None:
    assert answer_to({**V2, "rawPath": "/elsewhere"})["statusCode"] == 404
