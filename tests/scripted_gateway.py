"""A gateway that says what a test tells it, byte for byte, over real HTTP on loopback.

It runs in a thread of its own, so that synchronous tests, asynchronous ones and other processes can ask it by `url`.
Replies are queued and given in order; with `respond` set, a function of the request's body makes each one. `verify`
fails on a request that nothing was queued for, and on a reply that nobody asked for.
"""

import asyncio
import json
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

EVENT_STREAM = "text/event-stream; charset=utf-8"
LONGEST_WAIT_S = 60.0


class Gate:
    """A place in a reply where the gateway waits until the test opens it."""

    def __init__(self) -> None:
        self.reached, self._open = threading.Event(), threading.Event()

    def open(self) -> None:
        self._open.set()

    async def passed(self) -> None:
        self.reached.set()
        while not self._open.is_set():  # noqa: ASYNC110 - set from another thread
            await asyncio.sleep(0.002)


Step = bytes | float | Gate


@dataclass(frozen=True)
class Reply:
    """`steps` are bytes to send (each in a write of its own), pauses in seconds, and gates; `before` come ahead of the
    head. `end`: `whole` ends the body properly and keeps the connection; `cut` closes the socket inside the body;
    `reset` does so with a TCP reset; `hold` leaves the socket open until the client closes it. `framing`: `chunked`, or
    `close` (the body ends with the connection).
    """

    steps: Sequence[Step] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    end: Literal["whole", "cut", "reset", "hold"] = "whole"
    framing: Literal["chunked", "close"] = "chunked"
    before: Sequence[Step] = ()


@dataclass
class Recorded:
    """A request. `closed` is set when the client closed the connection before the reply was over, after `sent` writes
    and at `closed_at` (monotonic seconds).
    """

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    sent: int = 0
    closed_at: float | None = None
    closed: threading.Event = field(default_factory=threading.Event)

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body["messages"]
        return messages

    def wait_closed(self) -> bool:
        return self.closed.wait(LONGEST_WAIT_S)


