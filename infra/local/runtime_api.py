"""A small Lambda Runtime API for one worker: what it asks is answered here, byte for byte as the platform would.

Each worker has a listener of its own, as each Lambda environment has; so a connection tells whose it is.
ASGI hides request trailers, which carry the error of a broken stream, hence plain asyncio with h11.
Protocol: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import h11

from infra.local.answers import MalformedAnswerError, Prelude, PreludeReader, parse_plain
from infra.local.invocation import Call, Fault, Invocation

HTTP_INTEGRATION = b"application/vnd.awslambda.http-integration-response"
READ_BYTES = 64 * 1024
TRAILER_LIMIT_BYTES = 1024 * 1024
INVOCATION = re.compile(r"/2018-06-01/runtime/invocation/([^/]+)/(response|error)")


class Channel:
    """One connection from a worker: requests in, short answers out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=TRAILER_LIMIT_BYTES)
        self.trailers: dict[bytes, bytes] = {}

    async def request(self) -> h11.Request | None:
        """The next request's head, or None when the worker closed."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        if self._http.our_state is not h11.IDLE:
            return None
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(READ_BYTES))
        return event if isinstance(event, h11.Request) else None

    async def body(self) -> AsyncIterator[bytes]:
        """The request's body; chunks that have arrived come as one. Raises h11.RemoteProtocolError if it breaks off."""
        arrived = bytearray()
        while self._http.their_state is h11.SEND_BODY:
            event = self._http.next_event()
            if isinstance(event, h11.Data):
                arrived += event.data
                continue
            if arrived:
                yield bytes(arrived)
                arrived.clear()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(READ_BYTES))
            elif isinstance(event, h11.EndOfMessage):
                self.trailers = dict(event.headers)

    async def hang_up(self) -> None:
        """Returns when the worker closes the connection while it waits for an answer."""
        await self._reader.read(1)

    def answer(self, status: int, body: bytes = b"", headers: list[tuple[str, str]] | None = None) -> None:
        fields = [*(headers or []), ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        events = (h11.Response(status_code=status, headers=fields), h11.Data(data=body), h11.EndOfMessage())
        self._writer.write(b"".join([self._http.send(event) or b"" for event in events]))

    def close(self) -> None:
        self._writer.close()


class RuntimeApi:
    """The API of one worker.

    `on_waiting` is called each time the worker asks for work, `on_gone` when it hangs up while it waits.
    """

    def __init__(self, *, on_waiting: Callable[[], None], on_gone: Callable[[], None]) -> None:
        self._on_waiting = on_waiting
        self._on_gone = on_gone
        self._server: asyncio.Server | None = None
        self._work: asyncio.Future[Invocation] | None = None
        self._current: Invocation | None = None
        self._channels: set[Channel] = set()
        self.init_error: str | None = None

    async def start(self) -> str:
        """Listens on loopback; returns the address for `AWS_LAMBDA_RUNTIME_API`."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return f"{host}:{port}"

    def hand_over(self, invocation: Invocation) -> None:
        """Gives the waiting worker its next call."""
        if self._work is None or self._work.done():
            raise RuntimeError("the worker is not waiting")
        self._current = invocation
        self._work.set_result(invocation)

    def close(self, fault: Fault = Fault.DIED) -> None:
        """Ends the listener and its connections; a call that is still running fails with `fault`."""
        if self._server is not None:
            self._server.close()
        for channel in tuple(self._channels):
            channel.close()
        if self._current is not None:
            self._current.fail(fault)
            self._current = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        self._channels.add(channel)
        try:
            while (request := await channel.request()) is not None:
                await self._route(channel, request)
        except (ConnectionError, h11.RemoteProtocolError, h11.LocalProtocolError):
            pass  # whoever waits for the answer has been told, or will be when the process ends
        finally:
            self._channels.discard(channel)
            channel.close()

    async def _route(self, channel: Channel, request: h11.Request) -> None:
        target = request.target.decode("ascii")
        if request.method == b"GET" and target == "/2018-06-01/runtime/invocation/next":
            async for _ in channel.body():
                pass
            await self._next(channel)
        elif request.method == b"POST" and target == "/2018-06-01/runtime/init/error":
            self.init_error = _init_error(b"".join([part async for part in channel.body()]))
            channel.answer(202)
        elif request.method == b"POST" and (match := INVOCATION.fullmatch(target)):
            await self._result(channel, request, request_id=match[1], failed=match[2] == "error")
        else:
            async for _ in channel.body():
                pass
            channel.answer(404)

    async def _next(self, channel: Channel) -> None:
        self._work = asyncio.get_running_loop().create_future()
        gone = asyncio.create_task(channel.hang_up())
        try:
            self._on_waiting()
            awaited: set[asyncio.Future[Any]] = {self._work, gone}
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            if self._work.done():
                channel.answer(200, self._work.result().call.payload, _call_headers(self._work.result().call))
            else:
                self._work.cancel()
                self._on_gone()
        finally:
            gone.cancel()
            await asyncio.wait({gone})  # two readers at once are an error

    async def _result(self, channel: Channel, request: h11.Request, *, request_id: str, failed: bool) -> None:
        invocation = self._current
        if invocation is None or invocation.call.request_id != request_id:
            async for _ in channel.body():
                pass
            channel.answer(400, b'{"errorType": "InvalidRequestID"}')
            return
        try:
            await _take_error(channel, invocation) if failed else await _take_answer(channel, request, invocation)
        except MalformedAnswerError:
            invocation.fail(Fault.MALFORMED)
            async for _ in channel.body():
                pass
        except (ConnectionError, h11.RemoteProtocolError):
            invocation.fail(Fault.BROKEN)
            raise
        finally:
            self._current = None
        channel.answer(202, b'{"status": "OK"}')


async def _take_error(channel: Channel, invocation: Invocation) -> None:
    async for _ in channel.body():
        pass  # the worker has logged it; its text is not for callers
    invocation.fail(Fault.FAILED)


async def _take_answer(channel: Channel, request: h11.Request, invocation: Invocation) -> None:
    headers = dict(request.headers)
    if headers.get(b"content-type") == HTTP_INTEGRATION:
        await _take_stream(channel, invocation)
    else:
        raw = b"".join([part async for part in channel.body()])
        prelude, body = parse_plain(raw) if invocation.call.proxy else (Prelude(200), raw)
        invocation.begin(prelude)
        invocation.feed(body)
        invocation.finish()


async def _take_stream(channel: Channel, invocation: Invocation) -> None:
    reader = PreludeReader()
    begun = False
    async for part in channel.body():
        body = reader.feed(part)
        if reader.prelude is not None and not begun:
            invocation.begin(reader.prelude)
            begun = True
        invocation.feed(body)
    if b"lambda-runtime-function-error-type" in channel.trailers:
        invocation.fail(Fault.BROKEN)
    elif not begun:
        raise MalformedAnswerError("the answer ended before its delimiter")
    else:
        invocation.finish()


def _call_headers(call: Call) -> list[tuple[str, str]]:
    return [
        ("Lambda-Runtime-Aws-Request-Id", call.request_id),
        ("Lambda-Runtime-Deadline-Ms", str(call.deadline_ms)),
        ("Lambda-Runtime-Invoked-Function-Arn", call.function_arn),
        ("Lambda-Runtime-Invocation-Id", call.request_id),
    ]


def _init_error(raw: bytes) -> str:
    try:
        return str(json.loads(raw)["errorMessage"])
    except (ValueError, KeyError, TypeError):
        return "unknown"
