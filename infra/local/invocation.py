"""One call of a function: what the front asks and what the worker answers, each at its own pace.

The worker's side writes, the front's side reads, and neither waits for the other: a slow or absent client must not
hold up a run, whose finish lies behind the last byte of its answer.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import Enum

from infra.local.answers import Prelude

BACKLOG_LIMIT_BYTES = 32 * 1024 * 1024
"""How much may wait for a client that is there but does not read, before it counts as gone."""


class Fault(Enum):
    """Why a call has no whole answer."""

    BUSY = "every worker is taken"
    DIED = "the worker ended"
    FAILED = "the handler raised"
    MALFORMED = "the answer is not one that API Gateway takes"
    BROKEN = "the answer broke off"
    TIMED_OUT = "the function's time is up"
    UNREAD = "the client does not read"


class FunctionFaultError(Exception):
    """A call ended without a whole answer; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


@dataclass(frozen=True)
class Call:
    """What a worker gets from `/next`. `payload` is the event as JSON, `deadline_ms` an epoch time.

    `proxy` is False for events of a queue or a schedule, whose result is any JSON.
    """

    request_id: str
    payload: bytes
    deadline_ms: int
    function_arn: str
    proxy: bool = True


class Invocation:
    """A call and its answer so far.

    The worker's side calls `begin`, `feed`, then `finish` or `fail`; once it is over, further calls change nothing.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        self.fault: Fault | None = None
        self._prelude: Prelude | None = None
        self._pieces: list[bytes] = []
        self._backlog = 0
        self._unread = False
        self._news = asyncio.Event()
        self._over = asyncio.Event()

    def begin(self, prelude: Prelude) -> None:
        if not self.over:
            self._prelude = prelude
            self._news.set()

    def feed(self, data: bytes) -> None:
        if self.over or self._unread or not data:
            return
        self._pieces.append(data)
        self._backlog += len(data)
        if self._backlog > BACKLOG_LIMIT_BYTES:
            self._unread = True
            self._pieces.clear()
        self._news.set()

    def finish(self) -> None:
        self._over.set()
        self._news.set()

    def fail(self, fault: Fault) -> None:
        if not self.over:
            self.fault = fault
            self.finish()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    async def wait(self) -> None:
        """Until the worker's side is over, well or badly."""
        await self._over.wait()

    async def prelude(self) -> Prelude:
        """Status and headers, as soon as they are known. Raises FunctionFaultError."""
        while self._prelude is None:
            if self.over:
                raise FunctionFaultError(self.fault or Fault.BROKEN)
            await self._next_news()
        return self._prelude

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body; what came in between two reads is one chunk. Raises FunctionFaultError where it breaks off."""
        while True:
            if self._unread:
                raise FunctionFaultError(Fault.UNREAD)
            if self._pieces:
                data = b"".join(self._pieces)
                self._pieces.clear()
                self._backlog = 0
                yield data
            elif self.over:
                if self.fault is not None:
                    raise FunctionFaultError(self.fault)
                return
            else:
                await self._next_news()

    async def _next_news(self) -> None:
        self._news.clear()
        await self._news.wait()
