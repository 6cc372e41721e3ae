"""The demo gateway: an OpenAI-compatible server around the demo's script, for a first run without account or model.

`uvicorn --factory infra.local.demo_gateway:app`. It streams in small pieces with a short delay, calls tools and
reports usage.
"""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from datetime import date
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from infra.local.demo_scene import ToolUse
from infra.local.demo_script import next_step

MODEL = "demo"
PIECE_SECONDS = 0.02


def app(piece_seconds: float = PIECE_SECONDS) -> Starlette:
    """`piece_seconds` is the pause between two pieces of a stream."""

    async def completions(request: Request) -> Response:
        try:
            body = await request.json()
            step = next_step(body["messages"], body.get("tools") or [], date.today())  # noqa: DTZ011 (the machine's day)
        except (ValueError, KeyError, TypeError, AttributeError):
            error = {"message": "This is not a chat-completions request.", "type": "invalid_request_error"}
            return JSONResponse({"error": error}, 400)
        completion = Completion(step, prompt_tokens=_tokens(json.dumps(body["messages"])))
        if not body.get("stream"):
            return JSONResponse(completion.whole())
        with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        return StreamingResponse(_events(completion, with_usage, piece_seconds), media_type="text/event-stream")

    return Starlette(
        routes=[
            Route("/v1/chat/completions", completions, methods=["POST"]),
            Route("/v1/models", _models, methods=["GET"]),
        ]
    )


async def _models(_: Request) -> Response:
    return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "deckhand"}]})


class Completion:
    """One answer in the wire's two forms."""

    def __init__(self, step: str | ToolUse, *, prompt_tokens: int) -> None:
        self._step = step
        self._head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": MODEL}
        self._finish = "tool_calls" if isinstance(step, ToolUse) else "stop"
        written = _tokens(step if isinstance(step, str) else json.dumps(step.arguments))
        self.usage = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": written,
            "total_tokens": prompt_tokens + written,
        }

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if isinstance(self._step, ToolUse):
            message["content"] = self._step.saying or None
            message["tool_calls"] = [self._call(self._step, json.dumps(self._step.arguments, ensure_ascii=False))]
        else:
            message["content"] = self._step
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self.usage}

    def deltas(self) -> list[dict[str, Any]]:
        """The stream's deltas: text a word at a time, a call's arguments in two halves as real servers part them."""
        first: dict[str, Any] = {"role": "assistant", "content": ""}
        if isinstance(self._step, str):
            return [first, *({"content": word} for word in _words(self._step))]
        arguments = json.dumps(self._step.arguments, ensure_ascii=False)
        half = len(arguments) // 2
        rest = {"index": 0, "function": {"arguments": arguments[half:]}}
        spoken = [first, *({"content": word} for word in _words(self._step.saying))] if self._step.saying else []
        return [
            *spoken,
            {**first, "tool_calls": [{"index": 0, **self._call(self._step, arguments[:half])}]},
            {"tool_calls": [rest]},
        ]

    def chunk(self, delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}

    def last(self) -> dict[str, Any]:
        return self.chunk({}, self._finish)

    def usage_chunk(self) -> dict[str, Any]:
        return {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": self.usage}

    @staticmethod
    def _call(use: ToolUse, arguments: str) -> dict[str, Any]:
        function = {"name": use.name, "arguments": arguments}
        return {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}


async def _events(completion: Completion, with_usage: bool, pause: float) -> AsyncIterator[str]:
    chunks = [*map(completion.chunk, completion.deltas()), completion.last()]
    if with_usage:
        chunks.append(completion.usage_chunk())
    for chunk in chunks:
        yield f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"
        await asyncio.sleep(pause)
    yield "data: [DONE]\n\n"


def _words(text: str) -> list[str]:
    words = text.split(" ")
    return [word + " " for word in words[:-1]] + words[-1:]


def _tokens(text: str) -> int:
    """About four characters a token, the usual rule of thumb."""
    return max(1, len(text) // 4)
