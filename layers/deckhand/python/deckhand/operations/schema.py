"""JSON schemas that every model and client understands: inlined, no `$ref`, no nullable unions, closed objects (bug
case 69).
"""

from typing import Any

from pydantic import BaseModel

_DROPPED = {"title", "$defs", "default"}


def http_only(model: type[BaseModel]) -> set[str]:
    """The fields that are given by a header, and never as an argument."""
    extras = {name: field.json_schema_extra for name, field in model.model_fields.items()}
    return {name for name, extra in extras.items() if isinstance(extra, dict) and extra.get("x-http-only")}


def tool_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The parameters of a function tool for an input model."""
    full = model.model_json_schema(by_alias=False)
    schema: dict[str, Any] = _plain(full, full.get("$defs", {}))
    schema.setdefault("properties", {})
    schema["additionalProperties"] = False
    return schema


def _plain(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_plain(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[-1]]
        return _plain({**target, **{name: value for name, value in node.items() if name != "$ref"}}, definitions)
    if "anyOf" in node:
        branches = [branch for branch in node["anyOf"] if branch.get("type") != "null"]
        rest = {name: value for name, value in node.items() if name != "anyOf"}
        if len(branches) == 1:
            return _plain({**branches[0], **rest}, definitions)
        return {**_plain(rest, definitions), "anyOf": _plain(branches, definitions)}
    plain = {
        name: {key: _plain(value, definitions) for key, value in child.items() if not value.get("x-http-only")}
        if name == "properties"
        else _plain(child, definitions)
        for name, child in node.items()
        if name not in _DROPPED
    }
    if plain.get("type") == "array":
        plain.setdefault("items", {})
    if plain.get("type") == "object" and "properties" in plain:
        plain["additionalProperties"] = False
    return plain
