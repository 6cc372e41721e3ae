"""Bodies over the size of an item: split and joined again (bug case 43)."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deckhand.storage import parts
from deckhand.storage.parts import PART_BYTES, join, split
from deckhand.storage.port import Item, item_bytes

BODIES = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 7)


@given(st.lists(BODIES, min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("small_parts")
def test_items_that_were_split_are_joined_to_what_they_were(bodies: list[str]) -> None:
    items = [Item("deck", "p", f"m#{n:010d}", body) for n, body in enumerate(bodies)]
    stored = [part for item in items for part in split(item)]
    assert all(len(part.body.encode()) <= 7 for part in stored)
    assert list(join(sorted(stored, key=lambda part: part.sk.encode()))) == items


@given(BODIES, st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("small_parts")
def test_parts_without_their_first_are_left_out(body: str, data: st.DataObject) -> None:
    first = Item("deck", "p", "m#1", "x" * 20)
    stored = split(first)[1:] + split(Item("deck", "p", "m#2", body))
    assert [item.body for item in join(stored)] == [body]


def test_a_body_that_fits_stays_one_item() -> None:
    item = Item("deck", "p", "m#1", "x" * PART_BYTES)
    assert split(item) == [item]


def test_a_reply_of_450_000_letters_fits_the_store() -> None:
    item = Item("deck", "p", "m#1", "é" * 450_000)
    assert all(item_bytes(part) <= 400 * 1024 for part in split(item))
    assert list(join(split(item))) == [item]