class ScriptedGateway:
    """Start it with `with`. `tls` is what it answers https with."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.requests: list[Recorded] = []
        self.respond: Callable[[Any], Reply] | None = None
        self.connections = 0
        self._replies: deque[Reply] = deque()
        self._unexpected: list[str] = []
        self._arrived = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scripted gateway", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> "ScriptedGateway":
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls), self._loop
        ).result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}/v1/chat/completions"

    def queue(self, *replies: Reply) -> None:
        self._replies.extend(replies)

    def wait_for_requests(self, count: int) -> None:
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= count, LONGEST_WAIT_S)

    def verify(self) -> None:
        assert not self._unexpected, f"requests that nothing was queued for: {self._unexpected}"
        assert not self._replies, f"{len(self._replies)} replies that nobody asked for"

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            first = b""
            while (request := await _request(reader, first)) is not None:
                reply = self._reply_to(request)
                first = await _answer(reader, writer, request, reply)
                if reply.end != "whole" or reply.framing == "close":
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    def _reply_to(self, request: Recorded) -> Reply:
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        if self._replies:
            return self._replies.popleft()
        if self.respond is not None:
            return self.respond(request.body)
        self._unexpected.append(f"{request.method} {request.path}")
        return error_reply(418, {"error": {"message": "nothing is queued"}})


async def _request(reader: asyncio.StreamReader, first: bytes) -> Recorded | None:
    head = first + await reader.readuntil(b"\r\n\r\n") if first or not reader.at_eof() else b""
    if not head:
        return None
    start, *lines = head.decode("latin-1").rstrip().split("\r\n")
    method, path, _ = start.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Recorded(method, path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Recorded, reply: Reply) -> bytes:
    """Plays the reply while watching for the client to leave; gives what was read ahead of the next request."""
    watch = asyncio.create_task(reader.read(1))
    play = asyncio.create_task(_play(writer, request, reply))
    try:
        await asyncio.wait({watch, play}, return_when=asyncio.FIRST_COMPLETED)
        if watch.done() and not play.done() and (watch.exception() or not watch.result()):
            request.closed_at = time.monotonic()
            request.closed.set()
            return b""
        await play
        if not watch.done():
            # A read that is cancelled has taken nothing.
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        return b"" if watch.cancelled() else watch.result()
    except ConnectionError:
        request.closed_at = time.monotonic()
        request.closed.set()
        raise
    finally:
        for task in (watch, play):
            task.cancel()
        await asyncio.gather(watch, play, return_exceptions=True)


async def _play(writer: asyncio.StreamWriter, request: Recorded, reply: Reply) -> None:
    chunked = reply.framing == "chunked"
    await _steps(writer, request, reply.before, chunked=False)
    framing = {"transfer-encoding": "chunked"} if chunked else {"connection": "close"}
    headers = {"content-type": EVENT_STREAM, **framing, **{k.lower(): v for k, v in reply.headers.items()}}
    lines = [f"HTTP/1.1 {reply.status} Said", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    writer.write("\r\n".join(lines).encode())
    await writer.drain()
    await _steps(writer, request, reply.steps, chunked=chunked)
    if reply.end == "whole" and chunked:
        writer.write(b"0\r\n\r\n")
        await writer.drain()
    elif reply.end == "hold":
        await asyncio.Event().wait()
    elif reply.end == "reset":
        held: socket.socket = writer.get_extra_info("socket")
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()


async def _steps(writer: asyncio.StreamWriter, request: Recorded, steps: Iterable[Step], *, chunked: bool) -> None:
    for step in steps:
        if isinstance(step, Gate):
            await step.passed()
        elif isinstance(step, int | float):
            await asyncio.sleep(step)
        elif step:
            writer.write(b"%x\r\n%b\r\n" % (len(step), step) if chunked else step)
            await writer.drain()
            request.sent += 1


# -- what gateways say


def event(payload: Any) -> bytes:
    """One server-sent event; characters are written as they are."""
    return f"data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode()


DONE = b"data: [DONE]\n\n"


def delta(finish: str | None = None, **said: Any) -> bytes:
    """One chunk of a stream: `delta(content="Hi")`, `delta("stop")`, `delta(tool_calls=[...])`."""
    choice = {"index": 0, "delta": said, "finish_reason": finish}
    return event({"id": "c", "object": "chat.completion.chunk", "model": "scripted-1", "choices": [choice]})


def usage(prompt: int = 5, completion: int = 2, **more: Any) -> bytes:
    """The chunk with token counts that comes after the finish reason, with empty choices."""
    return event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion, **more}})


def text_reply(text: str, *, pieces: int = 3, finish: str = "stop", counts: bytes | None = None) -> Reply:
    """A text, streamed in about as many pieces, with counts and `[DONE]`."""
    size = max(1, -(-len(text) // pieces))
    parts = [delta(content=text[at : at + size]) for at in range(0, len(text), size)]
    return Reply([delta(role="assistant", content=""), *parts, delta(finish), counts or usage(), DONE])


def call(name: str, arguments: Any, *, call_id: str = "c1", index: int = 0) -> dict[str, Any]:
    """One whole entry of `tool_calls`; arguments that are no string are written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def call_reply(*calls: dict[str, Any], text: str = "", finish: str = "tool_calls") -> Reply:
    """Tool calls, perhaps with a text before them; the arguments of each come in two pieces."""
    steps = [delta(role="assistant", content=text or None)]
    for index, whole in enumerate(calls):
        arguments = whole["function"]["arguments"]
        half = len(arguments) // 2
        head = {**whole, "index": index, "function": {**whole["function"], "arguments": arguments[:half]}}
        steps.append(delta(tool_calls=[head]))
        steps.append(delta(tool_calls=[{"index": index, "function": {"arguments": arguments[half:]}}]))
    return Reply([*steps, delta(finish), usage(), DONE])


def error_reply(status: int, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
    """A refusal in JSON."""
    said = {"error": {"message": "scripted", "type": "scripted"}} if body is None else body
    return Reply([json.dumps(said).encode()], status, {"content-type": "application/json", **(headers or {})})


def json_reply(message: Mapping[str, Any], *, finish: str = "stop", counts: Any = None) -> Reply:
    """A whole completion as one JSON object, whatever was asked for."""
    body = {"model": "scripted-1", "choices": [{"index": 0, "message": message, "finish_reason": finish}]}
    said = body if counts is None else {**body, "usage": counts}
    return Reply([json.dumps(said).encode()], headers={"content-type": "application/json"})


def page_reply(status: int = 200) -> Reply:
    """A page for people, as a wrong address or a proxy answers."""
    page = b"<!doctype html><html><title>Sign in</title><body>secret-page-text</body></html>"
    return Reply([page], status, {"content-type": "text/html"})
