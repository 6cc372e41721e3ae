"""HTTP routes made from the registry."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from deckhand.domain.errors import AnswerTooLarge, ValidationFailed
from deckhand.domain.json_text import dumps
from deckhand.domain.principal import Principal
from deckhand.edge.answer import json_answer, no_content
from deckhand.edge.app import Route
from deckhand.edge.request import Request
from deckhand.operations.caller import Caller
from deckhand.operations.execution import perform
from deckhand.operations.registry import Http, Operation
from deckhand.operations.schema import http_only

# Lambda's limit is 6,291,556 bytes for the whole proxy answer.
MAX_ANSWER_BYTES = 6_000_000


def routes(
    operations: Iterable[Operation],
    *,
    authenticate: Callable[[Request], Principal],
    admin: Callable[[Request], Principal],
    caller: Callable[[Principal], Caller],
) -> list[Route]:
    """`admin` authenticates the operator, for the routes that are the operator's. One route for each operation that
    is exposed over HTTP.
    """
    return [
        Route(
            operation.http.method,
            operation.http.path,
            _endpoint(operation, operation.http, admin if operation.http.admin else authenticate, caller),
        )
        for operation in operations
        if operation.http is not None
    ]


def _endpoint(
    operation: Operation,
    http: Http,
    authenticate: Callable[[Request], Principal],
    caller: Callable[[Principal], Caller],
) -> Callable[[Request, Mapping[str, str], Any], Any]:
    def endpoint(request: Request, parts: Mapping[str, str], _: Any) -> Any:
        principal = authenticate(request)
        given = validated(operation.input, _fields(operation, http, request, parts))
        return _answer(http, perform(caller(principal), operation, given))

    return endpoint


def _fields(operation: Operation, http: Http, request: Request, parts: Mapping[str, str]) -> dict[str, Any]:
    """The union of path, query and body; the path wins nothing, as a name may stand in one of them only."""
    if http.method in ("GET", "DELETE"):
        fields: dict[str, Any] = dict(request.query)
    elif http.body is not None and http.text:
        fields = {http.body: request.text(http.limit)}
    elif http.body is not None:
        # Parts that are objects are never taken from a text that holds one.
        wants_object = operation.input.model_fields[http.body].annotation == dict[str, Any]
        fields = {http.body: request.json_object(http.limit) if wants_object else request.json(http.limit)}
    else:
        fields = request.json_object(http.limit) if request.body else {}
    named = {name: parts[name] for name in re.findall(r"{(\w+)}", http.path)}
    if clash := sorted(set(fields) & set(named)):
        raise ValidationFailed(errors=[{"path": name, "message": "is given by the path"} for name in clash])
    if clash := sorted(set(fields) & http_only(operation.input)):
        raise ValidationFailed(errors=[{"path": name, "message": "is given by a header"} for name in clash])
    if "if_match" in operation.input.model_fields:
        return {**fields, **named, "if_match": _version(request.headers.get("if-match", "*"))}
    return {**fields, **named}


def _version(match: str) -> int | None:
    """The one version of an `If-Match` header; None when any will do, -1 (which no card has) for all that is none."""
    version = match.strip().removeprefix("W/").strip('"')
    if version == "*":
        return None
    return int(version) if version.isascii() and version.isdigit() and len(version) <= 18 else -1


def _answer(http: Http, result: Any) -> Any:
    if result is None:
        return no_content()
    known = isinstance(result, dict) and result.get("created") is False
    return _bounded(http.known if known and http.known is not None else http.status, result)


def _bounded(status: int, result: Any) -> Any:
    """A buffered answer has at most 6 MB, measured on what the platform carries: the body as a JSON text in the proxy
    answer, where each quote takes two bytes (bug case 56).
    """
    answer = json_answer(status, result)
    size = len(answer.body.encode()) if answer.body else 0
    if size > MAX_ANSWER_BYTES // 2 and len(dumps(answer.body).encode()) > MAX_ANSWER_BYTES:
        raise AnswerTooLarge()
    version = result.get("version") if isinstance(result, dict) else None
    if isinstance(version, int):
        answer.headers["ETag"] = f'"{version}"'
    return answer


def validated(model: type[BaseModel], fields: Mapping[str, Any]) -> BaseModel:
    """Raises `ValidationFailed` with every fault."""
    try:
        return model.model_validate(fields)
    except ValidationError as invalid:
        faults = [
            {"path": ".".join(str(part) for part in e["loc"]), "message": e["msg"]}
            for e in invalid.errors(include_url=False, include_input=False)
        ]
        raise ValidationFailed(errors=faults) from None
