"""From an asynchronous run to a blocking body."""

import asyncio
import threading
from collections.abc import Generator

from deckhand.domain.events import Event
from deckhand.edge.live import CHUNK_BYTES, EventLoopThread, Live, Publish
from deckhand.edge.sse import OPENING, frame

THREAD = EventLoopThread()
WORDS = [Event("token", {"text": f"word {number} "}) for number in range(2_000)]


async def say_all(publish: Publish) -> None:
    for number, event in enumerate(WORDS):
        publish(number, event)


def test_a_body_opens_at_once_and_then_tells_every_event_in_order() -> None:
    opening, *chunks = Live(THREAD, say_all).body()
    assert opening == OPENING
    assert b"".join(chunks) == b"".join(frame(event, number) for number, event in enumerate(WORDS))


def test_what_waits_goes_out_together_but_not_all_of_a_long_replay_at_once() -> None:
    said = threading.Event()

    async def run(publish: Publish) -> None:
        await say_all(publish)
        said.set()

    live = Live(THREAD, run)
    said.wait()
    _, *chunks = live.body()
    sizes = [len(chunk) for chunk in chunks]
    assert max(sizes) < CHUNK_BYTES + len(frame(WORDS[-1], len(WORDS)))
    assert min(sizes[:-1]) >= CHUNK_BYTES


def test_a_body_that_is_left_lets_the_run_come_to_its_end() -> None:
    left, finished = threading.Event(), threading.Event()

    async def run(publish: Publish) -> None:
        publish(1, Event("token", {"text": "a"}))
        await asyncio.to_thread(left.wait)
        finished.set()

    body = Live(THREAD, run).body()
    assert isinstance(body, Generator)
    next(body)
    threading.Timer(0, left.set).start()
    body.close()
    assert finished.is_set()
