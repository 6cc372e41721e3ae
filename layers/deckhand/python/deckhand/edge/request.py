"""One form of request, whatever front door it came through (bug case 55)."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deckhand.domain import json_text
from deckhand.domain.errors import BodyTooLarge, InvalidJson, InvalidRequest

_SEPARATORS = {"cookie": "; "}


@dataclass(frozen=True, slots=True)
class Request:
    """`headers` have lower-case names; `body` is what was sent, decoded from base64 where the front door encoded it.
    `source_ip` is the address that the front door saw, never one that a header claims.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    request_id: str
    source_ip: str = ""

    def json(self, limit: int) -> Any:
        """The body as JSON. Raises `BodyTooLarge` over `limit` bytes, then `InvalidJson`."""
        if len(self.body) > limit:
            raise BodyTooLarge()
        return json_text.loads(self.body)

    def text(self, limit: int) -> str:
        """The body as text. Raises `BodyTooLarge`, `InvalidRequest` when it is not UTF-8."""
        if len(self.body) > limit:
            raise BodyTooLarge()
        try:
            return self.body.decode()
        except UnicodeDecodeError:
            raise InvalidRequest("The body is not UTF-8 text.") from None

    def json_object(self, limit: int) -> dict[str, Any]:
        value = self.json(limit)
        if not isinstance(value, dict):
            raise InvalidJson("The body must be a JSON object.")
        return value


def read_request(event: Mapping[str, Any]) -> Request:
    """From a REST (v1) or an HTTP API / Function URL (v2) proxy event."""
    context = event.get("requestContext") or {}
    http = context.get("http") or {}
    headers = {name.lower(): str(value) for name, value in (event.get("headers") or {}).items() if value is not None}
    for name, values in (event.get("multiValueHeaders") or {}).items():
        if values and (len(values) > 1 or name.lower() not in headers):
            # All of them, as HTTP reads them: of two credentials not one is picked.
            headers[name.lower()] = _SEPARATORS.get(name.lower(), ", ").join(str(value) for value in values)
    if cookies := event.get("cookies"):
        headers.setdefault("cookie", "; ".join(str(cookie) for cookie in cookies))
    return Request(
        method=event.get("httpMethod") or http.get("method", "GET"),
        path=event.get("path") or event.get("rawPath", "/"),
        headers=headers,
        query=dict(event.get("queryStringParameters") or {}),
        body=_body(event),
        request_id=str(context.get("requestId", "")),
        source_ip=str((context.get("identity") or http).get("sourceIp") or ""),
    )


def _body(event: Mapping[str, Any]) -> bytes:
    """What cannot be decoded becomes bytes that are no UTF-8: it is refused where it is read, behind the checks that
    come first.
    """
    body = str(event.get("body") or "").encode("utf-8", "surrogatepass")
    if not event.get("isBase64Encoded"):
        return body
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error:
        return b"\xff" + body
