"""Schemas of tools: plain enough for every model and client (bug case 69)."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from deckhand.operations.catalog import REGISTRY
from deckhand.operations.registry import Operation
from deckhand.operations.schema import tool_schema


class Inner(BaseModel):
    at: str
    tags: list[str] | None = None


class Sample(BaseModel):
    inner: Inner = Field(description="Where.")
    many: list[Inner] = []
    kind: Literal["a", "b"] | None = None
    either: int | str = 1
    title: str = Field(default="", description="A property that is called title.")
    anything: Any = None
    hidden: Annotated[int | None, Field(json_schema_extra={"x-http-only": True})] = None


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, list):
        for item in schema:
            yield from nodes(item)
    elif isinstance(schema, dict):
        yield schema
        for name, child in schema.items():
            if name == "properties":
                for value in child.values():
                    yield from nodes(value)
            elif name not in ("enum", "const", "required"):
                yield from nodes(child)


def check_plain(schema: dict[str, Any]) -> None:
    for node in nodes(schema):
        assert not {"$ref", "$defs", "$schema"} & set(node)
        assert node.get("type") != "array" or "items" in node
        assert not any(branch.get("type") == "null" for branch in node.get("anyOf", []))
        assert "properties" not in node or node["additionalProperties"] is False
    assert schema["type"] == "object"


@pytest.mark.parametrize("operation", REGISTRY.tools(), ids=lambda operation: operation.name)
def test_case_69_every_tool_has_a_plain_schema(operation: Operation) -> None:
    check_plain(tool_schema(operation.input))


def test_case_69_nested_optional_and_shared_models_are_inlined() -> None:
    schema = tool_schema(Sample)
    check_plain(schema)
    assert schema["properties"]["inner"] == {
        "type": "object",
        "description": "Where.",
        "additionalProperties": False,
        "required": ["at"],
        "properties": {"at": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
    }
    assert schema["properties"]["kind"] == {"enum": ["a", "b"], "type": "string"}
    assert schema["properties"]["either"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}


def test_a_property_that_is_called_title_stays() -> None:
    assert tool_schema(Sample)["properties"]["title"] == {
        "type": "string",
        "description": "A property that is called title.",
    }


def test_what_is_for_http_alone_is_not_offered() -> None:
    assert "hidden" not in tool_schema(Sample)["properties"]


def test_case_27_tools_are_offered_in_the_same_order_every_time() -> None:
    assert [o.name for o in REGISTRY.tools()] == [o.name for o in REGISTRY.all() if o.agent]
