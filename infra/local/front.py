"""The laptop's API Gateway: finds the function for a request, makes its event, streams its answer."""

import asyncio
import json
import logging
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from infra.local.events import Request, proxy_event
from infra.local.invocation import Fault, FunctionFaultError, Invocation
from infra.local.pool import Pool
from infra.local.template import Route, specificity, starlette_path

BODY_LIMIT_BYTES = 10 * 1024 * 1024
"""API Gateway's limit of a request's payload."""

logger = logging.getLogger(__name__)

FAULTS: Mapping[Fault, tuple[int, str, str]] = {
    Fault.BUSY: (503, "busy", "Everything is taken at the moment. Try again shortly."),
    Fault.TIMED_OUT: (504, "function_timeout", "This took longer than it may."),
}
FAILED = (502, "function_failed", "The function ended without an answer.")


class FunctionAnswer(Response):
    """The answer of a function as it comes.

    It is read to its end even when the client has gone: sending is then silent, and nothing else changes.
    """

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._send(send)
        except FunctionFaultError as cut:
            # Returning without the last chunk makes the server hang up, which is all that a broken stream can tell.
            logger.warning("An answer broke off", extra={"fault": cut.fault.name})
        await self._invocation.wait()

    async def _send(self, send: Send) -> None:
        prelude = await self._invocation.prelude()
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in prelude.headers]
        await send({"type": "http.response.start", "status": prelude.status, "headers": headers})
        async for data in self._invocation.chunks():
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Resource:
    """One path with the functions behind its methods."""

    def __init__(self, resource: str) -> None:
        self.resource = resource
        self._methods: dict[str, tuple[Route, Pool]] = {}

    def add(self, route: Route, pool: Pool) -> None:
        self._methods[route.method] = (route, pool)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(HttpRequest(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: HttpRequest) -> Response:
        found = self._methods.get(request.method) or self._methods.get("ANY")
        request_id = str(uuid.uuid4())
        if found is None:
            allowed = {"Allow": ", ".join(sorted(self._methods))}
            return problem(405, "method_not_allowed", "This address does not take that method.", request_id, allowed)
        body = await _read_body(request)
        if body is None:
            return problem(413, "body_too_large", "The body is too large.", request_id)
        route, pool = found
        event = proxy_event(_plain(request, route, body), request_id=request_id, now=datetime.now(UTC))
        invocation = pool.invoke(json.dumps(event).encode(), long=route.long, request_id=request_id)
        try:
            await invocation.prelude()
        except FunctionFaultError as failed:
            status, code, sentence = FAULTS.get(failed.fault, FAILED)
            logger.warning("A function gave no answer", extra={"fault": failed.fault.name, "resource": route.resource})
            return problem(status, code, sentence, request_id, {"Retry-After": "1"} if status == 503 else None)
        except asyncio.CancelledError:
            # The stack ends, and has waited long enough: the last word to a client is in its form, too.
            return problem(*FAILED, request_id)
        return FunctionAnswer(invocation)


def front(pools: Iterable[Pool]) -> Starlette:
    """The application for every route of the pools' functions."""
    resources: dict[str, Resource] = {}
    for pool in pools:
        for route in pool.function.routes:
            resources.setdefault(route.resource, Resource(route.resource)).add(route, pool)
    # A resource is no function, so the router leaves every method to it: its 405 can then name them all.
    routes = [StarletteRoute(starlette_path(name), resources[name]) for name in sorted(resources, key=specificity)]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _http_problem})
    app.router.redirect_slashes = False
    return app


def problem(
    status: int, code: str, sentence: str, request_id: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """An error of the front itself, in the form that the functions use."""
    body = {"error": sentence, "code": code}
    return JSONResponse(body, status, {"X-Request-Id": request_id, "Cache-Control": "no-store", **(headers or {})})


async def _http_problem(request: HttpRequest, error: Exception) -> Response:
    return problem(404, "not_found", "There is nothing here.", str(uuid.uuid4()))


async def _read_body(request: HttpRequest) -> bytes | None:
    """The whole body, or None when it is over the limit."""
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > BODY_LIMIT_BYTES:
                return None
    except ClientDisconnect:
        return None
    return bytes(body)


def _plain(request: HttpRequest, route: Route, body: bytes) -> Request:
    return Request(
        method=request.method,
        path=request.scope["path"],
        resource=route.resource,
        path_parameters=request.path_params,
        headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw],
        query=request.query_params.multi_items(),
        body=body,
        source_ip=request.client.host if request.client else "127.0.0.1",
    )
