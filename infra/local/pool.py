"""Calls of one function, handed to its workers: one call a process, as on Lambda."""

import asyncio
import logging
import time
import uuid

from infra.local.crew import Crew, Size, Worker
from infra.local.invocation import Call, Fault, Invocation
from infra.local.spawner import Program

logger = logging.getLogger(__name__)


class Pool:
    """`await start()`, then `invoke(...)` at will, then `await close()`."""

    def __init__(self, program: Program, size: Size) -> None:
        self.function = program.function
        self.crew = Crew(program, size, on_change=self._wake)
        self._size = size
        self._long = 0
        self._waiting = 0
        self._changed = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Raises StartError when the handler cannot be loaded."""
        await self.crew.start()

    def invoke(self, payload: bytes, *, long: bool, request_id: str | None = None, proxy: bool = True) -> Invocation:
        """Begin a call with an event as JSON. The call runs to its end whether or not anybody reads the answer."""
        call = Call(
            request_id=request_id or str(uuid.uuid4()),
            payload=payload,
            deadline_ms=int((time.time() + self.function.timeout) * 1000),
            function_arn=f"arn:aws:lambda:us-east-1:000000000000:function:{self.function.name}",
            proxy=proxy,
        )
        invocation = Invocation(call)
        task = asyncio.create_task(self._run(invocation, long=long))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return invocation

    async def close(self) -> None:
        """End every worker; calls that still run fail."""
        await self.crew.close()
        for task in tuple(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    async def _run(self, invocation: Invocation, *, long: bool) -> None:
        try:
            async with asyncio.timeout(self._size.wait_seconds):
                worker = await self._acquire(long=long)
        except TimeoutError:
            invocation.fail(Fault.BUSY)
            return
        except asyncio.CancelledError:
            invocation.fail(Fault.DIED)
            raise
        try:
            async with asyncio.timeout(self.function.timeout):
                worker.api.hand_over(invocation)
                await invocation.wait()
        except TimeoutError:
            logger.warning("A function's time was up", extra={"function": self.function.name})
            invocation.fail(Fault.TIMED_OUT)
            self.crew.kill(worker)
        finally:
            self._long -= long
            self._wake()

    async def _acquire(self, *, long: bool) -> Worker:
        """A free worker, now busy. When it was the last, one more is started ahead, so that the next need not wait."""
        self._waiting += 1
        try:
            while True:
                if not long or self._long < self._size.limit:
                    worker = self.crew.take_idle()
                    if worker is not None:
                        self._long += long
                        return worker
                    self.crew.grow(self._waiting)
                await self._changed.wait()
        finally:
            self._waiting -= 1
            self.crew.grow(1)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
