"""A gateway for measuring: it streams as many tokens as the last message asks for, each with the instant of its making.

The message: `tokens=<count> pause=<milliseconds>`. Run as a process of its own, so that it disturbs nobody.
"""

import asyncio
import json
import os
import re
import sys
import threading
import time
from typing import Any


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
            body = json.loads(await reader.readexactly(int(length[1]) if length else 0))
            await _stream(writer, *_wish(body))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _wish(body: dict[str, Any]) -> tuple[int, float]:
    last = json.dumps(body["messages"][-1])
    found = re.search(r"tokens=(\d+) pause=([\d.]+)", last)
    return (int(found[1]), float(found[2]) / 1000) if found and body.get("tools") else (1, 0.0)


async def _stream(writer: asyncio.StreamWriter, count: int, pause: float) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    began = time.monotonic()
    for number in range(count):
        _event(writer, {"choices": [{"index": 0, "delta": {"content": f"{time.time():.6f} "}}]})
        if pause or number % 50 == 49:
            await writer.drain()
        if pause:
            await asyncio.sleep(max(0.0, began + (number + 1) * pause - time.monotonic()))
    usage = {"prompt_tokens": 10, "completion_tokens": count}
    _event(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
    _chunk(writer, b"data: [DONE]\n\n")
    writer.write(b"0\r\n\r\n")
    await writer.drain()


def _event(writer: asyncio.StreamWriter, data: dict[str, Any]) -> None:
    _chunk(writer, f"data: {json.dumps(data)}\n\n".encode())


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


async def main() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    threading.Thread(target=_end_with_input, daemon=True).start()
    async with server:
        await server.serve_forever()


def _end_with_input() -> None:
    """Whoever started this process is gone when its input ends."""
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(0)
