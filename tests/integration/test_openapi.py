"""The OpenAPI document: valid, complete, and safe to try against every route."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import hypothesis
import pytest
import schemathesis
from openapi_spec_validator import OpenAPIV31SpecValidator
from requests import Request as HttpRequest

from deckhand.edge.app import App
from deckhand.edge.openapi import document
from deckhand.push.vapid import new_key
from deckhand.storage.sqlite import SqliteStore
from tests.answers import check_answer
from tests.deck import Deck, event_of
from tests.stores import Clock

Case = schemathesis.Case[Any]
SCHEMA = schemathesis.openapi.from_dict(document())
SETTINGS = hypothesis.settings(derandomize=True, suppress_health_check=list(hypothesis.HealthCheck))


class Product:
    """All apps of a deployment behind one door."""

    def __init__(self, folder: Path, store: SqliteStore) -> None:
        settings = {"DECKHAND_ORIGINS": "https://deckhand.test", "DECKHAND_VAPID_KEY": new_key()}
        self.deck = Deck(folder, store, {"CHAT_API_TOKEN": "direct", **settings})
        parts = self.deck.parts
        # Generated endpoints are not looked up in the world's DNS.
        parts.__dict__["push"] = replace(parts.push, resolve=lambda _: ["93.184.216.34"])
        self.calls = 0
        self.apps: list[App] = [
            parts.manifests_app(),
            parts.conversations_app(),
            parts.identity_app(),
            parts.chat_app(),
        ]

    def __call__(self, method: str, path: str, raw: bytes, headers: Any, query: Any) -> dict[str, Any]:
        """By the app that knows the path; by the first, which says 404, when none does."""
        event = event_of(method, path, raw=raw, headers=list(headers), query=list(query))
        for app in self.apps:
            answer = app(event, None)
            check_answer(method, path, answer["statusCode"], answer["body"])
            if answer["statusCode"] != 404 or "There is nothing here." not in str(answer["body"]):
                return answer
        return answer

    def send(self, case: Case) -> dict[str, Any]:
        """What a generated request gets, with the token that its route wants."""
        self.calls += 1
        if self.calls % 2:
            self._aim(case)
        given = case.as_transport_kwargs(base_url="http://deckhand.test")
        given.pop("cookies", None)
        sent = HttpRequest(**{name: value for name, value in given.items() if name in WANTED}).prepare()
        parts = urlsplit(str(sent.url))
        body = sent.body if isinstance(sent.body, bytes) else str(sent.body or "").encode("utf-8", "surrogatepass")
        token = "operator" if case.path.startswith("/api/admin") else "agent"
        headers = [(name.lower(), str(value)) for name, value in sent.headers.items()]
        headers = [pair for pair in headers if pair[0] not in ("authorization", "x-chat-token")]
        query = parse_qsl(parts.query, keep_blank_values=True)
        return self(case.method, unquote(parts.path), body, [*headers, ("authorization", f"Bearer {token}")], query)

    def _aim(self, case: Case) -> None:
        """At what is there, so that not all requests end at a 404: a card with rows, a report, a document."""
        if self.deck("GET", "/api/manifests/weight").status == 404:
            self.deck.create(data=[{"date": "2026-04-20", "kg": 85.5}])
        self.deck("PUT", "/api/reports/blood.md", raw=b"Ferritin 30")
        rows = self.deck("GET", "/api/manifests/weight/rows").body.get("rows") or [{"rowId": "x.1"}]
        conversations = self.apps[1](event_of("GET", "/api/conversations"), None)
        known = json.loads(conversations["body"])["conversations"] or [{"id": "none"}]
        there = {
            "card_id": "weight",
            "rowId": rows[0]["rowId"],
            "path": "CARDS.md",
            "name": "blood.md",
            "view": "view",
            "conversationId": known[0]["id"],
            "id": known[0]["id"] if "conversations" in case.path else "weight",
        }
        case.headers.pop("If-Match", None)
        for name in case.path_parameters:
            case.path_parameters[name] = there.get(name, case.path_parameters[name])


WANTED = {"method", "url", "headers", "params", "json", "data"}


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with closing(SqliteStore(":memory:", now=Clock())) as store:
        yield Product(tmp_path_factory.mktemp("product"), store)


def check(product: Product, case: Case) -> None:
    """No 5xx but that of a deployment without a model; errors in their one form."""
    answer = product.send(case)
    status, body = answer["statusCode"], answer["body"]
    known = case.path == "/api/chat" and status == 503 and "chat_not_configured" in str(body)
    assert status < 500 or known, f"{case.as_curl_command()}: {body}"
    if status >= 400:
        assert {"error", "code"} <= set(json.loads(str(body)))


def test_the_document_is_valid() -> None:
    OpenAPIV31SpecValidator(json.loads(json.dumps(document()))).validate()


def test_the_document_is_served_to_anybody(product: Product) -> None:
    answer = product("GET", "/openapi.json", b"", [], [])
    assert answer["statusCode"] == 200
    assert json.loads(answer["body"]) == document()


def test_the_document_names_every_route_and_no_other(product: Product) -> None:
    served = {(m.lower(), path) for app in product.apps for path, methods in app.paths.items() for m in methods}
    assert {(method, path) for path, item in document()["paths"].items() for method in item} == served


def test_every_json_answer_is_described_by_its_parts() -> None:
    components = document()["components"]["schemas"]
    bare = [
        (method, path)
        for path, item in document()["paths"].items()
        for method, route in item.items()
        for status, answer in route["responses"].items()
        if status != "default" and "application/json" in answer.get("content", {})
        for schema in [answer["content"]["application/json"]["schema"]]
        if not {"$ref", "anyOf", "properties"} & set(schema)
    ]
    assert bare == []
    # A name that two shapes share would come with the modules that they are in.
    assert [name for name in components if not name.isalpha()] == []


def test_an_answer_with_a_field_that_is_not_declared_is_found() -> None:
    check_answer("POST", "/auth/logout", 200, '{"ok":true}')
    with pytest.raises(AssertionError, match="'more' was unexpected"):
        check_answer("POST", "/auth/logout", 200, '{"ok":true,"more":1}')
    with pytest.raises(AssertionError, match="not declared"):
        check_answer("POST", "/auth/logout", 201, '{"ok":true}')


@SCHEMA.parametrize()
@hypothesis.settings(SETTINGS, max_examples=4, phases=[hypothesis.Phase.generate])
def test_no_generated_request_makes_a_route_fail(case: Case, product: Product) -> None:
    check(product, case)


@pytest.mark.deploy
@pytest.mark.timeout(240)
@SCHEMA.parametrize()
@hypothesis.settings(SETTINGS, max_examples=100)
def test_no_generated_request_of_many_makes_a_route_fail(case: Case, product: Product) -> None:
    check(product, case)
