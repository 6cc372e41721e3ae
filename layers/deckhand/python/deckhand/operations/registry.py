"""The one registry: an operation is declared once, and routes, tools and documents are made from it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_type_hints

from pydantic import BaseModel

from deckhand.domain.access import Kept
from deckhand.operations.caller import Caller

Input = TypeVar("Input", bound=BaseModel)
Output = TypeVar("Output")
COMPACT_TOOLS = {"list_manifests", "read_manifest_rows", "create_manifest", "append_row", "update_row", "remove_row"}
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class Http:
    """Where an operation is reached over HTTP.

    Fields named in `path` come from it; the others from the query (GET, DELETE) or the JSON body. `body` names the one
    field that is the whole body, as text when `text`. `limit` is the largest body in bytes. `admin` asks for the
    operator's token. A result that is None has no body; one that says `created: false` is answered with `known`, where
    that is given.
    """

    method: Method
    path: str
    status: int = 200
    known: int | None = None
    body: str | None = None
    limit: int = 256 * 1024
    admin: bool = False
    text: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """`summary` is for people, `description` for the model. `card` or `conversation` names the input field that holds
    the id of the one it is about; `label` is the progress line of a call; `change` says what a success did to that
    card; `rescue` names fields of any shape in which a model's JSON text is taken for what it holds; `destroys` says
    whether one call of an operation that is not destructive as such destroys something; `recorded` is false for what is
    too small for the audit; `target` is what one call is about to change, as JSON that a person should see before they
    agree, None where the arguments say it. What it answers is declared by the annotation of `run`.
    """

    name: str
    summary: str
    description: str
    input: type[BaseModel]
    run: Callable[[Caller, Any], Any]
    http: Http | None = None
    agent: bool = False
    mutates: bool = False
    destructive: bool = False
    card: str | None = None
    conversation: str | None = None
    change: Literal["created", "changed", "removed"] | None = None
    label: str | None = None
    rescue: tuple[str, ...] = ()
    destroys: Callable[[Caller, Any], bool] | None = None
    recorded: bool = True
    target: Callable[[Caller, Any], Any] | None = None

    @property
    def about(self) -> Kept | None:
        """What each call is about, if it is about one thing."""
        return "card" if self.card is not None else "conversation" if self.conversation is not None else None

    @property
    def output(self) -> Any:
        """The type of its result. Looked up when asked for: nothing that starts a function needs it."""
        return get_type_hints(self.run, include_extras=True)["return"]


class Registry:
    """Raises `ValueError` at import for a name, or a method and path, that is taken, and for a route that does not fit
    its input.
    """

    def __init__(self) -> None:
        self._operations: dict[str, Operation] = {}
        self._routes: set[tuple[str, str]] = set()

    def add(self, operation: Operation) -> None:
        if operation.name in self._operations:
            raise ValueError(f"operation {operation.name} is declared twice")
        if operation.http is not None:
            if problem := _misfit(operation.http, operation.input):
                raise ValueError(f"the route of {operation.name}: {problem}")
            route = (operation.http.method, re.sub(r"{\w+}", "{}", operation.http.path))
            if route in self._routes:
                raise ValueError(f"route {route} is declared twice")
            self._routes.add(route)
        self._operations[operation.name] = operation

    def find(self, name: str) -> Operation | None:
        return self._operations.get(name)

    def all(self) -> list[Operation]:
        return list(self._operations.values())

    def tools(self, profile: Literal["full", "compact"] = "full") -> list[Operation]:
        """What a model may be offered, in the fixed order of declaration; a small model gets only what everyday use
        needs.
        """
        offered = [operation for operation in self._operations.values() if operation.agent]
        return offered if profile == "full" else [operation for operation in offered if operation.name in COMPACT_TOOLS]


def _misfit(http: Http, input: type[BaseModel]) -> str | None:
    """Why the flat fields cannot be split into path, query and body again."""
    fields, named = input.model_fields, re.findall(r"{(\w+)}", http.path)
    if len(set(named)) != len(named):
        return "its path names a part twice"
    for name in named:
        if name not in fields or fields[name].annotation not in (str, str | None):
            return f"its path's {name} is no text of the input"
    if http.body is not None and (http.body not in fields or http.body in named):
        return f"its body {http.body} is no field of the input, or stands in the path"
    return None


REGISTRY = Registry()


def operation(
    *,
    summary: str,
    input: type[Input],
    description: str = "",
    http: Http | None = None,
    agent: bool = False,
    mutates: bool = False,
    destructive: bool = False,
    card: str | None = None,
    conversation: str | None = None,
    change: Literal["created", "changed", "removed"] | None = None,
    label: str | None = None,
    rescue: tuple[str, ...] = (),
    destroys: Callable[[Caller, Input], bool] | None = None,
    recorded: bool = True,
    target: Callable[[Caller, Input], Any] | None = None,
) -> Callable[[Callable[[Caller, Input], Output]], Callable[[Caller, Input], Output]]:
    """Declares the decorated function, under its own name, as an operation: its annotations say what it answers."""

    def declare(run: Callable[[Caller, Input], Output]) -> Callable[[Caller, Input], Output]:
        REGISTRY.add(
            Operation(
                name=run.__name__,
                summary=summary,
                description=description or summary,
                input=input,
                run=run,
                http=http,
                agent=agent,
                mutates=mutates,
                destructive=destructive,
                card=card,
                conversation=conversation,
                change=change,
                label=label,
                rescue=rescue,
                destroys=destroys,
                recorded=recorded,
                target=target,
            )
        )
        return run

    return declare
