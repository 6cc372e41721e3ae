"""The documents and templates that ship: what they say is so."""

import json
import re
from typing import Any

import pytest

from deckhand.domain.cards import CATEGORIES, RESERVED_IDS, check_manifest, every_fault
from deckhand.domain.schedules import SLOTS, TYPES
from deckhand.edge.errors import STATUS
from deckhand.edge.openapi import document
from deckhand.operations.docs import DOCS, _text
from deckhand.operations.templates import _templates
from infra.openapi import FILE, text


@pytest.mark.parametrize("path", DOCS)
def test_every_listed_document_ships(path: str) -> None:
    assert _text(path).startswith("# ")


def routes_in(document_text: str) -> set[tuple[str, str]]:
    """Routes that a document names, such as `GET`, `POST /api/x`."""
    found = set()
    for methods, path in re.findall(r"((?:`[A-Z]+`, )*`[A-Z]+) (/[^`? ]*)`", document_text):
        found |= {(method.lower(), path) for method in re.findall(r"[A-Z]+", methods)}
    return found


@pytest.mark.parametrize("path", DOCS)
def test_every_route_that_a_document_names_exists(path: str) -> None:
    known = {(method, route) for route, item in document()["paths"].items() for method in item}
    assert routes_in(_text(path)) <= known


def test_the_api_document_names_the_routes_of_cards() -> None:
    named = routes_in(_text("API.md"))
    cards = {(m, p) for p, item in document()["paths"].items() for m in item if p.startswith("/api/manifests")}
    assert cards <= named


def test_every_code_that_the_api_document_names_exists_with_its_status() -> None:
    table = _text("API.md").split("## Errors")[1].split("##")[0]
    for statuses, codes in re.findall(r"^\| ([\d, ]+) \| (.+) \|$", table, re.MULTILINE):
        for code in re.findall(r"`([a-z_]+)`", codes):
            assert code == "errors" or str(STATUS[code]) in statuses, code


def examples() -> list[Any]:
    return [json.loads(found) for found in re.findall(r"```json\n(.*?)```", _text("CARDS.md"), re.DOTALL)]


def test_the_examples_of_the_card_document_are_valid() -> None:
    whole, items, reminder, combination = examples()
    meta = whole["meta"]
    assert every_fault(whole) == []
    assert every_fault({**whole, "data": items}) == []
    assert every_fault({**whole, "meta": {**meta, "notifications": {"items": [reminder]}}}) == []
    assert every_fault({**whole, "meta": {**meta, "view": combination}}) == []


@pytest.mark.parametrize("word", [*CATEGORIES, *RESERVED_IDS, *TYPES, *SLOTS])
def test_the_card_document_names_every_word_that_is_constrained(word: str) -> None:
    assert f"`{word}`" in _text("CARDS.md")


@pytest.mark.parametrize("template", _templates().values(), ids=lambda template: template["meta"]["id"])
def test_every_template_makes_a_valid_card(template: dict[str, Any]) -> None:
    check_manifest(template)
    assert every_fault(template) == []
    meta = template["meta"]
    assert template["schema"]["type"] == ("array" if isinstance(template["data"], list) else "object")
    assert meta["writeable"]["fromWebapp"] is True
    assert {prompt["kind"] for prompt in meta["chat"]["starterPrompts"]} == {"data", "tweak"}


@pytest.mark.parametrize("template", _templates().values(), ids=lambda template: template["meta"]["id"])
def test_the_inputs_of_a_template_are_described_for_the_agent(template: dict[str, Any]) -> None:
    for one in template["meta"]["writeable"].get("inputs", []):
        assert re.search(rf"\b{one['key']}\b", template["description"])


def test_the_committed_openapi_document_is_the_one_that_is_served() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "run python -m infra.openapi"
