"""Reading a transcript from its end: whole whatever a replica lags, and no more than is needed."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deckhand.agent.window import newest_that_fit, replayed
from deckhand.domain.conversation import MAX_MESSAGES, Call, Exchange, Header, Message
from deckhand.storage import parts
from deckhand.storage.conversations import Conversations, Owner, put_exchange
from deckhand.storage.port import Page, Table
from deckhand.storage.sqlite import SqliteStore
from deckhand.storage.transcript_tail import newest_exchanges, newest_messages
from tests.stores import Clock, EachCall, new_token

OWNER = Owner("main", "ann")
DATE = "2027-01-15T08:00:00Z"


class Lagging(EachCall):
    """A store whose replica does not have the items in `behind` yet; what a query reads is counted."""

    behind: frozenset[str] = frozenset()
    queries = 0
    sure = 0
    items = 0

    def query(self, table: Table, pk: str, *, consistent: bool = True, **options: Any) -> Page:
        page = super().query(table, pk, **options)
        self.queries, self.sure, self.items = self.queries + 1, self.sure + consistent, self.items + len(page.items)
        return page if consistent else Page([i for i in page.items if i.sk not in self.behind], page.cursor)


@pytest.fixture
def store() -> Iterator[Lagging]:
    with closing(SqliteStore(":memory:", now=Clock())) as inner:
        yield Lagging(inner)


def written(store: Lagging, contents: Sequence[str], *, first: int = 1) -> tuple[Header, list[Message]]:
    """A conversation with these messages, and them, oldest first; earlier ones are counted as trimmed."""
    messages = [
        Message(seq=seq, id=f"m{seq}", role="user", content=content, created_at=DATE)
        for seq, content in enumerate(contents, start=first)
    ]
    kept = min(len(messages), MAX_MESSAGES)
    header = Header(
        id=f"c{new_token()}", created_at=DATE, updated_at=DATE, message_count=kept, next_seq=first + len(messages)
    )
    Conversations(store).create(OWNER, header, messages, token=new_token())
    return header, messages


CONTENTS = st.lists(st.text("aé", max_size=60), max_size=25)


@given(contents=CONTENTS, first=st.integers(1, 300), chars=st.integers(1, 2_000), data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_message_is_read_once_in_order_whatever_a_replica_lacks(
    store: Lagging, monkeypatch: pytest.MonkeyPatch, contents: list[str], first: int, chars: int, data: st.DataObject
) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 40)
    header, messages = written(store, contents, first=first)
    stored = store.query("deck", f"main#conv#{header.id}").items
    store.behind = frozenset(data.draw(st.sets(st.sampled_from([i.sk for i in stored])))) if stored else frozenset()
    assert list(newest_messages(store, OWNER, header, chars)) == messages[::-1]


def test_a_replica_that_is_up_to_date_is_enough(store: Lagging) -> None:
    header, messages = written(store, ["x" * 80] * 200)
    assert newest_that_fit(newest_messages(store, OWNER, header, 24_000), 24_000) == messages
    assert (store.queries, store.sure, store.items) == (2, 0, 200)


@pytest.mark.parametrize("length", [300, 1_000, 3_000, 20_000])
def test_little_more_is_read_than_fits(store: Lagging, length: int) -> None:
    header, _ = written(store, ["x" * length] * 200)
    chosen = newest_that_fit(newest_messages(store, OWNER, header, 24_000), 24_000)
    assert len(chosen) == 24_000 // length
    assert store.items <= max(12, len(chosen) + 2)


def test_messages_over_the_cap_are_not_read_even_before_they_are_removed(store: Lagging) -> None:
    header, messages = written(store, ["x"] * 205)
    assert list(newest_messages(store, OWNER, header, 24_000)) == messages[:4:-1]


def test_a_transcript_that_is_gone_meanwhile_ends(store: Lagging) -> None:
    header, _ = written(store, ["x"] * 3)
    gone = header.model_copy(update={"generation": "old"})
    assert list(newest_messages(store, OWNER, gone, 24_000)) == []


def exchanges(store: Lagging, header: Header, turns: int, steps: int) -> list[Exchange]:
    made = [
        Exchange(
            anchor=turn, turn_id=f"t{turn}", step=step, calls=[Call(id="c", name="find", arguments="{}", result="1")]
        )
        for turn in range(1, turns + 1)
        for step in range(1, steps + 1)
    ]
    for one in made:
        store.write(put_exchange(OWNER, header, one), token=new_token())
    return made


@given(turns=st.integers(0, 8), steps=st.integers(1, 5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_exchanges_are_read_newest_first(
    store: Lagging, monkeypatch: pytest.MonkeyPatch, turns: int, steps: int
) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 40)
    header, _ = written(store, [])
    made = exchanges(store, header, turns, steps)
    assert list(newest_exchanges(store, OWNER, header)) == made[::-1]


def test_no_more_exchanges_are_read_than_are_sent_and_these_surely(store: Lagging) -> None:
    header, _ = written(store, [])
    made = exchanges(store, header, 40, 1)
    assert replayed(newest_exchanges(store, OWNER, header)) == made[-3:]
    assert (store.queries, store.sure, store.items) == (1, 1, 4)
