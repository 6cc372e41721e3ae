"""The mini Runtime API, spoken to in bytes as a worker would."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from infra.local.answers import Prelude
from infra.local.invocation import Call, Fault, FunctionFaultError, Invocation
from infra.local.runtime_api import RuntimeApi

NEXT = b"GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: x\r\n\r\n"
STREAMED = (
    b"POST /2018-06-01/runtime/invocation/r1/response HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    b"Content-Type: application/vnd.awslambda.http-integration-response\r\n\r\n"
)
PRELUDE = b'{"statusCode":201,"headers":{"X-A":"1"},"cookies":["c=1","d=2"]}' + b"\0" * 8


class Worker:
    """A worker's connections to the API under test, and what the API reported of it."""

    def __init__(self, address: str) -> None:
        self._host, _, self._port = address.partition(":")
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._host, int(self._port))
        self._writers.append(writer)
        return reader, writer

    async def post(self, path: str, body: bytes, content_type: str = "application/json") -> bytes:
        """The status line of the answer."""
        reader, writer = await self.connect()
        head = f"POST /2018-06-01/runtime/{path} HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return await reader.readline()

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
            await writer.wait_closed()


class Rig:
    def __init__(self) -> None:
        self.waiting = asyncio.Event()
        self.gone = asyncio.Event()
        self.api = RuntimeApi(on_waiting=self.waiting.set, on_gone=self.gone.set)
        self.invocation = Invocation(Call("r1", b'{"a": 1}', 4102444800000, "arn:f"))
        self.worker: Worker

    async def started_call(self) -> asyncio.StreamReader:
        """A worker that has just got the call."""
        reader, writer = await self.worker.connect()
        writer.write(NEXT)
        await self.waiting.wait()
        self.api.hand_over(self.invocation)
        return reader


@asynccontextmanager
async def running_rig() -> AsyncIterator[Rig]:
    rig = Rig()
    rig.worker = Worker(await rig.api.start())
    try:
        async with asyncio.timeout(60):
            yield rig
    finally:
        rig.api.close()
        await rig.worker.close()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def test_a_waiting_worker_gets_the_event_with_its_headers() -> None:
    async with running_rig() as rig:
        reader = await rig.started_call()
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 200")
        assert b"lambda-runtime-aws-request-id: r1\r\n" in head
        assert b"lambda-runtime-deadline-ms: 4102444800000\r\n" in head
        assert await reader.readexactly(8) == b'{"a": 1}'


async def test_a_worker_that_dies_while_it_waits_is_noticed() -> None:
    async with running_rig() as rig:
        _, writer = await rig.worker.connect()
        writer.write(NEXT)
        await rig.waiting.wait()
        writer.close()
        await rig.gone.wait()


async def test_a_worker_that_is_gone_gets_no_call() -> None:
    async with running_rig() as rig:
        _, writer = await rig.worker.connect()
        writer.write(NEXT)
        await rig.waiting.wait()
        writer.close()
        await rig.gone.wait()
        with pytest.raises(RuntimeError):
            rig.api.hand_over(rig.invocation)


async def test_a_streamed_answer_arrives_piece_by_piece() -> None:
    async with running_rig() as rig:
        await rig.started_call()
        reader, writer = await rig.worker.connect()
        writer.write(STREAMED + chunk(PRELUDE[:20]) + chunk(PRELUDE[20:]))
        headers = (("x-a", "1"), ("set-cookie", "c=1"), ("set-cookie", "d=2"))
        assert await rig.invocation.prelude() == Prelude(201, headers)
        pieces = rig.invocation.chunks()
        writer.write(chunk(b"one"))
        assert await anext(pieces) == b"one"
        writer.write(chunk(b"two") + b"0\r\n\r\n")
        assert [piece async for piece in pieces] == [b"two"]
        assert (await reader.readline()).startswith(b"HTTP/1.1 202")


async def test_error_trailers_cut_the_answer_after_what_came() -> None:
    async with running_rig() as rig:
        await rig.started_call()
        _, writer = await rig.worker.connect()
        trailers = b"Lambda-Runtime-Function-Error-Type: Function.ValueError\r\n"
        writer.write(STREAMED + chunk(PRELUDE + b"shown") + b"0\r\n" + trailers + b"\r\n")
        await rig.invocation.prelude()
        pieces = rig.invocation.chunks()
        assert await anext(pieces) == b"shown"
        with pytest.raises(FunctionFaultError):
            await anext(pieces)


async def test_a_stream_without_its_last_chunk_is_a_broken_one() -> None:
    async with running_rig() as rig:
        await rig.started_call()
        _, writer = await rig.worker.connect()
        writer.write(STREAMED + chunk(PRELUDE) + chunk(b"half"))
        writer.close()
        await rig.invocation.wait()
        assert rig.invocation.fault is Fault.BROKEN


@pytest.mark.parametrize(
    "body",
    [b"0\r\n\r\n", chunk(b"no delimiter") + b"0\r\n\r\n", chunk(b"{]" + b"\0" * 8), chunk(b"x" * 17_000)],
    ids=["empty", "no delimiter", "no JSON", "delimiter after 16 KB"],
)
async def test_a_stream_without_a_proper_prelude_is_malformed(body: bytes) -> None:
    async with running_rig() as rig:
        await rig.started_call()
        _, writer = await rig.worker.connect()
        writer.write(STREAMED + body)
        await rig.invocation.wait()
        assert rig.invocation.fault is Fault.MALFORMED


async def test_a_plain_proxy_answer_is_taken_too() -> None:
    async with running_rig() as rig:
        await rig.started_call()
        answer = {"statusCode": 200, "body": "AP8=", "isBase64Encoded": True}
        status = await rig.worker.post("invocation/r1/response", json.dumps(answer).encode())
        assert status.startswith(b"HTTP/1.1 202")
        assert (await rig.invocation.prelude()).status == 200
        assert [piece async for piece in rig.invocation.chunks()] == [b"\x00\xff"]


async def test_a_plain_answer_that_is_no_proxy_answer_is_malformed() -> None:
    async with running_rig() as rig:
        await rig.started_call()
        await rig.worker.post("invocation/r1/response", b'{"fired": 3}')
        assert rig.invocation.fault is Fault.MALFORMED


async def test_a_posted_error_fails_the_call() -> None:
    async with running_rig() as rig:
        await rig.started_call()
        assert (await rig.worker.post("invocation/r1/error", b"{}")).startswith(b"HTTP/1.1 202")
        assert rig.invocation.fault is Fault.FAILED


async def test_an_answer_to_another_call_is_refused() -> None:
    async with running_rig() as rig:
        await rig.started_call()
        assert (await rig.worker.post("invocation/r0/response", b"{}")).startswith(b"HTTP/1.1 400")
        assert not rig.invocation.over


async def test_an_error_while_loading_is_kept() -> None:
    async with running_rig() as rig:
        await rig.worker.post("init/error", b'{"errorMessage": "no module named x"}')
        assert rig.api.init_error == "no module named x"


async def test_an_unknown_address_is_not_found() -> None:
    async with running_rig() as rig:
        assert (await rig.worker.post("elsewhere", b"{}")).startswith(b"HTTP/1.1 404")


async def test_closing_fails_a_call_that_still_runs() -> None:
    async with running_rig() as rig:
        await rig.started_call()
        rig.api.close()
        assert rig.invocation.fault is Fault.DIED
