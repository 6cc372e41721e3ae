"""The schemas of answers, from the types that functions are annotated with."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

REFERENCE = "#/components/schemas/{model}"


@dataclass(frozen=True, slots=True)
class Shape:
    """Stands in a description where the schema of a type belongs."""

    type: Any


def with_schemas(description: Any) -> tuple[Any, dict[str, Any]]:
    """The description with a schema in the place of each `Shape`, and the components that those refer to."""
    types = dict.fromkeys(shape.type for shape in _shapes(description))
    schemas, named = TypeAdapter.json_schemas(
        [(type_, "serialization", TypeAdapter(type_)) for type_ in types],
        ref_template=REFERENCE,
        schema_generator=_Closed,
    )
    made = {type_: schemas[type_, "serialization"] for type_ in types}
    return _put(description, made), dict(sorted(named.get("$defs", {}).items()))


def _shapes(node: Any) -> Iterator[Shape]:
    if isinstance(node, Shape):
        yield node
    elif isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from _shapes(child)


def _put(node: Any, schemas: dict[Any, Any]) -> Any:
    if isinstance(node, Shape):
        return schemas[node.type]
    if isinstance(node, dict):
        return {name: _put(child, schemas) for name, child in node.items()}
    return [_put(child, schemas) for child in node] if isinstance(node, list) else node


class _Closed(GenerateJsonSchema):
    """Names say enough without titles, and an object has the fields that are declared, and no others unless its type
    says so.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        made = super().typed_dict_schema(schema)
        made.pop("title", None)
        if "description" in made:
            made["description"] = " ".join(made["description"].split())
        return {"additionalProperties": False, **made}
