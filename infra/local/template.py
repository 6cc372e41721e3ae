"""What the laptop stack needs of template.yaml: functions, what starts them, their time limits and environment."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.local.intrinsics import Resolver, TemplateError, load

DEFAULT_TIMEOUT_SECONDS = 3.0
"""Lambda's own, where the template names none."""


@dataclass(frozen=True)
class Route:
    """One method of one resource. `resource` is in API Gateway's form: `/api/chat/turn/{id}`, `/api/docs/{path+}`."""

    method: str
    resource: str
    streams: bool = False

    @property
    def long(self) -> bool:
        """Whether an answer may stay open as long as a turn does. A stop (DELETE) and lists never do."""
        return self.streams and (self.method == "POST" or (self.method in ("GET", "ANY") and "{" in self.resource))


@dataclass(frozen=True)
class Function:
    """One Lambda function. `timeout` is in seconds; `code` is the folder that holds the handler module."""

    name: str
    handler: str
    code: Path
    timeout: float
    memory: int = 128
    environment: Mapping[str, str] = field(default_factory=dict)
    routes: Sequence[Route] = ()
    queue: bool = False
    """Whether an SQS queue starts it."""
    schedule: bool = False

    @property
    def streams(self) -> bool:
        """Whether it has long answers."""
        return any(route.long for route in self.routes)


def read_template(path: Path, parameters: Mapping[str, Any] | None = None) -> list[Function]:
    """Every `AWS::Serverless::Function`, with what starts it.

    Raises TemplateError when the file is absent or cannot be read.
    """
    if not path.is_file():
        raise TemplateError(f"{path} is missing")
    template = load(path)
    resolver = Resolver(template, parameters or {})
    shared = resolver.resolve((template.get("Globals") or {}).get("Function") or {})
    return [
        _function(name, resolver.resolve(resource.get("Properties") or {}), shared, path.parent)
        for name, resource in (template.get("Resources") or {}).items()
        if resource.get("Type") == "AWS::Serverless::Function" and _exists(resource, resolver)
    ]


def _exists(resource: Mapping[str, Any], resolver: Resolver) -> bool:
    return "Condition" not in resource or bool(resolver.resolve({"Condition": resource["Condition"]}))


def _function(name: str, own: Mapping[str, Any], shared: Mapping[str, Any], root: Path) -> Function:
    def either(key: str, default: Any) -> Any:
        return own.get(key, shared.get(key, default))

    handler = either("Handler", None)
    if not isinstance(handler, str) or "." not in handler:
        raise TemplateError(f"The function {name} has no usable Handler")
    variables = {
        **(shared.get("Environment") or {}).get("Variables", {}),
        **(own.get("Environment") or {}).get("Variables", {}),
    }
    events = list((own.get("Events") or {}).values())
    kinds = {event.get("Type") for event in events}
    return Function(
        name=name,
        handler=handler,
        code=(root / str(either("CodeUri", "."))).resolve(),
        timeout=float(either("Timeout", DEFAULT_TIMEOUT_SECONDS)),
        memory=int(either("MemorySize", 128)),
        environment={key: _text(value) for key, value in variables.items()},
        routes=tuple(_route(event.get("Properties") or {}) for event in events if event.get("Type") == "Api"),
        queue="SQS" in kinds,
        schedule=bool(kinds & {"Schedule", "ScheduleV2"}),
    )


def _route(event: Mapping[str, Any]) -> Route:
    return Route(
        method=str(event["Method"]).upper(),
        resource=str(event["Path"]),
        streams=event.get("ResponseTransferMode") == "RESPONSE_STREAM",
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def specificity(resource: str) -> tuple[tuple[int, str], ...]:
    """Sorts resources as API Gateway chooses among them: literal segments before `{one}`, that before `{rest+}`."""
    return tuple((2 if "+}" in part else 1 if part.startswith("{") else 0, part) for part in resource.split("/"))


def starlette_path(resource: str) -> str:
    """API Gateway's `{rest+}` in Starlette's words."""
    return re.sub(r"\{(\w+)\+\}", r"{\1:path}", resource)
