"""The OpenAPI 3.1 document: what the registry declares, and the few routes that are no operations."""

import re
from collections.abc import Iterable
from functools import cache
from http import HTTPStatus
from typing import Any

from deckhand.edge.openapi_chat import CHAT_PATHS, PUBLIC_PATHS
from deckhand.edge.openapi_shapes import Shape, with_schemas
from deckhand.edge.openapi_sign_in import SIGN_IN_PATHS
from deckhand.operations.catalog import REGISTRY
from deckhand.operations.registry import Http, Operation
from deckhand.operations.schema import body_schema, http_only, tool_schema

VERSION = "0.1.0"
ERROR = {
    "type": "object",
    "required": ["error", "code"],
    "properties": {
        "error": {"type": "string", "description": "One sentence for a person."},
        "code": {"type": "string", "description": "A stable word for programs."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["path", "message"],
                "properties": {"path": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
}
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "description": "The card's version that was read, in quotes; 412 when it has moved on.",
    "schema": {"type": "string"},
}


@cache
def document() -> dict[str, Any]:
    """The whole document; the same object each time, not to be changed."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in REGISTRY.all():
        if operation.http is not None:
            item = paths.setdefault(operation.http.path, {})
            item[operation.http.method.lower()] = _described(operation, operation.http)
    described, schemas = with_schemas(dict(sorted((paths | CHAT_PATHS | PUBLIC_PATHS | SIGN_IN_PATHS).items())))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Deckhand",
            "version": VERSION,
            "description": "A chat agent for a deck of personal data cards.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": []}],
        "paths": described,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "__Host-deckhand"},
                "chatToken": {"type": "apiKey", "in": "header", "name": "X-Chat-Token"},
            },
            "schemas": {"Error": ERROR, **schemas},
            "responses": {
                "Error": {
                    "description": "Why not.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
                }
            },
        },
    }


def _described(operation: Operation, http: Http) -> dict[str, Any]:
    schema = body_schema(operation.input)
    in_path = re.findall(r"{(\w+)}", http.path)
    rest = {name: one for name, one in schema["properties"].items() if name not in in_path}
    required = [name for name in schema.get("required", []) if name in rest]
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.run.__module__.rsplit(".", 1)[-1]],
        "parameters": _parameters(operation, http, in_path, required),
        "responses": {
            **{str(status): _response(operation, status) for status in (http.status, http.known) if status is not None},
            "default": {"$ref": "#/components/responses/Error"},
        },
    }
    if operation.description != operation.summary:
        described["description"] = operation.description
    if http.method not in ("GET", "DELETE") and rest:
        described["requestBody"] = _body(http, rest, required)
    return described


def _response(operation: Operation, status: int) -> dict[str, Any]:
    content = {} if status == 204 else {"content": {"application/json": {"schema": Shape(operation.output)}}}
    return {"description": _result(operation) or HTTPStatus(status).phrase, **content}


def _parameters(operation: Operation, http: Http, in_path: Iterable[str], required: list[str]) -> list[dict[str, Any]]:
    named = tool_schema(operation.input)["properties"]
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": named[name]} for name in in_path
    ]
    if http.method in ("GET", "DELETE"):
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": one}
            for name, one in named.items()
            if name not in in_path
        ]
    return [*parameters, _IF_MATCH] if http_only(operation.input) else parameters


def _body(http: Http, fields: dict[str, Any], required: list[str]) -> dict[str, Any]:
    if http.text and http.body is not None:
        text = {"schema": {"type": "string", "minLength": 1}}
        return {"required": True, "content": {"text/plain": text, "text/markdown": text}}
    if http.body is not None:
        return {"required": True, "content": {"application/json": {"schema": fields[http.body]}}}
    schema = {"type": "object", "properties": fields, "required": required, "additionalProperties": False}
    return {"required": bool(required), "content": {"application/json": {"schema": schema}}}


def _result(operation: Operation) -> str:
    """The first sentences of the operation's own docstring: what it answers, without what it raises."""
    text = " ".join((operation.run.__doc__ or "").split())
    return text.partition("Raises ")[0].strip()
