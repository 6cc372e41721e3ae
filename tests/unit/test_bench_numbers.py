"""The arithmetic of the bench."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.storage.port import Check, Delete, Item, Presence, Put
from deckhand.storage.sqlite import SqliteStore
from infra.local.bench.numbers import Target, at_least, at_most, measure, percentile, table
from infra.local.bench.storage_cost import CountingStore

samples = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


@given(samples, st.integers(1, 100))
def test_a_percentile_is_the_smallest_sample_that_so_many_do_not_exceed(found: list[float], percent: int) -> None:
    value = percentile(found, percent)
    assert value in found
    assert sum(one <= value for one in found) * 100 >= percent * len(found)
    assert sum(one < value for one in found) * 100 < percent * len(found)


def test_the_median_lies_between_two_middle_samples() -> None:
    assert measure("x", "ms", [1, 2, 10, 100]).p50 == 6


def test_nothing_measured_is_not_a_number() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        measure("x", "ms", [])


@pytest.mark.parametrize(
    ("targets", "met"),
    [
        ((), None),
        ((at_most(3),), True),
        ((at_most(1.9),), False),
        ((at_least(2),), True),
        ((at_least(2.1),), False),
        ((at_most(2), at_most(2.9, "p99")), False),
        ((at_most(2), at_most(3, "p95")), True),
    ],
)
def test_a_target_is_met_when_its_figure_does_not_pass_it(targets: tuple[Target, ...], met: bool | None) -> None:
    assert measure("x", "ms", [1, 2, 3], *targets).met is met


def test_the_table_shows_what_was_measured_beside_its_target() -> None:
    several = measure("x", "ms", [1, 2, 3], at_most(1.5), at_most(4, "p99"))
    once = measure("units", "WU", [155], at_most(160))
    assert table([several, once, measure("y", "tokens/s", [9_460.9])]).splitlines()[2:] == [
        "| x | 2.00 ms | 3.00 ms | 3.00 ms | 3 | p50 ≤ 1.5 ms, p99 ≤ 4 ms | **no** |",
        "| units | 155 WU |  |  | 1 | ≤ 160 WU | yes |",
        "| y | 9,461 tokens/s |  |  | 1 |  |  |",
    ]


def test_what_is_short_is_not_rounded_to_nothing() -> None:
    assert "| 0.0031 ms |" in table([measure("x", "ms", [0.003_1])])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CountingStore]:
    store = CountingStore(SqliteStore(tmp_path / "s.sqlite3", now=time.time))
    yield store
    store.inner.close()


SMALL, LARGE = Item("deck", "p", "a", "x"), Item("deck", "p", "b", "x" * 1024)


def test_a_write_costs_a_unit_a_started_kilobyte_and_twice_that_in_a_transaction(store: CountingStore) -> None:
    store.write([Put(LARGE)], token="1")
    assert store.write_units == 2
    store.write([Put(SMALL), Put(LARGE)], token="2")
    assert store.write_units == 2 + 2 * (1 + 2)
    assert store.operations == 2


def test_what_is_there_is_paid_for_when_it_shrinks_goes_or_is_checked(store: CountingStore) -> None:
    store.write([Put(LARGE)], token="1")
    store.write([Put(Item("deck", "p", "b", "x"))], token="2")
    assert store.write_units == 2 + 2
    store.write([Put(LARGE)], token="3")
    store.write([Check(Put(LARGE).key, Presence.EXISTS), Put(SMALL)], token="4")
    assert store.write_units == 4 + 2 + 2 * (2 + 1)
    store.write([Delete(Put(LARGE).key)], token="5")
    assert store.write_units == 12 + 2


def test_a_read_costs_a_unit_a_started_4_kilobytes_and_one_when_nothing_is_found(store: CountingStore) -> None:
    store.write([Put(Item("deck", "p", "a", "x" * 5000))], token="1")
    store.query("deck", "p")
    store.query("deck", "other")
    store.get(Put(SMALL).key)
    assert store.read_units == 2 + 1 + 2


def test_a_read_that_may_lag_costs_half(store: CountingStore) -> None:
    store.write([Put(Item("deck", "p", "a", "x" * 5000))], token="1")
    store.query("deck", "p", consistent=False)
    assert store.read_units == 1
