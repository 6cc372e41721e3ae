"""Requests a minute: the window that slides, and where it is kept."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain.errors import RateLimited, StorageUnavailable
from deckhand.domain.principal import Principal
from deckhand.domain.rate import Window
from deckhand.edge.rate import RateLimit
from deckhand.storage.port import ItemStore
from deckhand.storage.rates import MAX_KNOWN, Rates
from tests.fakes import Ids
from tests.stores import Clock

ANN = Principal(kind="user", id="ann", user="ann", role="owner")
BOB = Principal(kind="user", id="bob", user="bob", role="owner")
windows = st.builds(Window, minute=st.just(1_000), count=st.integers(0, 300), before=st.integers(0, 300))
moments = st.floats(60_000, 60_300)
limits = st.integers(1, 200)


@given(windows, moments, limits)
def test_whoever_waits_as_told_is_let_through(window: Window, now: float, limit: int) -> None:
    wait = window.at(now).wait(now, limit)
    then = now + wait
    assert window.at(then).wait(then, limit) == 0


@given(windows, moments, limits)
def test_nobody_is_told_to_wait_a_second_too_long(window: Window, now: float, limit: int) -> None:
    wait = window.at(now).wait(now, limit)
    if wait > 1:
        then = now + wait - 1
        assert window.at(then).wait(then, limit) > 0


@given(st.lists(st.integers(0, 240), max_size=400).map(sorted), st.integers(1, 40))
def test_never_more_than_the_limit_within_a_minute_of_the_clock(seconds: list[int], limit: int) -> None:
    window, passed = Window(), list[int]()
    for second in seconds:
        window = window.at(second)
        if not window.wait(second, limit):
            window = window.taken()
            passed.append(second)
    assert all(sum(one // 60 == minute for one in passed) <= limit for minute in range(5))


def test_a_burst_is_not_doubled_around_the_turn_of_a_minute() -> None:
    window = Window(minute=1, count=10)
    assert window.at(120).wait(120, 10) > 0
    assert window.at(150).wait(150, 10) == 0


def test_a_clock_that_goes_back_forgets_nothing() -> None:
    window = Window(minute=10, count=3, before=2)
    assert window.at(60.0) == window


class Counted:
    """A store that counts what reaches it, and fails when told."""

    def __init__(self, inner: ItemStore) -> None:
        self.inner, self.calls, self.fails = inner, list[str](), False

    def __getattr__(self, name: str) -> object:
        self.calls.append(name)
        if self.fails:
            raise StorageUnavailable()
        return getattr(self.inner, name)


def rates(store: object, clock: Clock) -> Rates:
    return Rates(store, now=clock, new_id=Ids(str(time.monotonic_ns())))  # type: ignore[arg-type]


def test_over_the_limit_it_says_how_long_to_wait(clocked_store: ItemStore, clock: Clock) -> None:
    made = rates(clocked_store, clock)
    for _ in range(3):
        made.take(ANN, 3)
    with pytest.raises(RateLimited) as refused:
        made.take(ANN, 3)
    clock.time += refused.value.retry_after
    made.take(ANN, 3)


def test_each_principal_has_a_limit_of_its_own(clocked_store: ItemStore, clock: Clock) -> None:
    made = rates(clocked_store, clock)
    made.take(ANN, 1)
    made.take(BOB, 1)
    made.take(Principal(kind="user", id="ann", user="ann", role="owner", tenant="other"), 1)


def test_processes_share_what_they_count(clocked_store: ItemStore, clock: Clock) -> None:
    one, other = rates(clocked_store, clock), rates(clocked_store, clock)
    for made in (one, other, one):
        made.take(ANN, 3)
    with pytest.raises(RateLimited):
        other.take(ANN, 3)


def test_a_request_costs_one_write_and_a_refused_one_nothing(clocked_store: ItemStore, clock: Clock) -> None:
    counted = Counted(clocked_store)
    made = rates(counted, clock)
    for _ in range(2):
        made.take(ANN, 2)
    with pytest.raises(RateLimited):
        made.take(ANN, 2)
    assert counted.calls == ["write", "write"]


def test_what_is_remembered_is_bounded_and_forgetting_loses_no_count(clocked_store: ItemStore, clock: Clock) -> None:
    made = rates(clocked_store, clock)
    made.take(ANN, 1)
    for number in range(MAX_KNOWN + 1):
        made.take(Principal(kind="user", id=str(number), user="u", role="owner"), 1)
    assert len(made._known) <= MAX_KNOWN
    with pytest.raises(RateLimited):
        made.take(ANN, 1)


def test_a_store_that_fails_lets_requests_through(clocked_store: ItemStore, clock: Clock) -> None:
    counted = Counted(clocked_store)
    limit = RateLimit(rates(counted, clock), 1)
    counted.fails = True
    assert [limit.admit(ANN) for _ in range(3)] == [ANN] * 3


def test_a_limit_of_zero_counts_nothing(clocked_store: ItemStore, clock: Clock) -> None:
    counted = Counted(clocked_store)
    assert RateLimit(rates(counted, clock), 0).admit(ANN) == ANN
    assert counted.calls == []
