"""Searching the conversations, and the single transcript of before."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deckhand.domain.conversation import MAX_CONVERSATIONS, MAX_MESSAGES, MAX_TRANSCRIPT_BYTES
from deckhand.domain.search import needle, snippet
from deckhand.operations.search import IN_FLIGHT
from deckhand.storage.conversations import Owner
from deckhand.storage.history import History
from deckhand.storage.port import ItemStore, Key, Op, Page, Table
from deckhand.storage.sqlite import SqliteStore
from tests.front_door import FrontDoor
from tests.stores import Clock


@pytest.fixture
def door(tmp_path: Path) -> Iterator[FrontDoor]:
    with closing(FrontDoor(tmp_path)) as door:
        yield door


def create(door: FrontDoor, *texts: str, title: str | None = None) -> str:
    messages = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    status, body = door.ask("POST", "/api/conversations", {"title": title, "messages": messages})
    assert status == 201
    made: str = body["conversation"]["id"]
    return made


def search(door: FrontDoor, q: str) -> list[dict[str, Any]]:
    status, body = door.ask("POST", "/api/conversations/search", {"q": q})
    assert status == 200
    found: list[dict[str, Any]] = body["conversations"]
    return found


# -- bug case 34


@pytest.mark.parametrize("q", ["+34 600", "[draft", "C++", "\\", "(a+)+$", ".*", "a.c", "$1", "%", "_"])
def test_case_34_a_query_is_found_literally_and_only_so(door: FrontDoor, q: str) -> None:
    there = create(door, f"before {q} behind")
    create(door, "a" * 5_000)
    create(door, "abc def 34 600 draft")
    assert [one["id"] for one in search(door, q)] == [there]


def test_case_34_an_empty_query_gives_the_whole_list_without_snippets(door: FrontDoor) -> None:
    ids = {create(door, "one"), create(door, "two")}
    for q in ("", "  \n"):
        found = search(door, q)
        assert {one["id"] for one in found} == ids
        assert all("snippet" not in one for one in found)


def test_a_hit_in_the_title_alone_has_no_snippet(door: FrontDoor) -> None:
    there = create(door, "Hello", title="Green Tea")
    (found,) = search(door, "green tea")
    assert found["id"] == there
    assert "snippet" not in found


def test_only_the_first_two_hundred_characters_of_a_query_count(door: FrontDoor) -> None:
    there = create(door, "x" * 200)
    assert [one["id"] for one in search(door, "x" * 200 + "not there")] == [there]


def test_white_space_and_case_of_query_and_text_do_not_matter(door: FrontDoor) -> None:
    create(door, "Green\n\n\t tea  and\u00a0ÄPFEL")
    assert search(door, "green TEA\nand äpfel")[0]["snippet"] == "Green tea and ÄPFEL"


def test_a_snippet_has_thirty_characters_before_the_hit_and_sixty_behind(door: FrontDoor) -> None:
    create(door, "a" * 50 + "HIT" + "b" * 100)
    assert search(door, "hit")[0]["snippet"] == f"…{'a' * 30}HIT{'b' * 60}…"
    create(door, "a" * 30 + "TIP" + "b" * 60)
    assert search(door, "tip")[0]["snippet"] == f"{'a' * 30}TIP{'b' * 60}"


@settings(max_examples=200)
@given(before=st.text(max_size=80), q=st.text(min_size=1, max_size=20), behind=st.text(max_size=120))
def test_a_text_with_the_query_in_it_is_found_and_shown(before: str, q: str, behind: str) -> None:
    pattern = needle(q)
    if pattern is None:
        assert not q.strip()
        return
    shown = snippet(pattern, before + q + behind)
    assert shown is not None
    assert pattern.search(shown)
    assert len(shown) <= 30 + 60 + 2 + len(pattern.pattern)


def test_a_replaced_transcript_is_searched_in_its_new_form_only(door: FrontDoor) -> None:
    conversation = create(door, "old words")
    body = {"messages": [{"role": "user", "content": "new words"}]}
    door.ask("PUT", f"/api/conversations/{conversation}/messages", body)
    assert search(door, "old") == []
    assert search(door, "new")[0]["snippet"] == "new words"


# -- the size of it


class Counting:
    """A store that knows how many of its calls were under way at once."""

    def __init__(self, inner: ItemStore) -> None:
        self.inner, self.most, self.queries = inner, 0, 0
        self._now, self._lock = 0, threading.Lock()
        self._enough, self._more = threading.Event(), threading.Event()

    def get(self, key: Key) -> Any:
        return self.inner.get(key)

    def query(self, table: Table, pk: str, **options: Any) -> Page:
        if not options.get("prefix", "").startswith("m#"):
            return self.inner.query(table, pk, **options)
        with self._lock:
            self._now += 1
            self.queries += 1
            self.most, last = max(self.most, self._now), self._now == IN_FLIGHT
            if self._now > IN_FLIGHT:
                self._more.set()
        if last:
            # As many are there as may be; one more has a moment to be seen.
            self._more.wait(0.2)
            self._enough.set()
        self._enough.wait(30)
        try:
            return self.inner.query(table, pk, **options)
        finally:
            with self._lock:
                self._now -= 1

    def write(self, ops: list[Op], *, token: str) -> None:
        self.inner.write(ops, token=token)

    def delete_many(self, keys: list[Key]) -> None:
        self.inner.delete_many(keys)


def test_a_search_reads_at_most_eight_conversations_at_once_and_each_once(door: FrontDoor) -> None:
    for n in range(20):
        create(door, f"text {n}")
    counting = Counting(door.parts.store)
    door.parts.__dict__["store"] = counting
    assert len(search(door, "text")) == 20
    assert (counting.most, counting.queries) == (IN_FLIGHT, 20)


def test_a_hundred_full_conversations_are_searched_to_the_last_message(door: FrontDoor) -> None:
    ids = []
    for n in range(MAX_CONVERSATIONS):
        texts = [f"{'word ' * 99}m{n}x{place}y" for place in range(MAX_MESSAGES)]
        ids.append(create(door, *texts))
    for wanted in (0, 42, 99):
        found = search(door, f"m{wanted}X{MAX_MESSAGES - 1}Y")
        assert [one["id"] for one in found] == [ids[wanted]]
    assert len(search(door, "WORD word")) == MAX_CONVERSATIONS
    assert search(door, "m100x") == []


# -- the single transcript of before

OLD = [{"role": "user", "content": "Hi", "at": 1.0}, {"role": "assistant", "content": "Ho"}, {"role": "tool", "x": []}]


def test_the_single_transcript_is_read_as_it_was_put(door: FrontDoor) -> None:
    assert door.ask("GET", "/api/chat/history") == (200, {"messages": []})
    assert door.ask("PUT", "/api/chat/history", {"messages": OLD}) == (200, {"ok": True})
    assert door.ask("GET", "/api/chat/history")[1] == {"messages": OLD}
    assert door.ask("DELETE", "/api/chat/history") == (200, {"ok": True})
    assert door.ask("DELETE", "/api/chat/history") == (200, {"ok": True})
    assert door.ask("GET", "/api/chat/history")[1] == {"messages": []}


def test_the_newest_two_hundred_messages_of_it_are_kept_and_it_is_bounded(door: FrontDoor) -> None:
    many = [{"role": "user", "content": str(n)} for n in range(MAX_MESSAGES + 5)]
    door.ask("PUT", "/api/chat/history", {"messages": many})
    assert door.ask("GET", "/api/chat/history")[1]["messages"] == many[5:]
    whole = {"messages": [{"role": "user", "content": ""}]}
    whole["messages"][0]["content"] = "x" * (MAX_TRANSCRIPT_BYTES - len(json.dumps(whole)))
    assert door.ask("PUT", "/api/chat/history", whole)[0] == 200
    whole["messages"][0]["content"] += "x"
    assert door.ask("PUT", "/api/chat/history", whole)[1]["code"] == "body_too_large"
    assert door.ask("GET", "/api/chat/history")[1]["messages"][0]["content"] == whole["messages"][0]["content"][:-1]


def test_it_is_folded_into_a_conversation_once(door: FrontDoor) -> None:
    door.ask("PUT", "/api/chat/history", {"messages": OLD})
    status, body = door.ask("POST", "/api/conversations", {"fromHistory": True})
    assert status == 201
    said = [(message["role"], message["content"]) for message in body["conversation"]["messages"]]
    assert said == [("user", "Hi"), ("assistant", "Ho")]
    assert door.ask("POST", "/api/conversations", {"fromHistory": True})[0] == 404
    assert door.ask("GET", "/api/chat/history")[1] == {"messages": []}
    assert len(door.ask("GET", "/api/conversations")[1]["conversations"]) == 1


def test_nothing_of_a_replaced_transcript_stays_behind(tmp_path: Path) -> None:
    owner = Owner("main", "ann")
    with closing(SqliteStore(tmp_path / "d.sqlite3", now=Clock())) as store:
        history = History(store)
        for generation in ("g1", "g2"):
            history.replace(owner, [{"n": n} for n in range(60)], generation=generation)
        assert len(store.query("deck", "main#history#ann").items) == 60
        history.remove(owner, token="t")
        assert store.query("deck", "main#history#ann").items == []
