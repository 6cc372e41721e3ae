"""The HTTP API as a program uses it: start a turn, follow it to its end whatever the connection does, stop it, decide
what it waits for.
"""

import contextlib
import json
import ssl
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal
from urllib.parse import quote

import httpx2

from infra.local.command_error import CommandError
from infra.local.sse_client import EventReader, MalformedEventError, Message

RECONNECT_SECONDS = 0.5
RECONNECTS = 60
"""In a row; as long as events come, a connection may break any number of times."""
NO_ANSWER = "The server does not answer. Once it runs again, deckhand chat --continue shows the rest."
SILENCE_SECONDS = 45.0
"""Three heartbeats: a stream that says nothing for longer is dead."""
Decision = Literal["confirm", "reject"]
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class ApiError(CommandError):
    """What the server refused, or why it cannot be reached, in one sentence. `code` is the server's, `status` too, and
    `outcome` is what became of a proposal that was decided before.
    """

    def __init__(self, sentence: str, code: str = "unreachable", status: int = 0, outcome: str = "") -> None:
        super().__init__(sentence)
        self.code, self.status, self.outcome = code, status, outcome


class ConnectionLostError(ApiError):
    """Nothing came, or not all; the server may have got the request."""


class Api:
    """One server and one token. Blocking; threads may share it."""

    def __init__(self, url: str, token: str) -> None:
        """Raises ApiError for an address or a token that cannot be one."""
        self.url = url
        self._http = http_client(url, "Authorization", "Bearer ", token, patience=SILENCE_SECONDS)

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON answer. Raises ApiError."""
        with self._exchange(method, path, body) as response:
            content = response.read()
        try:
            return json.loads(content) if content else None
        except ValueError:
            raise self._stranger() from None

    def turn(self, conversation: str, text: str) -> Iterator[Message]:
        """Starts a turn and gives its events until `done`; a connection that breaks is taken up where it broke.

        Ends without `done` when the server has nothing more to tell: the answer is in the conversation then.
        """
        body = {"conversationId": conversation, "stream": True, "messages": [{"role": "user", "content": text}]}
        # Under the same key a repeated request joins the turn that the first one may have started.
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        return self._follow(conversation, lambda: self._exchange("POST", "/api/chat", body, headers))

    def reattach(self, conversation: str, after: int = 0) -> Iterator[Message]:
        """The events after an id, until `done`; nothing when there is no turn to tell of."""
        return self._follow(conversation, lambda: self._attach(conversation, after))

    def proposals(self, conversation: str) -> list[dict[str, Any]]:
        """Those that wait in a conversation, oldest first. Raises ApiError."""
        path = f"/api/chat/proposals?conversationId={quote(conversation, safe='')}"
        found: list[dict[str, Any]] = self.call("GET", path)["proposals"]
        return found

    def decide(self, proposal: str, verdict: Decision, more: Mapping[str, Any] | None = None) -> Iterator[Message]:
        """The turn that goes on, as `turn` gives it; or one event `decided` with the answer, where none does.

        `more`: `arguments` to run instead, or a `reason`. What was asked for is done at most once: after a connection
        that broke, the same request is sent under the same key. Raises ApiError.
        """
        path = f"/api/chat/proposals/{quote(proposal, safe='')}/{verdict}"
        body, headers = {**(more or {}), "stream": True}, {"Idempotency-Key": uuid.uuid4().hex}
        exchange = partial(self._exchange, "POST", path, body, headers)
        return self._follow(conversation_of(proposal), exchange, may_end=True)

    def stop(self, conversation: str) -> bool:
        """Whether there was a turn to stop."""
        try:
            self.call("DELETE", f"/api/chat/turn/{quote(conversation, safe='')}")
        except ApiError as refused:
            if refused.code == "no_turn_running":
                return False
            raise
        return True

    def _follow(
        self,
        conversation: str,
        begin: "Callable[[], contextlib.AbstractContextManager[httpx2.Response]]",
        *,
        may_end: bool = False,
    ) -> Iterator[Message]:
        """`may_end`: there may be no turn to follow, and a plain answer instead."""
        last, lost = 0, 0
        while True:
            try:
                with self._attach(conversation, last) if last else begin() as response:
                    if response.status_code == httpx2.codes.NO_CONTENT:
                        return
                    if may_end and response.headers.get("content-type", "").startswith("application/json"):
                        yield self._decided(response.read())
                        return
                    for message in self._messages(response):
                        last, lost = message.id or last, 0
                        yield message
                        if message.event == "done":
                            return
            except ApiError as failed:
                self._raise_unless_passing(failed, again=last > 0 or lost > 0)
            lost += 1
            if lost > RECONNECTS:
                raise ApiError(NO_ANSWER)
            time.sleep(RECONNECT_SECONDS)

    def _raise_unless_passing(self, failed: ApiError, *, again: bool) -> None:
        """A server that is being started anew refuses connections, or fails for a moment."""
        cut = isinstance(failed, ConnectionLostError) and failed.code != "unreachable"
        if again and failed.outcome == "executing":
            return  # what the first request began, and was cut off from
        if not cut and not (again and (isinstance(failed, ConnectionLostError) or failed.status >= 500)):
            raise failed

    def _attach(self, conversation: str, after: int) -> "contextlib.AbstractContextManager[httpx2.Response]":
        headers = {"Last-Event-ID": str(after)} if after else {}
        return self._exchange("GET", f"/api/chat/turn/{quote(conversation, safe='')}", headers=headers)

    @contextlib.contextmanager
    def _exchange(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Iterator[httpx2.Response]:
        """An answer that is no refusal, its body still to be read. Raises ApiError, in the block too."""
        try:
            with self._http.stream(method, path, json=body, headers=headers) as response:
                if response.is_error:
                    raise refusal(response.status_code, response.read())
                if response.is_redirect:
                    raise self._stranger()
                yield response
        except httpx2.ConnectError as failed:
            raise ConnectionLostError(self._why(failed)) from None
        except httpx2.RequestError:
            raise ConnectionLostError(f"The connection to {self.url} broke off.", "cut") from None

    def _messages(self, response: httpx2.Response) -> Iterator[Message]:
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            raise self._stranger()
        reader = EventReader()
        try:
            for chunk in response.iter_bytes():
                yield from reader.feed(chunk)
        except MalformedEventError:
            raise self._stranger() from None

    def _decided(self, content: bytes) -> Message:
        try:
            told = json.loads(content)
        except ValueError:
            told = None
        if not isinstance(told, dict) or "status" not in told:
            raise self._stranger()
        return Message(None, "decided", told)

    def _why(self, failed: Exception) -> str:
        cause: BaseException | None = failed
        while cause is not None:
            if isinstance(cause, ssl.SSLCertVerificationError):
                return f"The certificate of {self.url} cannot be trusted."
            cause = cause.__cause__ or cause.__context__
        return f"Nothing answers at {self.url}. Is it running? (python3 infra/dev.py up)"

    def _stranger(self) -> ApiError:
        return ApiError(f"What answers at {self.url} is not Deckhand.", "stranger")


def conversation_of(proposal: str) -> str:
    """A proposal's id begins with the conversation that it belongs to; empty where it belongs to none."""
    place = proposal.rpartition(".")[0]
    return "" if place == "none" else place


