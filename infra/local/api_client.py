"""The HTTP API as a program uses it: start a turn, follow it to its end whatever the connection does, stop it."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx2

from infra.local.sse_client import EventReader, Message

RECONNECT_SECONDS = 0.5
RECONNECTS = 60
SILENCE_SECONDS = 45.0
"""Three heartbeats: a stream that says nothing for longer is dead."""


class ApiError(Exception):
    """What the server refused, or why it cannot be reached, in one sentence. `code` and `details` are the server's."""

    def __init__(self, sentence: str, code: str = "unreachable", details: dict[str, Any] | None = None) -> None:
        super().__init__(sentence)
        self.code, self.details = code, details or {}


class Api:
    """One server and one token. Blocking."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token
        self._http = httpx2.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx2.Timeout(30.0, read=SILENCE_SECONDS),
            trust_env=False,
        )

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON answer. Raises `ApiError`."""
        try:
            response = self._http.request(method, path, json=body)
        except httpx2.TransportError:
            raise ApiError(f"Nothing answers at {self.url}. Is it running? (python3 infra/dev.py up)") from None
        if response.is_error:
            raise _refusal(response.status_code, response.content)
        return response.json() if response.content else None

    def turn(self, conversation: str, text: str) -> Iterator[Message]:
        """Starts a turn and gives its events until `done`; a connection that breaks is taken up where it broke."""
        body = {"conversationId": conversation, "stream": True, "messages": [{"role": "user", "content": text}]}
        yield from self._follow(conversation, self._events("POST", "/api/chat", body))

    def reattach(self, conversation: str, after: int = 0) -> Iterator[Message]:
        """The events after an id, until `done`; nothing when there is no turn to tell of."""
        yield from self._follow(conversation, self._events("GET", f"/api/chat/turn/{conversation}", after=after))

    def stop(self, conversation: str) -> None:
        try:
            self.call("DELETE", f"/api/chat/turn/{conversation}")
        except ApiError as refused:
            if refused.code != "no_turn_running":
                raise

    def _follow(self, conversation: str, events: Iterator[Message]) -> Iterator[Message]:
        last = 0
        for attempt in range(RECONNECTS):
            begun = False
            try:
                for message in events:
                    begun = True
                    last = message.id or last
                    yield message
                    if message.event == "done":
                        return
                if attempt and not begun:
                    return  # nothing more to tell: what there is stands in the conversation
            except httpx2.TransportError:
                if attempt == 0 and not begun and last == 0:
                    raise ApiError(f"Nothing answers at {self.url}. Is it running? (python3 infra/dev.py up)") from None
                time.sleep(RECONNECT_SECONDS)
            events = self._events("GET", f"/api/chat/turn/{conversation}", after=last)
        raise ApiError("The connection was lost and does not come back. The answer goes on on the server.")

    def _events(self, method: str, path: str, body: Any = None, *, after: int = 0) -> Iterator[Message]:
        headers = {"Last-Event-ID": str(after)} if after else {}
        with self._http.stream(method, path, json=body, headers=headers) as response:
            if response.is_error:
                raise _refusal(response.status_code, response.read())
            if response.status_code == httpx2.codes.NO_CONTENT:
                return
            reader = EventReader()
            for chunk in response.iter_bytes():
                yield from reader.feed(chunk)


def _refusal(status: int, content: bytes) -> ApiError:
    try:
        told = json.loads(content)
        return ApiError(str(told["error"]), str(told["code"]), told)
    except (ValueError, KeyError, TypeError):
        return ApiError(f"The server answered {status}.", "unreadable")
