"""A Runtime API that records what a runtime sends, byte for byte, without a library that could hide something."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any

WAIT_SECONDS = 60
"""Ends a test that hangs; no test waits that long."""


@dataclass
class Post:
    """A request with a body. `body` grows while the request comes in."""

    path: str
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)
    over: bool = False
    news: threading.Condition = field(default_factory=threading.Condition)

    def wait_for(self, part: bytes) -> None:
        with self.news:
            assert self.news.wait_for(lambda: part in self.body or self.over, WAIT_SECONDS)
        assert part in self.body

    def wait(self) -> "Post":
        with self.news:
            assert self.news.wait_for(lambda: self.over, WAIT_SECONDS)
        return self

    def chunks(self) -> list[bytes]:
        """The chunks of a chunked body, the last (empty) one and trailers left out."""
        rest, found = bytes(self.body), []
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            if (length := int(size, 16)) == 0:
                break
            found.append(rest[:length])
            assert rest[length : length + 2] == b"\r\n"
            rest = rest[length + 2 :]
        return found

    def trailers(self) -> dict[str, str]:
        lines = bytes(self.body).rpartition(b"\r\n0\r\n")[2].decode().splitlines()
        return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}


class RawRuntimeApi:
    """Hands out queued events and records posts. It hangs up once a body holds the bytes of `hang_up_at`."""

    def __init__(self) -> None:
        self.hang_up_at: bytes | None = None
        self.posts: Queue[Post] = Queue()
        self._events: Queue[bytes | None] = Queue()
        self._count = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def give(self, event: Any, *, invocation_id: str | None = None) -> None:
        self._count += 1
        body = json.dumps(event).encode()
        head = [
            "HTTP/1.1 200 OK",
            f"Lambda-Runtime-Aws-Request-Id: request-{self._count}",
            "Lambda-Runtime-Deadline-Ms: 4102444800000",
            "Lambda-Runtime-Invoked-Function-Arn: arn:aws:lambda:us-east-1:000000000000:function:f",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        if invocation_id is not None:
            head.append(f"Lambda-Runtime-Invocation-Id: {invocation_id}")
        self._events.put("\r\n".join(head).encode() + b"\r\n\r\n" + body)

    def next_post(self) -> Post:
        return self.posts.get(timeout=WAIT_SECONDS)

    def close(self) -> None:
        self._events.put(None)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(WAIT_SECONDS)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        received = b""
        with connection:
            while True:
                while b"\r\n\r\n" not in received:
                    if not (data := _receive(connection)):
                        return
                    received += data
                head, _, received = received.partition(b"\r\n\r\n")
                request, *lines = head.decode().split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                if request.startswith("GET"):
                    answer = self._events.get()
                    if answer is None:
                        return
                else:
                    received = self._record(connection, Post(request.split(" ")[1], headers), received)
                    answer = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
                try:
                    connection.sendall(answer)
                except OSError:
                    return

    def _record(self, connection: socket.socket, post: Post, received: bytes) -> bytes:
        self.posts.put(post)
        length = int(post.headers["content-length"]) if "content-length" in post.headers else None
        while True:
            with post.news:
                post.body += received
                post.news.notify_all()
                whole = len(post.body) >= length if length is not None else _ends(post.body)
                cut = self.hang_up_at is not None and self.hang_up_at in post.body
            if cut:
                connection.close()
            received = b"" if whole or cut else _receive(connection)
            with post.news:
                post.over = not received
                post.news.notify_all()
            if post.over:
                return b""


def _ends(body: bytearray) -> bool:
    return body.endswith(b"\r\n\r\n") and (b"\r\n0\r\n" in body or body.startswith(b"0\r\n"))


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except OSError:
        return b""


@contextmanager
def runtime(folder: Path, *, command: list[str] | None = None, **variables: str) -> Iterator[RawRuntimeApi]:
    """A runtime process that serves `handler.handler` of `folder`."""
    api = RawRuntimeApi()
    environment = {
        "PATH": os.environ["PATH"],
        "AWS_LAMBDA_RUNTIME_API": api.address,
        "LAMBDA_TASK_ROOT": str(folder),
        "_HANDLER": "handler.handler",
        **variables,
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command or [sys.executable, "-m", "deckhand.edge.runtime", "handler.handler"],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield api
    finally:
        process.kill()
        process.wait()
        api.close()
