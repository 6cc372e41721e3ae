"""The arithmetic of the bench."""

import time
from pathlib import Path

import pytest

from deckhand.storage.port import Item, Put
from deckhand.storage.sqlite import SqliteStore
from infra.local.bench.numbers import measure, percentile, table
from infra.local.bench.storage_cost import CountingStore


def test_a_percentile_is_a_sample_that_so_many_do_not_exceed() -> None:
    assert percentile(range(1, 101), 99) == 99
    assert percentile([5.0], 99) == 5.0
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0


def test_nothing_measured_is_not_a_number() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        measure("x", "ms", [], "-")


def test_the_table_shows_what_was_measured_beside_its_target() -> None:
    assert "| x | 2.0 ms | 3.0 ms | 3 | ≤ 4 ms |" in table([measure("x", "ms", [1, 2, 3], "≤ 4 ms")])


def test_a_write_costs_a_unit_a_started_kilobyte_and_twice_that_in_a_transaction(tmp_path: Path) -> None:
    store = CountingStore(SqliteStore(tmp_path / "s.sqlite3", now=time.time))
    small, large = Item("deck", "p", "a", "x"), Item("deck", "p", "b", "x" * 1024)
    store.write([Put(large)], token="1")
    assert store.write_units == 2
    store.write([Put(small), Put(large)], token="2")
    assert store.write_units == 2 + 2 * (1 + 2)
    store.inner.close()


def test_a_read_costs_a_unit_a_started_4_kilobytes_and_one_when_nothing_is_found(tmp_path: Path) -> None:
    store = CountingStore(SqliteStore(tmp_path / "s.sqlite3", now=time.time))
    store.write([Put(Item("deck", "p", "a", "x" * 5000))], token="1")
    store.query("deck", "p")
    store.query("deck", "other")
    assert store.read_units == 2 + 1
    store.inner.close()
