"""The registry: one declaration, every surface."""

import re
from types import NoneType
from typing import Any, get_args

import pytest
from pydantic import Field
from typing_extensions import is_typeddict

from deckhand.operations.arguments import Arguments, Nothing
from deckhand.operations.caller import Caller
from deckhand.operations.catalog import CARD_FAMILIES, CONVERSATION_FAMILIES, IDENTITY_FAMILIES, REGISTRY
from deckhand.operations.registry import Http, Operation, Registry
from deckhand.operations.schema import http_only, tool_schema

OPERATIONS = REGISTRY.all()
AGENT_TOOLS = {
    "create_manifest",
    "delete_manifest",
    "patch_manifest",
    "hide_card",
    "show_card",
    "list_manifests",
    "read_manifest",
    "read_manifest_meta",
    "read_manifest_rows",
    "write_manifest_data",
    "append_row",
    "update_row",
    "remove_row",
    "reorder_rows",
    "orphan_report",
    "rename_data_field",
    "set_notification",
    "remove_notification",
    "read_doc",
    "read_report",
    "get_recent_activity",
    "hygiene_scan",
    "validate_manifest",
    "note_feedback",
}
each = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)


def made(name: str, http: Http | None = None, input: type[Arguments] = Nothing, **more: Any) -> Operation:
    def run(_: Caller, __: Any) -> None: ...

    return Operation(name=name, summary="s", description="d", input=input, run=run, http=http, **more)


def test_004_08_a_name_used_twice_is_an_error() -> None:
    registry = Registry()
    registry.add(made("read"))
    with pytest.raises(ValueError, match="read is declared twice"):
        registry.add(made("read"))


def test_a_route_used_twice_is_an_error_whatever_its_parts_are_called() -> None:
    registry = Registry()
    registry.add(made("read", Http("GET", "/api/x/{id}"), Named))
    registry.add(made("change", Http("PUT", "/api/x/{id}"), Named))
    with pytest.raises(ValueError, match="declared twice"):
        registry.add(made("peek", Http("GET", "/api/x/{name}"), Named))


class Named(Arguments):
    id: str
    name: str = ""


class Unfit(Arguments):
    id: int = 3


@pytest.mark.parametrize(
    ("http", "given"),
    [
        (Http("GET", "/api/x/{id}"), Nothing),
        (Http("GET", "/api/x/{id}/{id}"), Named),
        (Http("GET", "/api/x/{id}"), Unfit),
        (Http("PUT", "/api/x/{id}", body="id"), Named),
        (Http("PUT", "/api/x/{id}", body="text"), Named),
    ],
    ids=["no such field", "named twice", "no text", "also the body", "no such body"],
)
def test_004_06_a_route_that_does_not_fit_its_fields_is_an_error(http: Http, given: type[Arguments]) -> None:
    with pytest.raises(ValueError, match="the route of op"):
        Registry().add(made("op", http, given))


def test_004_01_a_marked_operation_is_a_tool_and_an_unmarked_one_is_not() -> None:
    registry = Registry()
    registry.add(made("shown", agent=True))
    registry.add(made("kept"))
    assert [operation.name for operation in registry.tools()] == ["shown"]


def test_the_agent_has_all_tools_and_no_others() -> None:
    assert {operation.name for operation in REGISTRY.tools()} == AGENT_TOOLS


@each
def test_every_operation_declares_what_it_answers_by_its_annotation(operation: Operation) -> None:
    shapes = get_args(operation.output) or (operation.output,)
    nothing = shapes == (NoneType,)
    assert nothing or all(is_typeddict(shape) for shape in shapes)
    assert nothing == (operation.http is not None and operation.http.status == 204)


@each
def test_every_operation_is_shown_where_it_says(operation: Operation) -> None:
    assert operation.http or operation.agent
    assert (operation in REGISTRY.tools()) == operation.agent
    assert REGISTRY.find(operation.name) is operation
    homes = [
        family
        for family in (*CARD_FAMILIES, *CONVERSATION_FAMILIES, *IDENTITY_FAMILIES)
        if family.__name__ == operation.run.__module__
    ]
    assert len(homes) == 1


@each
def test_every_operation_says_what_it_is(operation: Operation) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", operation.name)
    assert operation.summary[0].isupper()
    assert not operation.summary.endswith(".")
    assert operation.run.__doc__
    if operation.agent:
        assert operation.label
        assert operation.description.endswith(".")


@each
def test_every_operation_that_destroys_changes_and_names_its_card(operation: Operation) -> None:
    assert operation.mutates or not operation.destructive
    assert bool(operation.change) <= (operation.mutates and operation.card is not None)
    if operation.card is not None and "." not in operation.card:
        assert operation.card in operation.input.model_fields


@each
def test_004_05_over_http_whatever_is_no_get_changes_something(operation: Operation) -> None:
    if operation.http is not None and operation.name not in (
        "validate_manifest",
        "search_conversations",
        "explain_policy",
    ):
        assert operation.mutates == (operation.http.method != "GET")


@each
def test_004_03_every_input_is_closed_and_the_paths_fields_are_required(operation: Operation) -> None:
    schema = tool_schema(operation.input)
    assert schema["additionalProperties"] is False
    assert not http_only(operation.input) & set(schema["properties"])
    if operation.http is not None:
        for name in re.findall(r"{(\w+)}", operation.http.path):
            assert schema["properties"][name]["type"] == "string"


@pytest.mark.parametrize("operation", REGISTRY.tools(), ids=lambda operation: operation.name)
def test_every_argument_has_a_type_and_a_description_where_any_value_will_do(operation: Operation) -> None:
    for name, schema in tool_schema(operation.input)["properties"].items():
        if name in ("data", "value"):
            assert schema["description"]
        else:
            assert {"type", "enum", "anyOf"} & set(schema), name


def test_the_compact_profile_has_few_tools_and_nothing_that_is_not_in_the_full_one() -> None:
    compact = REGISTRY.tools("compact")
    assert {"append_row", "read_manifest_rows", "list_manifests"} <= {operation.name for operation in compact}
    assert len(compact) <= 8
    assert set(compact) <= set(REGISTRY.tools())


def test_an_argument_of_a_header_is_known_as_one() -> None:
    class Sample(Arguments):
        plain: str
        header: int = Field(default=0, json_schema_extra={"x-http-only": True})

    assert http_only(Sample) == {"header"}
    assert set(tool_schema(Sample)["properties"]) == {"plain"}
