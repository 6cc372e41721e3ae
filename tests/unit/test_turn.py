"""The head of a turn and the ways in which it may change."""

from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain.turn import LEASE_S, Head, next_head

NOW = 1_800_000_000.0


def head(previous: Head | None = None, now: float = NOW) -> Head:
    return next_head(previous, turn_id="t1", principal="user:ann", anchor=3, now=now)


def test_the_first_turn_begins_its_events_at_1() -> None:
    first = head()
    assert (first.fence, first.first_event_id, first.last_event_id, first.status) == (1, 1, 0, None)


def test_a_turn_runs_until_its_lease_is_over_and_is_lost_from_then_on() -> None:
    first = head()
    assert first.running(NOW + LEASE_S - 0.001)
    assert not first.lost(NOW + LEASE_S - 0.001)
    assert first.lost(NOW + LEASE_S)
    assert not first.running(NOW + LEASE_S)


def test_a_turn_that_has_ended_is_neither_running_nor_lost() -> None:
    ended = head().ended(NOW + 1, "done", last_event_id=9)
    assert not ended.running(NOW + 2)
    assert not ended.lost(NOW + LEASE_S + 1)
    assert (ended.status, ended.finished_at, ended.last_event_id) == ("done", NOW + 1, 9)


def test_a_renewal_moves_the_lease_and_keeps_the_wish_to_stop() -> None:
    renewed = head().asked_to_stop().renewed(NOW + 10, last_event_id=5, steps=2, phase="tool")
    assert (renewed.lease_until, renewed.stop, renewed.steps, renewed.phase) == (NOW + 10 + LEASE_S, True, 2, "tool")


def test_a_new_turn_knows_nothing_of_the_stop_of_the_one_before() -> None:
    following = head(head().asked_to_stop().ended(NOW, "stopped", last_event_id=4))
    assert (following.stop, following.status, following.finished_at) == (False, None, None)


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(0, 20_000))
def test_ids_and_fences_only_ever_rise(renewals: list[int], end: int) -> None:
    first = head(head().ended(NOW, "done", last_event_id=20))
    seen = first
    for last in renewals:
        renewed = seen.renewed(NOW, last_event_id=last, steps=1, phase="thinking")
        assert renewed.last_event_id >= seen.last_event_id
        seen = renewed
    ended = seen.ended(NOW, "done", last_event_id=end)
    following = head(ended)
    assert following.first_event_id == ended.last_event_id + 1 > first.last_event_id
    assert following.fence == first.fence + 1


@given(st.booleans(), st.integers(0, 10**9))
def test_a_head_is_read_back_as_it_was_written(stop: bool, last: int) -> None:
    written = head().renewed(NOW + 0.125, last_event_id=last, steps=3, phase="tool")
    written = written.asked_to_stop() if stop else written
    assert Head.model_validate_json(written.to_json()) == written
