"""JSON schemas that every model and client understands: inlined, no `$ref`, no nullable unions in tools, closed objects
(bug case 69).
"""

from typing import Any

from pydantic import BaseModel

HTTP_SCHEMA = "x-http-schema"
_DROPPED = {"title", "$defs", "default"}


def tool_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The parameters of a function tool for an input model."""
    return _schema(model, nullable=False)


def body_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The same for people's clients, where null may be given as what it is."""
    return _schema(model, nullable=True)


def http_only(model: type[BaseModel]) -> set[str]:
    """The fields that are given by a header, and never as an argument."""
    extras = {name: field.json_schema_extra for name, field in model.model_fields.items()}
    return {name for name, extra in extras.items() if isinstance(extra, dict) and extra.get("x-http-only")}


def _schema(model: type[BaseModel], *, nullable: bool) -> dict[str, Any]:
    full = model.model_json_schema(by_alias=False)
    schema: dict[str, Any] = _plain(full, full.get("$defs", {}), nullable)
    schema.setdefault("properties", {})
    schema["additionalProperties"] = False
    return schema


def _plain(node: Any, definitions: dict[str, Any], nullable: bool) -> Any:
    if isinstance(node, list):
        return [_plain(item, definitions, nullable) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[-1]]
        rest = {name: value for name, value in node.items() if name != "$ref"}
        return _plain({**target, **rest}, definitions, nullable)
    if "anyOf" in node:
        branches = [branch for branch in node["anyOf"] if nullable or branch.get("type") != "null"]
        rest = {name: value for name, value in node.items() if name != "anyOf"}
        if len(branches) == 1:
            return _plain({**branches[0], **rest}, definitions, nullable)
        return {**_plain(rest, definitions, nullable), "anyOf": _plain(branches, definitions, nullable)}
    plain = {
        name: _properties(child, definitions, nullable)
        if name == "properties"
        else _plain(child, definitions, nullable)
        for name, child in node.items()
        if name not in _DROPPED
    }
    if plain.get("type") == "array":
        plain.setdefault("items", {})
    if plain.get("type") == "object" and "properties" in plain:
        plain["additionalProperties"] = False
    return plain


def _properties(named: dict[str, Any], definitions: dict[str, Any], nullable: bool) -> dict[str, Any]:
    return {
        name: _property(value, definitions, nullable) for name, value in named.items() if not value.get("x-http-only")
    }


def _property(schema: dict[str, Any], definitions: dict[str, Any], nullable: bool) -> Any:
    """A field may have a closer schema for people's clients, taken as it is."""
    plain = {name: value for name, value in schema.items() if name != HTTP_SCHEMA}
    if nullable and HTTP_SCHEMA in schema:
        return {**schema[HTTP_SCHEMA], "description": schema.get("description", "")}
    return _plain(plain, definitions, nullable)
