"""Whether answers are what is declared of them: each result of an operation, and each answer over HTTP."""

import re
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from jsonschema_rs import Draft202012Validator, Registry, ValidationError

from deckhand.domain.json_text import loads
from deckhand.edge.openapi import document
from deckhand.edge.openapi_shapes import Shape, with_schemas
from deckhand.operations.caller import Caller
from deckhand.operations.catalog import REGISTRY
from deckhand.operations.registry import Operation

HTTP, RESULTS = "urn:http", "urn:results"
EVENTS = {"reply": "Reply", "proposal": "ShownProposal"}


class Watch:
    """Looks at every result of an operation, whoever asked for it, and keeps what is not as declared: a test that
    swallows errors must not swallow these.
    """

    def __init__(self) -> None:
        self.faults: list[str] = []

    def begin(self) -> Callable[[], None]:
        """From here on, in place, as tests and apps hold on to operations; the returned function ends it."""
        plain = [(operation, operation.run) for operation in REGISTRY.all()]
        for operation, run in plain:
            object.__setattr__(operation, "run", self._watched(operation, run))

        def end() -> None:
            for operation, run in plain:
                object.__setattr__(operation, "run", run)

        return end

    def _watched(self, operation: Operation, plain: Callable[[Caller, Any], Any]) -> Callable[[Caller, Any], Any]:
        @wraps(plain)
        def run(caller: Caller, given: Any) -> Any:
            result = plain(caller, given)
            if fault := misfit(RESULTS, f"/results/{operation.name}", result):
                self.faults.append(f"{operation.name}: {fault}")
            return result

        return run


def check_answer(method: str, path: str, status: int, content: Any) -> None:
    """Of a success that is one JSON text; streams are looked at elsewhere."""
    if not 200 <= status < 300 or not isinstance(content, str):
        return
    said = f"{method} {path} {status}"
    declared = declared_path(path) or "nothing"
    answers = document()["paths"].get(declared, {}).get(method.lower(), {}).get("responses", {})
    assert str(status) in answers, f"{said}: not declared"
    if status == 204:
        assert content == "", f"{said}: has a body"
        return
    where = [declared, method.lower(), "responses", str(status), "content", "application/json", "schema"]
    fault = misfit(HTTP, "/".join(["/paths", *(part.replace("/", "~1") for part in where)]), loads(content))
    assert fault is None, f"{said}: {fault}"


def check_event(name: str, data: Any) -> None:
    """Of a stream: what stands for the answer, and what it waits for."""
    if (shape := EVENTS.get(name)) is not None:
        fault = misfit(HTTP, f"/components/schemas/{shape}", data)
        assert fault is None, f"event {name}: {fault}"


def misfit(document: str, pointer: str, value: Any) -> str | None:
    """What is wrong with a value by the schema at a place of a document."""
    try:
        _validator(document, pointer).validate(value)
    except ValidationError as error:
        return f"{error.message} at {list(error.instance_path)}"
    return None


@cache
def _validator(document: str, pointer: str) -> Draft202012Validator:
    reference = pointer.replace("{", "%7B").replace("}", "%7D")
    return Draft202012Validator({"$ref": f"{document}#{reference}"}, registry=_registry())


@cache
def _registry() -> Registry:
    results, components = with_schemas({operation.name: Shape(operation.output) for operation in REGISTRY.all()})
    declared = {"results": results, "components": {"schemas": components}}
    return Registry([(HTTP, document()), (RESULTS, declared)])


def declared_path(path: str) -> str | None:
    """As the document has it; paths without parts come first, as the router has it."""
    return next((known for known, pattern in _patterns() if pattern.fullmatch(path)), None)


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    paths = sorted(document()["paths"], key=lambda path: path.count("{"))
    return [(path, re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)))) for path in paths]
