"""An HTTP application: routes in, proxy answers out. The outermost place that catches everything."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import local
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response

from deckhand.domain.errors import DeckhandError, MethodNotAllowed, NotFound
from deckhand.edge.answer import error_answer, json_answer
from deckhand.edge.payload import is_version_2, routable, version_2_answer
from deckhand.edge.request import Request, read_request

logger = Logger(child=True)

ALL_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

Endpoint = Callable[[Request, Mapping[str, str], Any], "Response[Any]"]


@dataclass(frozen=True, slots=True)
class Route:
    """`path` with `{name}` for its parts. The endpoint gets the request, the path's parts and the Lambda context."""

    method: str
    path: str
    endpoint: Endpoint


class _Resolver(APIGatewayRestResolver):
    """Keeps the request in hand for each thread: the library keeps one for the process, so that of two threads one may
    be answered what the other asked, or about what the other's path names.
    """

    def __init__(self) -> None:
        self._in_hand = local()
        super().__init__(strip_prefixes=[])

    def resolve(self, event: Any, context: Any) -> dict[str, Any]:
        self._in_hand.lambda_context, self._in_hand.context = context, {}
        return super().resolve(event, context)

    def _to_proxy_event(self, event: dict[str, Any]) -> Any:
        self._in_hand.event = super()._to_proxy_event(event)
        return self._in_hand.event

    @property
    def current_event(self) -> Any:  # type: ignore[override]
        return self._in_hand.event

    @property
    def lambda_context(self) -> Any:  # type: ignore[override]
        return self._in_hand.lambda_context

    @property
    def context(self) -> Any:
        """Where the library puts the parts of the path."""
        return self._in_hand.context

    @context.setter
    def context(self, value: dict[str, Any]) -> None:
        self._in_hand.context = value


class App:
    """Powertools resolves the route; errors of ours become their answers, all others a 500 that names the request."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._resolver = _Resolver()
        self._methods: dict[str, list[str]] = {}
        for route in routes:
            self._methods.setdefault(route.path, []).append(route.method)
        for route in routes:
            self._resolver.route(_rule(route.path), method=route.method)(self._guarded(route.endpoint))
        for path, methods in self._methods.items():
            for method in ALL_METHODS - set(methods):
                self._resolver.route(_rule(path), method=method)(self._guarded(_refusing(methods)))
        self._resolver.not_found(self._guarded(_unknown))

    @property
    def paths(self) -> Mapping[str, Sequence[str]]:
        return self._methods

    def __call__(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """A proxy answer of the version that the event has."""
        newer = is_version_2(event)
        answer = self._resolver.resolve(routable(event) if newer else dict(event), context)
        answer.setdefault("multiValueHeaders", {})["X-Request-Id"] = [_request_id(event, context)]
        return version_2_answer(answer) if newer else answer

    def _guarded(self, endpoint: Endpoint) -> Callable[..., "Response[Any]"]:
        def call(*_: Any, **parts: str) -> "Response[Any]":
            event, context = self._resolver.current_event.raw_event, self._resolver.lambda_context
            try:
                return endpoint(read_request(event), parts, context)
            except DeckhandError as error:
                return error_answer(error)
            except Exception:
                logger.exception("request failed")
                return json_answer(500, {**DeckhandError().as_body(), "requestId": _request_id(event, context)})

        return call


def _rule(path: str) -> str:
    return path.replace("{", "<").replace("}", ">")


def _refusing(methods: Sequence[str]) -> Endpoint:
    allow = ", ".join(sorted(methods))

    def refuse(*_: Any) -> "Response[Any]":
        return json_answer(405, MethodNotAllowed().as_body(), {"Allow": allow})

    return refuse


def _unknown(*_: Any) -> "Response[Any]":
    raise NotFound()


def _request_id(event: Mapping[str, Any], context: Any) -> str:
    known = (event.get("requestContext") or {}).get("requestId")
    return str(known or getattr(context, "aws_request_id", ""))
