"""Proxy answers with the headers that every answer has."""

from typing import Any

from aws_lambda_powertools.event_handler import Response

from deckhand.domain.errors import DeckhandError, RateLimited
from deckhand.domain.json_text import dumps
from deckhand.edge import sse
from deckhand.edge.errors import error_status
from deckhand.edge.live import Live


def json_answer(status: int, body: Any, headers: dict[str, Any] | None = None) -> "Response[str]":
    return Response(
        status_code=status,
        content_type="application/json; charset=utf-8",
        body=dumps(body),
        headers={"Cache-Control": "no-store", **(headers or {})},
    )


def error_answer(error: DeckhandError) -> "Response[str]":
    headers = {"Retry-After": str(error.retry_after)} if isinstance(error, RateLimited) else {}
    return json_answer(error_status(error), error.as_body(), headers)


def no_content() -> "Response[str]":
    return Response(status_code=204, headers={"Cache-Control": "no-store"}, body="")


def stream_answer(live: Live) -> "Response[Any]":
    return Response(status_code=200, content_type=sse.CONTENT_TYPE, body=live.body(), headers=dict(sse.HEADERS))
