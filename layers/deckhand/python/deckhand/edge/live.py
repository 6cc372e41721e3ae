"""From asynchronous runs to the blocking world of a handler: one event loop in a thread, and a body that streams
what a run tells.

The run is not tied to its reader: a reader that goes away changes nothing, and a body always waits for the run's end.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any

from deckhand.domain.events import Event
from deckhand.edge.sse import HEARTBEAT_S, OPENING, PING, frame

# A long replay goes out while it is read, not when all of it is.
CHUNK_BYTES = 8 * 1024

Told = tuple[int | None, Event]
Publish = Callable[[int | None, Event], None]


class EventLoopThread:
    """A loop that lives as long as its process, so that connections to the gateway stay open between turns. Started
    on first use: never
    before a fork."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> "Future[Any]":
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="deckhand-runs", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


class Live:
    """One run and what it tells. `start` gets the function to publish with."""

    def __init__(self, thread: EventLoopThread, run: Callable[[Publish], Coroutine[Any, Any, None]]) -> None:
        self._told: queue.SimpleQueue[Told | None] = queue.SimpleQueue()
        self._future = thread.submit(run(lambda event_id, event: self._told.put((event_id, event))))
        self._future.add_done_callback(lambda _: self._told.put(None))

    def events(self) -> list[Told]:
        """Everything, after the run's end. Raises what the run raised."""
        self._future.result()
        told: list[Told] = []
        while (item := self._told.get()) is not None:
            told.append(item)
        return told

    def body(self) -> Iterator[bytes]:
        """Frames as they come, a comment at once and whenever it is quiet for too long."""
        try:
            yield OPENING
            ended = False
            while not ended:
                try:
                    item = self._told.get(timeout=HEARTBEAT_S)
                except queue.Empty:
                    yield PING
                    continue
                chunk = bytearray()
                while True:
                    if item is None:
                        ended = True
                        break
                    chunk += frame(item[1], item[0])
                    if len(chunk) >= CHUNK_BYTES or self._told.empty():
                        break
                    item = self._told.get()
                if chunk:
                    yield bytes(chunk)
        finally:
            self._future.exception()
