"""The model of a soak: repeats what it was asked, at an uneven pace, sometimes after a tool call or a refusal."""

import contextlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RETRIES = 2
"""A question is refused no more often than it is asked again, or its turn would fail with good reason."""


class Model:
    """What it does to a request hangs on its dice; what it says, on the question alone."""

    PREAMBLE = "Let me look. "
    """Said before a tool call; stays when the turn ends right behind it."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed + 7)  # noqa: S311 - a test's dice
        self._refused: Counter[str] = Counter()

    @staticmethod
    def reply(asked: str) -> str:
        return f"re: {asked}"

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        """The address of the endpoint on loopback."""
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                sent = self.rfile.read(int(self.headers["Content-Length"]))
                # Whoever asks may be killed in the middle of a question, or of its answer.
                with contextlib.suppress(OSError, json.JSONDecodeError):
                    model._answer(self, json.loads(sent))
                self.close_connection = True

            def log_message(self, *_: Any) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/chat/completions"
        finally:
            server.shutdown()
            server.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        messages = body["messages"]
        asked = _text(next(message for message in reversed(messages) if message["role"] == "user"))
        fresh, chance = messages[-1]["role"] == "user" and "tools" in body, self._dice.random()
        if fresh and chance < 0.05 and self._refused[asked] < RETRIES:
            self._refused[asked] += 1
            handler.send_response(503)
            handler.send_header("Content-Length", "0")
            handler.send_header("Retry-After", "0.2")
            handler.end_headers()
            return
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        if fresh and chance < 0.35:
            self._say(handler, {"content": self.PREAMBLE}, {"tool_calls": [_call()]}, finish="tool_calls")
        else:
            words = self.reply(asked).split(" ")
            pieces = [f"{' ' if n else ''}{word}" for n, word in enumerate(words)]
            self._say(handler, *({"content": half} for piece in pieces for half in _halves(piece)), finish="stop")

    def _say(self, handler: BaseHTTPRequestHandler, *deltas: dict[str, Any], finish: str) -> None:
        slow = self._dice.random() < 0.1
        for delta in deltas:
            _send(handler, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            time.sleep(self._dice.uniform(0, 1.5 if slow else 0.15))
        _send(handler, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        handler.wfile.write(b"data: [DONE]\n\n")


def _call() -> dict[str, Any]:
    return {"index": 0, "id": "c1", "type": "function", "function": {"name": "list_cards", "arguments": "{}"}}


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [half for half in (text[:middle], text[middle:]) if half]


def _send(handler: BaseHTTPRequestHandler, chunk: dict[str, Any]) -> None:
    handler.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
    handler.wfile.flush()


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
