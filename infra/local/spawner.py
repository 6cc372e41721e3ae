"""The front's end of a zygote: starts it, asks it for workers, hears of their end."""

import asyncio
import json
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.local.template import Function

END_SECONDS = 2.0


class StartError(Exception):
    """A function's code cannot be started; the sentence says which and why."""


@dataclass(frozen=True)
class Program:
    """What a zygote runs. `log` is a descriptor for all output; `preloads` are modules that handlers import late."""

    function: Function
    environment: Mapping[str, str]
    log: int
    preloads: Sequence[str] = ()


class Spawner:
    """Workers of one function. `on_ended` gets the worker's number and exit status, negative for a signal."""

    def __init__(self, program: Program, *, on_ended: Callable[[int, int], None]) -> None:
        self._program = program
        self._on_ended = on_ended
        self._alive: set[int] = set()
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._ending = False

    async def fork(self, worker: int, address: str) -> None:
        """Start a worker for the Runtime API at `address`. A zygote that is gone is started anew. Raises StartError."""
        async with self._starting:
            if self._listening is None or self._listening.done():
                await self._start()
        self._alive.add(worker)
        self._order({"fork": worker, "address": address})

    def kill(self, worker: int) -> None:
        """End a worker at once; `on_ended` follows."""
        if worker in self._alive:
            self._order({"kill": worker})

    async def close(self) -> None:
        """End the zygote, and with it every worker."""
        self._ending = True
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write_eof()  # not close(): it would look as if the zygote had gone first
        if self._process is not None:
            try:
                await asyncio.wait_for(self._process.wait(), END_SECONDS)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        if self._listening is not None:
            await asyncio.wait({self._listening})

    async def _start(self) -> None:
        function = self._program.function
        ours, theirs = socket.socketpair()
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-P", "-m", "infra.local.zygote", str(theirs.fileno()), function.handler, *self._program.preloads),
                cwd=function.code,
                env=dict(self._program.environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=self._program.log,
                stderr=self._program.log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C in a terminal is the front's to handle
            )
        except OSError as error:
            ours.close()
            raise StartError(f"{function.name} cannot be started: {error.strerror}") from error
        finally:
            theirs.close()
        reader, self._writer = await asyncio.open_connection(sock=ours)
        first = await reader.readline()
        message: dict[str, Any] = json.loads(first) if first else {"failed": "it ended while starting"}
        if "failed" in message:
            self._writer.close()
            await self._process.wait()
            raise StartError(f"{function.name} cannot be started: {message['failed']}")
        self._listening = asyncio.create_task(self._listen(reader, self._writer))

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if "ended" in message:
                    self._ended(message["ended"], message["status"])
        except ConnectionError:
            pass
        writer.close()
        # Without the zygote its workers end themselves.
        for worker in tuple(self._alive):
            self._ended(worker, -9)

    def _ended(self, worker: int, status: int) -> None:
        self._alive.discard(worker)
        self._on_ended(worker, status)

    def _order(self, order: dict[str, Any]) -> None:
        if self._writer is not None and not self._ending:
            self._writer.write(json.dumps(order).encode() + b"\n")
