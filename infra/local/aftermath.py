"""Turns whose processes are known to be gone: closed at once, where a cloud would wait for their leases."""

import contextlib
import fcntl
import logging
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from deckhand.domain.errors import StorageError
from deckhand.storage.sqlite import SqliteStore
from deckhand.storage.sqlite_queue import SqliteQueue
from deckhand.turns.context import TurnContext
from deckhand.turns.sweep import sweep

logger = logging.getLogger(__name__)


class FolderInUseError(Exception):
    """Another stack works on the data folder."""


@contextlib.contextmanager
def sole_user(database: Path) -> Iterator[None]:
    """Holds the data folder for one stack. Closes the turns, and gives back the jobs, that a former or (at the end)
    this one left running.

    The lock goes with its process, also after kill -9. Raises FolderInUseError.
    """
    with database.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FolderInUseError(f"another stack is running on {database.parent}") from None
        _close_turns(database)
        try:
            yield
        finally:
            _close_turns(database)


def _close_turns(database: Path) -> None:
    if not database.exists():
        return
    store = SqliteStore(database, now=time.time)
    queue = SqliteQueue(database, now=time.time)
    context = TurnContext.on(store, now=time.time, new_id=lambda: uuid.uuid4().hex, jobs=queue)
    try:
        queue.release()
        swept = sweep(context, all_dead=True)
    except StorageError:
        logger.warning("Turns that were left running could not be closed", exc_info=True)
        return
    finally:
        store.close()
    if swept.closed:
        logger.warning("Turns were left running and are closed", extra={"turns": swept.closed})