def http_client(url: str, header: str, scheme: str, token: str, *, patience: float) -> httpx2.Client:
    """A client that shows the token in each request. `patience` in seconds, for an answer. Raises ApiError for an
    address or a token that cannot be one.
    """
    if not (token.isascii() and token.isprintable() and token):
        raise ApiError("The token holds characters that no token has.", "bad_token")
    return httpx2.Client(
        base_url=url,
        headers={header: f"{scheme}{token}"},
        timeout=httpx2.Timeout(30.0, read=patience),
        trust_env=host_of(url) not in LOOPBACK,  # a proxy is never between us and ourselves
    )


def host_of(url: str) -> str:
    """Raises ApiError for what is no address."""
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL:
        parts = httpx2.URL()
    if parts.scheme not in ("http", "https") or not parts.host:
        raise ApiError(f"{url} is not an address; it looks like http://127.0.0.1:8787.", "bad_address")
    return parts.host


def refusal(status: int, content: bytes) -> ApiError:
    """What an answer that is no success says."""
    try:
        told = json.loads(content)
        sentence, code = str(told["error"]), str(told["code"])
    except (ValueError, KeyError, TypeError):
        return ApiError(f"The server answered {status}.", "unreadable", status)
    if code == "unauthenticated":
        sentence = "The token is not accepted (--token, DECKHAND_TOKEN, AGENT_API_TOKEN, or the data folder's)."
    outcome = str(told.get("outcome") or "")
    more = [_faults(told.get("errors")), f"Outcome: {outcome}." if outcome else ""]
    return ApiError(" ".join([sentence, *more]), code, status, outcome)


def _faults(errors: object) -> str:
    named = [one for one in errors if isinstance(one, dict)] if isinstance(errors, list) else []
    return "; ".join(f"{one.get('path')}: {one.get('message')}" for one in named)
