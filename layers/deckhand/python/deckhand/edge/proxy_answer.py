"""The proxy answer that a handler returns, and the two shapes it can leave in.

A handler answers `{"statusCode": int, "headers"?, "multiValueHeaders"?, "cookies"?, "body"?, "isBase64Encoded"?}`;
its `body` is text, bytes, or an iterator of either. It leaves as a stream (a prelude, then the chunks), or joined into
the plain answer that every runtime takes.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeGuard

PRELUDE_END = b"\0" * 8
"""Parts the prelude from the body: https://docs.aws.amazon.com/apigateway/latest/developerguide/response-transfer-
mode-lambda.html
"""


def streams(environ: Mapping[str, str]) -> bool:
    """Whether what runs the handler takes a body in pieces. SAM local never does."""
    return environ.get("RESPONSE_MODE") == "stream" and not environ.get("AWS_SAM_LOCAL")


def is_proxy_answer(answer: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a handler's result is an HTTP answer; schedules and queues return other things."""
    return isinstance(answer, Mapping) and isinstance(answer.get("statusCode"), int)


def prelude(answer: Mapping[str, Any]) -> bytes:
    """The JSON that opens a streamed answer: status, headers and cookies, without the body."""
    opening: dict[str, Any] = {"statusCode": int(answer["statusCode"])}
    if headers := answer.get("headers"):
        opening["headers"] = {name: _header(value) for name, value in headers.items()}
    if many := answer.get("multiValueHeaders"):
        opening["multiValueHeaders"] = {name: [_header(value) for value in values] for name, values in many.items()}
    if cookies := answer.get("cookies"):
        opening["cookies"] = list(cookies)
    return json.dumps(opening, separators=(",", ":")).encode()


def chunks(answer: Mapping[str, Any]) -> Iterator[bytes]:
    """The body in pieces; none of them is empty, since an empty chunk would end the body."""
    body = answer.get("body")
    if isinstance(body, str) and answer.get("isBase64Encoded"):
        body = base64.b64decode(body)
    pieces: Iterable[Any] = () if body is None else (body,) if isinstance(body, str | bytes) else body
    for piece in pieces:
        if piece:
            yield piece.encode() if isinstance(piece, str) else bytes(piece)


def joined(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The same answer with its body as one text, or as base64 where it is no text. A text body stays as it is."""
    if answer.get("body") is None or isinstance(answer["body"], str):
        return dict(answer)
    body = b"".join(chunks(answer))
    try:
        return {**answer, "body": body.decode(), "isBase64Encoded": False}
    except UnicodeDecodeError:
        return {**answer, "body": base64.b64encode(body).decode(), "isBase64Encoded": True}


def _header(value: object) -> str:
    return value if isinstance(value, str) else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
