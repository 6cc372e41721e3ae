"""A conductor that speaks real HTTP on loopback: one pod whose state the test sets, and a record of what was asked."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PAST = "2026-01-02T03:04:05Z"
TOKEN = "conductor-secret"


@dataclass
class Told:
    """One answer: a status and a body that is sent as it is."""

    status: int
    body: bytes


class Conductor:
    """Start it with `with`. `pod` is what a status says; `before_status` runs ahead of each answer; `told` replaces
    the status answer, `start_told` that to a start. A start moves the pod to `starting`.
    """

    def __init__(self, pod: str = "qwen") -> None:
        self.name = pod
        self.pod: dict[str, Any] = {"state": "stopped", "endpoint": None, "readySince": None}
        self.asked: list[str] = []
        self.tokens: list[str | None] = []
        self.before_status: Callable[[], None] = lambda: None
        self.told: Told | None = None
        self.start_told: Told | None = None

    def __enter__(self) -> "Conductor":
        conductor = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._say(conductor._answer("GET", self.path, self.headers["authorization"]))

            def do_POST(self) -> None:
                self._say(conductor._answer("POST", self.path, self.headers["authorization"]))

            def _say(self, told: Told) -> None:
                self.send_response(told.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(told.body)))
                self.send_header("location", f"{conductor.url}/elsewhere")
                self.end_headers()
                self.wfile.write(told.body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def settings(self, **more: str) -> dict[str, str]:
        """The environment of whoever asks it."""
        named = {"URL": self.url, "TOKEN": TOKEN, "POD": self.name}
        return {**{f"CHAT_CONDUCTOR_{name}": value for name, value in named.items()}, **more}

    def ready(self, endpoint: str, since: str = PAST) -> None:
        self.pod = {"state": "running", "endpoint": endpoint, "readySince": since}

    def stop(self) -> None:
        self.pod = {"state": "stopped", "endpoint": None, "readySince": None}

    @property
    def starts(self) -> int:
        return sum(asked.startswith("POST ") for asked in self.asked)

    @property
    def looks(self) -> int:
        return sum(asked.startswith("GET ") for asked in self.asked)

    def _answer(self, method: str, path: str, authorization: str | None) -> Told:
        self.tokens.append(authorization)
        if authorization != f"Bearer {TOKEN}":
            return Told(401, b"{}")
        place = f"/pods/{self.name}"
        if (method, path) == ("GET", place):
            self.before_status()
            self.asked.append(f"{method} {path}")
            return self.told or Told(200, json.dumps(self.pod).encode())
        self.asked.append(f"{method} {path}")
        if (method, path) == ("POST", f"{place}/start"):
            if self.start_told is not None:
                return self.start_told
            self.pod = {"state": "starting", "endpoint": None, "readySince": None}
            return Told(202, b"{}")
        # Where its redirects lead, which nobody may follow.
        return Told(200, b'{"state": "stopped"}') if path == "/elsewhere" else Told(404, b"{}")
