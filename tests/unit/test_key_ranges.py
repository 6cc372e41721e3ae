"""Ranges of sort keys, against the plain definition of what a query asks for."""

from hypothesis import given
from hypothesis import strategies as st

from deckhand.storage.ranges import key_range
from deckhand.storage.sqlite import SqliteStore
from tests.stores import Clock, Shelf

LETTERS = "a\x00#~\ud7ff\ue000\U0010ffff"
keys = st.text(LETTERS, max_size=4)
bounds = st.one_of(st.none(), keys)


def asked_for(sk: str, prefix: str, after: str | None, before: str | None) -> bool:
    above = after is None or sk.encode() > after.encode()
    below = before is None or sk.encode() < before.encode()
    return sk.startswith(prefix) and above and below


@given(sk=keys.filter(bool), prefix=keys, after=bounds, before=bounds)
def test_a_range_holds_exactly_the_keys_that_are_asked_for(
    sk: str, prefix: str, after: str | None, before: str | None
) -> None:
    found = key_range(prefix, after, before, backwards=False, cursor=None)
    wanted = asked_for(sk, prefix, after, before)
    assert found.holds(sk) == wanted
    assert not (wanted and found.is_empty)


@given(
    stored=st.sets(keys.filter(bool), max_size=12),
    prefix=keys,
    after=bounds,
    before=bounds,
    backwards=st.booleans(),
    limit=st.integers(1, 5),
)
def test_pages_together_are_the_range_in_order(
    stored: set[str], prefix: str, after: str | None, before: str | None, backwards: bool, limit: int
) -> None:
    store = SqliteStore(":memory:", now=Clock())
    shelf = Shelf(store, Clock())
    if stored:
        shelf.fill(sorted(stored))
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = store.query(
            "deck", shelf.pk, prefix=prefix, after=after, before=before, backwards=backwards, limit=limit, cursor=cursor
        )
        seen += [item.sk for item in page.items]
        cursor = page.cursor
        if cursor is None:
            break
        assert len(page.items) == limit
    store.close()
    wanted = [sk for sk in stored if asked_for(sk, prefix, after, before)]
    assert seen == sorted(wanted, key=str.encode, reverse=backwards)
