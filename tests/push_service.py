"""A push service on loopback, with devices whose keys are real: what reaches it is decrypted, and the signature checked
as a real one would. It answers each device as it is told.
"""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import http_ece  # type: ignore[import-untyped]
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from py_vapid import jwt  # type: ignore[import-untyped]

from deckhand.domain.base64url import to_base64url
from deckhand.domain.subscription import Subscription

MAX_BODY = 4_096
"""What a push service has to take (RFC 8030, section 7.2)."""
DAY_S = 24 * 3600


@dataclass(frozen=True)
class Told:
    """How a device's next push is answered."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False


@dataclass(frozen=True)
class Received:
    """`headers` have lower-case names; `claims` are those of the signature."""

    headers: dict[str, str]
    body: bytes
    text: bytes
    claims: dict[str, Any]

    @property
    def content(self) -> Any:
        return json.loads(self.text)


class Device:
    """A browser's push subscription: its keys, and what it got."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._secret = bytes(range(16))
        self.answers: list[Told] = []
        self.received: list[Received] = []

    @property
    def keys(self) -> dict[str, str]:
        encoding, form = serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        return {
            "p256dh": to_base64url(self._key.public_key().public_bytes(encoding, form)),
            "auth": to_base64url(self._secret),
        }

    @property
    def body(self) -> dict[str, Any]:
        """As `POST /api/push/subscribe` takes it."""
        return {"endpoint": self.endpoint, "keys": self.keys}

    @property
    def subscription(self) -> Subscription:
        instant = "2026-04-20T08:00:00.000Z"
        return Subscription(endpoint=self.endpoint, **self.keys, created_at=instant, seen_at=instant)

    def told(self, *statuses: int | Told) -> "Device":
        """How the next pushes are answered; after them all are taken."""
        self.answers += [one if isinstance(one, Told) else Told(one) for one in statuses]
        return self

    def decrypt(self, body: bytes) -> bytes:
        text: bytes = http_ece.decrypt(body, private_key=self._key, auth_secret=self._secret, version="aes128gcm")
        return text

    @property
    def titles(self) -> list[str]:
        return [one.content["notification"]["title"] for one in self.received]


class PushService:
    """`now` gives the epoch seconds by which signatures are judged. A context manager; hanging answers end with it."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._devices: dict[str, Device] = {}
        self._released = threading.Event()
        self.faults: list[str] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                service._take(self)

            def log_message(self, *_: object) -> None:
                """Nothing on the terminal."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> "PushService":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        self._released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        if kind is None:
            assert self.faults == [], self.faults

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def device(self, name: str, *statuses: int | Told) -> Device:
        made = self._devices[f"/push/{name}"] = Device(f"{self.url}/push/{name}")
        return made.told(*statuses)

    def _take(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        device = self._devices.get(request.path)
        if device is None:
            self.faults.append(f"a push to {request.path}, which no device has")
            return self._answer(request, Told(404))
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            device.received.append(Received(headers, body, device.decrypt(body), self._claims(headers)))
        except Exception as fault:  # whatever is wrong with it, the test must hear of it
            self.faults.append(f"a push that cannot be read: {fault!r}")
            return self._answer(request, Told(400))
        told = device.answers.pop(0) if device.answers else Told(201)
        if told.hang:
            self._released.wait()
            request.close_connection = True
            return None
        if len(body) > MAX_BODY and told.status == 201:
            told = Told(413)
        return self._answer(request, told)

    def _claims(self, headers: dict[str, str]) -> dict[str, Any]:
        """Of a signature that holds for this service, now (RFC 8292)."""
        scheme, _, rest = headers["authorization"].partition(" ")
        parts = dict(part.strip().split("=", 1) for part in rest.split(","))
        claims: dict[str, Any] = jwt.decode(parts["t"], parts["k"])
        audience = urlsplit(claims["aud"])
        assert scheme == "vapid"
        assert headers["host"] == audience.netloc
        assert self._now() < claims["exp"] <= self._now() + DAY_S
        return claims

    @staticmethod
    def _answer(request: BaseHTTPRequestHandler, told: Told) -> None:
        request.send_response(told.status)
        for name, value in {"Content-Length": "0", **told.headers}.items():
            request.send_header(name, value)
        request.end_headers()
