"""Threads that race on one store. Not on moto, whose conditional writes are not atomic."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from deckhand.domain.errors import ConditionFailed
from deckhand.storage.port import ABSENT, EXISTS, Delete, Key, Op, Put, VersionIs
from tests.stores import Shelf, new_token

RACERS = 16
APPENDS = 50

pytestmark = pytest.mark.parametrize("shelf", ["sqlite-memory", "sqlite-file", "ministack"], indirect=True)


def wins(racer: Callable[[int], object]) -> list[int]:
    """Which of the racers, started at once, were not refused."""
    start = threading.Barrier(RACERS)

    def run(number: int) -> bool:
        start.wait(timeout=30)
        try:
            racer(number)
        except ConditionFailed:
            return False
        return True

    with ThreadPoolExecutor(RACERS) as pool:
        won = list(pool.map(run, range(RACERS)))
    return [number for number, first in enumerate(won) if first]


def take(shelf: Shelf, lock: str, number: int) -> None:
    shelf.put(lock, str(number), condition=ABSENT, expires=int(shelf.clock.time) + 30)


def test_one_of_sixteen_takes_a_lock(shelf: Shelf) -> None:
    for attempt in range(3):
        lock = f"lock#{attempt}"
        winners = wins(partial(take, shelf, lock))
        item = shelf.get(lock)
        assert item is not None
        assert winners == [int(item.body)]


def test_one_of_sixteen_takes_a_lock_that_expired(shelf: Shelf) -> None:
    shelf.put("lock", '"old"', expires=int(shelf.clock.time) - 1)
    winners = wins(partial(take, shelf, "lock"))
    item = shelf.get("lock")
    assert item is not None
    assert winners == [int(item.body)]


def test_one_of_sixteen_transactions_moves_a_version(shelf: Shelf) -> None:
    shelf.put("head", version=1)

    def start_turn(number: int) -> None:
        head, message = shelf.item("head", str(number), version=2), shelf.item(f"m#{number}")
        shelf.store.write([Put(message, ABSENT), Put(head, VersionIs(1))], token=new_token())

    winners = wins(start_turn)
    assert len(winners) == 1
    assert shelf.keys(prefix="m#") == [f"m#{winners[0]}"]


def test_one_of_sixteen_deletes_counts(shelf: Shelf) -> None:
    shelf.put("proposal")

    def spend(_: int) -> None:
        shelf.store.write([Delete(shelf.key("proposal"), EXISTS)], token=new_token())

    assert len(wins(spend)) == 1


def test_fifty_appends_at_once_by_optimistic_retry_lose_nothing(shelf: Shelf) -> None:
    shelf.put("meta", version=1)
    with ThreadPoolExecutor(RACERS) as pool:
        list(pool.map(lambda n: append(shelf, n), range(APPENDS)))
    rows = shelf.store.query("deck", shelf.pk, prefix="r#").items
    meta = shelf.get("meta")
    assert meta is not None
    assert meta.version == APPENDS + 1
    assert sorted(int(row.body) for row in rows) == list(range(APPENDS))


def append(shelf: Shelf, value: int) -> None:
    """One row at the end of a list whose length is the version of its `meta`."""
    seen: Any = shelf.get("meta")
    while True:
        row = shelf.item(f"r#{seen.version:06d}", str(value))
        meta = shelf.item("meta", version=seen.version + 1)
        ops: list[Op] = [Put(meta, VersionIs(seen.version)), Put(row, ABSENT)]
        try:
            shelf.store.write(ops, token=new_token())
        except ConditionFailed as failed:
            seen = failed.item
        else:
            return


def test_threads_delete_and_write_side_by_side(shelf: Shelf) -> None:
    old = shelf.fill([f"old#{n:03d}" for n in range(200)])
    keys: list[Key] = [shelf.key(sk) for sk in old]
    with ThreadPoolExecutor(8) as pool:
        deleting = [pool.submit(shelf.store.delete_many, keys[n::4]) for n in range(4)]
        writing = [pool.submit(shelf.put, f"new#{n:02d}", condition=ABSENT) for n in range(40)]
        for deleted in deleting:
            deleted.result()
        for written in writing:
            written.result()
    assert shelf.keys() == [f"new#{n:02d}" for n in range(40)]
