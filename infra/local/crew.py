"""The workers of one function and their lives: forked, waiting, at work, gone."""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from infra.local.runtime_api import RuntimeApi
from infra.local.spawner import Program, Spawner, StartError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Size:
    """How many workers a function may have.

    `reserved` come on top of `limit` and never get long calls, so that a stop or a list does not wait behind streams.
    `floor` are kept when idle; the others go after `idle_seconds`. A call waits `wait_seconds` for a worker at most.
    """

    limit: int = 8
    reserved: int = 0
    floor: int = 1
    idle_seconds: float = 60.0
    wait_seconds: float = 10.0


class State(Enum):
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    GONE = "gone"


@dataclass(eq=False)
class Worker:
    """One process. `settled` is set once it waits for work, or is gone before it ever did."""

    number: int
    api: RuntimeApi
    state: State = State.STARTING
    idle_since: float = 0.0
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class Crew:
    """Grows on demand up to `size`, replaces the dead, retires the idle.

    `on_change` is called when a worker comes free or goes.
    """

    def __init__(self, program: Program, size: Size, *, on_change: Callable[[], None]) -> None:
        self._name = program.function.name
        self._size = size
        self._spawner = Spawner(program, on_ended=self._on_ended)
        self._on_change = on_change
        self._numbers = itertools.count(1)
        self._workers: dict[int, Worker] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def start(self) -> None:
        """Returns when `floor` workers wait for work. Raises StartError when the handler cannot be loaded."""
        for _ in range(self._size.floor):
            worker = self._new_worker()
            await self._fork(worker)
            await worker.settled.wait()
            if worker.state is State.GONE:
                reason = worker.api.init_error or "its worker ended while starting"
                raise StartError(f"{self._name} cannot be started: {reason}")
        self._in_background(self._retire_idle())

    async def close(self) -> None:
        """End every worker; calls that still run fail."""
        self._closed = True
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._spawner.close()
        for worker in tuple(self._workers.values()):
            self._drop(worker)

    def take_idle(self) -> Worker | None:
        """Marks a worker as busy; None if all are. The one used last is taken: its caches are warm."""
        idle = [worker for worker in self._workers.values() if worker.state is State.IDLE]
        if not idle:
            return None
        worker = max(idle, key=lambda worker: worker.idle_since)
        worker.state = State.BUSY
        return worker

    def kill(self, worker: Worker) -> None:
        """End a worker at once, whatever it does."""
        self._spawner.kill(worker.number)

    def grow(self, wanted: int) -> None:
        """Start workers until `wanted` are idle or about to be, within the size."""
        room = self._size.limit + self._size.reserved - len(self._workers)
        coming = sum(worker.state in (State.IDLE, State.STARTING) for worker in self._workers.values())
        for _ in range(min(room, wanted - coming)):
            self._in_background(self._fork_or_log(self._new_worker()))

    @property
    def idle(self) -> int:
        return sum(worker.state is State.IDLE for worker in self._workers.values())

    def __len__(self) -> int:
        return len(self._workers)

    def _new_worker(self) -> Worker:
        number = next(self._numbers)
        api = RuntimeApi(on_waiting=lambda: self._on_waiting(number), on_gone=lambda: self._on_gone(number))
        self._workers[number] = Worker(number, api)
        return self._workers[number]

    async def _fork(self, worker: Worker) -> None:
        try:
            await self._spawner.fork(worker.number, await worker.api.start())
        except StartError:
            self._drop(worker)
            raise

    async def _fork_or_log(self, worker: Worker) -> None:
        try:
            await self._fork(worker)
        except StartError as error:
            logger.error("A worker cannot be started", extra={"function": self._name, "reason": str(error)})

    async def _retire_idle(self) -> None:
        while True:
            await asyncio.sleep(self._size.idle_seconds / 4)
            long_ago = time.monotonic() - self._size.idle_seconds
            idle = [worker for worker in self._workers.values() if worker.state is State.IDLE]
            surplus = sorted(idle, key=lambda worker: worker.idle_since)[: max(0, len(idle) - self._size.floor)]
            for worker in surplus:
                if worker.idle_since < long_ago:
                    worker.state = State.GONE
                    self.kill(worker)

    def _on_waiting(self, number: int) -> None:
        worker = self._workers.get(number)
        if worker is not None and worker.state is not State.GONE:
            worker.state = State.IDLE
            worker.idle_since = time.monotonic()
            worker.settled.set()
            self._on_change()

    def _on_gone(self, number: int) -> None:
        """It hung up while it waited: no call may reach it, though its end has not been reported yet."""
        worker = self._workers.get(number)
        if worker is not None and worker.state is not State.GONE and not self._closed:
            logger.warning("A worker hung up", extra={"function": self._name})
            self.kill(worker)
            self._drop(worker)

    def _on_ended(self, number: int, status: int) -> None:
        if (worker := self._workers.get(number)) is not None:
            if worker.state is not State.GONE and not self._closed:
                logger.warning("A worker ended", extra={"function": self._name, "status": status})
            self._drop(worker)

    def _drop(self, worker: Worker) -> None:
        # One that never came so far is not replaced at once: the next would fare alike, and the next.
        replace = worker.state is not State.STARTING and not self._closed
        worker.state = State.GONE
        worker.settled.set()
        worker.api.close()
        self._workers.pop(worker.number, None)
        if replace:
            self.grow(self._size.floor)
        self._on_change()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
