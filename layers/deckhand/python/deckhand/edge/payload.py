"""Payload version 2 (HTTP API, function URL) in the terms of version 1, which the router speaks, and back.

Forms: https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html
"""

from collections.abc import Mapping
from typing import Any

SET_COOKIE = "set-cookie"


def is_version_2(event: Mapping[str, Any]) -> bool:
    return event.get("version") == "2.0"


def routable(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event with what a version 1 router looks for; nothing is taken away."""
    http = (event.get("requestContext") or {}).get("http") or {}
    return {**event, "httpMethod": http.get("method", "GET"), "path": event.get("rawPath", "/")}


def version_2_answer(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Version 2 knows no lists of headers: cookies have a list of their own, as they cannot be joined (bug case 53)."""
    many = dict(answer.get("multiValueHeaders") or {})
    cookies = [value for name, values in many.items() if name.lower() == SET_COOKIE for value in values]
    headers = {name: ", ".join(values) for name, values in many.items() if name.lower() != SET_COOKIE}
    rest = {name: value for name, value in answer.items() if name not in ("multiValueHeaders", "headers")}
    return {**rest, "headers": {**(answer.get("headers") or {}), **headers}, "cookies": cookies}
