"""Sessions on the store: one read a request, and at most one write an hour."""

from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest

from deckhand.domain.access_token import fingerprint
from deckhand.domain.account import Account, OpenSession
from deckhand.domain.errors import StorageUnavailable
from deckhand.domain.principal import Principal
from deckhand.storage.accounts import session_key
from deckhand.storage.port import Delete, Item, Key, Op
from deckhand.storage.sessions import Sessions
from deckhand.storage.sqlite import SqliteStore
from tests.deck import HookedStore
from tests.stores import Clock, new_token

ANN = Account(id="ann", name="Ann", role="editor", created_at=0)
SECRET = "s3cret"


class CountedStore(HookedStore):
    """Tells how often it was read and written."""

    reads = 0
    writes = 0

    def get(self, key: Key) -> Item | None:
        self.reads += 1
        return super().get(key)

    def write(self, ops: Sequence[Op], *, token: str) -> None:
        self.writes += 1
        super().write(ops, token=token)


@pytest.fixture
def store(clock: Clock) -> Iterator[CountedStore]:
    with closing(SqliteStore(":memory:", now=clock)) as inner:
        yield CountedStore(inner)


@pytest.fixture
def sessions(store: CountedStore, clock: Clock) -> Sessions:
    """With one that is open."""
    made = Sessions(store, now=clock, new_id=new_token)
    opened = OpenSession(hash=fingerprint(SECRET), created_at=clock.time)
    store.inner.write([made.opening("acme", ANN, opened)], token=new_token())
    return made


def test_a_session_is_found_by_one_read_with_all_that_is_asked_of_it(sessions: Sessions, store: CountedStore) -> None:
    found = sessions.principal(SECRET)
    assert found == Principal(kind="user", id="ann", user="ann", role="editor", tenant="acme")
    assert (store.reads, store.writes) == (1, 0)


@pytest.mark.parametrize("secret", ["", "other", fingerprint(SECRET), "\ud800", "x" * 5000])
def test_another_secret_finds_nothing_by_one_read(sessions: Sessions, store: CountedStore, secret: str) -> None:
    assert sessions.principal(secret) is None
    assert (store.reads, store.writes) == (1, 0)


def test_a_use_is_noted_once_an_hour(sessions: Sessions, store: CountedStore, clock: Clock) -> None:
    for _ in range(6):
        clock.time += 1800
        assert sessions.principal(SECRET) is not None
    assert store.writes == 3


def test_a_session_that_ends_while_its_use_is_noted_stays_ended(
    sessions: Sessions, store: CountedStore, clock: Clock
) -> None:
    def end(_: Sequence[Op]) -> None:
        store.before = None
        store.inner.write([Delete(session_key(fingerprint(SECRET)))], token=new_token())

    clock.time += 3600
    store.before = end
    sessions.principal(SECRET)
    assert sessions.principal(SECRET) is None


def test_a_store_that_cannot_note_a_use_costs_nobody_the_session(
    sessions: Sessions, store: CountedStore, clock: Clock
) -> None:
    def fail(_: Sequence[Op]) -> None:
        raise StorageUnavailable()

    clock.time += 3600
    store.before = fail
    assert sessions.principal(SECRET) is not None
