"""What starts functions without a request: the job queue and the minute, as SQS and EventBridge do in the cloud."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from deckhand.domain.errors import StorageError
from deckhand.storage.sqlite_queue import Delivery, SqliteQueue
from infra.local.invocation import FunctionFaultError
from infra.local.pool import Pool

POLL_SECONDS = 0.25
BATCH = 8
MINUTE = 60.0

logger = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def running_ticker(
    pools: Sequence[Pool], database: Path, *, left: Callable[[], float], clock: Callable[[], float] = time.time
) -> AsyncIterator[None]:
    """Hands jobs and minutes to the functions that want them, until the block ends. Jobs that run then get the
    seconds that are `left`; they may be turns. `clock` is the functions', whose minutes count.
    """
    queue = SqliteQueue(database, now=time.time)
    calls: set[asyncio.Task[None]] = set()
    tasks = [asyncio.create_task(_work(pool, queue, calls)) for pool in pools if pool.function.queue]
    tasks += [asyncio.create_task(_tick(pool, clock)) for pool in pools if pool.function.schedule]
    try:
        yield
    finally:
        await _end(tasks)
        if calls and left() > 0:
            await asyncio.wait(calls, timeout=left())
        await _end(tuple(calls))


async def _end(tasks: Collection["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _work(pool: Pool, queue: SqliteQueue, calls: set["asyncio.Task[None]"]) -> None:
    """One call a job: one that takes long, as a queued turn may, holds up no other."""
    while True:
        try:
            room = BATCH - len(calls)
            for delivery in await asyncio.to_thread(queue.take, room) if room else []:
                task = asyncio.create_task(_deliver(pool, queue, delivery))
                calls.add(task)
                task.add_done_callback(calls.discard)
        except StorageError:
            logger.warning("The job queue does not answer", exc_info=True)
        await asyncio.sleep(POLL_SECONDS)


async def _deliver(pool: Pool, queue: SqliteQueue, delivery: Delivery) -> None:
    if await _call(pool, sqs_event(delivery)) is None:
        await asyncio.to_thread(queue.failed, delivery.id, delivery.tries)
    else:
        await asyncio.to_thread(queue.done, delivery.id)


async def _tick(pool: Pool, clock: Callable[[], float]) -> None:
    """Once at the start, for what a stopped stack left behind, then at each full minute."""
    while True:
        now = clock()
        event = {"source": "aws.events", "detail-type": "Scheduled Event", "time": _stamp(now), "detail": {}}
        await _call(pool, event)
        await asyncio.sleep(MINUTE - clock() % MINUTE)


async def _call(pool: Pool, event: dict[str, Any]) -> Any:
    """The function's result; None when it failed, or named the record as failed."""
    invocation = pool.invoke(json.dumps(event).encode(), long=False, proxy=False)
    try:
        result = json.loads(b"".join([chunk async for chunk in invocation.chunks()]))
    except (FunctionFaultError, ValueError):
        return None
    return None if isinstance(result, dict) and result.get("batchItemFailures") else result


def sqs_event(delivery: Delivery) -> dict[str, Any]:
    """A batch of one, in SQS's form."""
    record = {
        "messageId": delivery.id,
        "receiptHandle": delivery.id,
        "body": delivery.body,
        "attributes": {"ApproximateReceiveCount": str(delivery.tries)},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:jobs",
        "awsRegion": "us-east-1",
    }
    return {"Records": [record]}


def _stamp(now: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
