"""The event that API Gateway's REST API hands to a function (payload version 1.0), made from an HTTP request.

Form: https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-lambda-proxy-integrations.html
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

STAGE = "local"


@dataclass(frozen=True)
class Request:
    """An HTTP request, free of any server's types. `headers` and `query` keep order and repetitions."""

    method: str
    path: str
    resource: str
    path_parameters: Mapping[str, str] = field(default_factory=dict)
    headers: Sequence[tuple[str, str]] = ()
    query: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    source_ip: str = "127.0.0.1"


def proxy_event(request: Request, *, request_id: str, now: datetime) -> dict[str, Any]:
    """The event. As API Gateway sends it, absent parts are None and single-value maps have a repeated name's last."""
    body, is_base64 = _body(request.body)
    headers = _grouped(request.headers)
    query = _grouped(request.query)
    return {
        "resource": request.resource,
        "path": request.path,
        "httpMethod": request.method,
        "headers": _last(headers),
        "multiValueHeaders": headers or None,
        "queryStringParameters": _last(query),
        "multiValueQueryStringParameters": query or None,
        "pathParameters": dict(request.path_parameters) or None,
        "stageVariables": None,
        "requestContext": _context(request, headers, request_id, now.astimezone(UTC)),
        "body": body,
        "isBase64Encoded": is_base64,
    }


def _context(request: Request, headers: Mapping[str, list[str]], request_id: str, now: datetime) -> dict[str, Any]:
    return {
        "accountId": "000000000000",
        "apiId": STAGE,
        "domainName": headers.get("host", [""])[-1],
        "extendedRequestId": request_id,
        "httpMethod": request.method,
        "identity": {"sourceIp": request.source_ip, "userAgent": headers.get("user-agent", [None])[-1]},
        "path": request.path,
        "protocol": "HTTP/1.1",
        "requestId": request_id,
        "requestTime": now.strftime("%d/%b/%Y:%H:%M:%S +0000"),
        "requestTimeEpoch": int(now.timestamp() * 1000),
        "resourceId": STAGE,
        "resourcePath": request.resource,
        "stage": STAGE,
    }


def _body(raw: bytes) -> tuple[str | None, bool]:
    if not raw:
        return None, False
    try:
        return raw.decode(), False
    except UnicodeDecodeError:
        return base64.b64encode(raw).decode(), True


def _grouped(pairs: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, value in pairs:
        grouped.setdefault(name, []).append(value)
    return grouped


def _last(grouped: Mapping[str, list[str]]) -> dict[str, str] | None:
    return {name: values[-1] for name, values in grouped.items()} or None
