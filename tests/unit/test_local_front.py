"""The laptop's front, without a server and without workers."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

from infra.local.front import front
from infra.local.invocation import Call, Invocation
from infra.local.template import Route


class Pool:
    """One whose function never answers."""

    def __init__(self) -> None:
        self.function = SimpleNamespace(routes=[Route(method="POST", resource="/slow")])
        self.invoked = asyncio.Event()

    def invoke(self, payload: bytes, *, long: bool, request_id: str) -> Invocation:
        self.invoked.set()
        return Invocation(Call(request_id, payload, 0, "arn"))


async def test_a_request_that_is_given_up_as_the_stack_ends_is_answered_in_the_usual_form() -> None:
    pool, sent = Pool(), list[Any]()

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/slow",
        "headers": [],
        "query_string": b"",
        "client": None,
    }
    answering = asyncio.create_task(front([pool])(scope, receive, send))  # type: ignore[list-item]
    await pool.invoked.wait()
    answering.cancel()
    await answering
    assert sent[0]["status"] == 502
    assert json.loads(sent[1]["body"])["code"] == "function_failed"
