"""What the `ItemStore` port promises, on every engine."""

import json
from collections.abc import Sequence

import pytest

from deckhand.domain.errors import ConditionFailed, ItemTooLarge, StorageError
from deckhand.storage.port import (
    ABSENT,
    EXISTS,
    ITEM_BYTES,
    KEY_BYTES,
    OVERHEAD_BYTES,
    TABLES,
    Check,
    Condition,
    Delete,
    Item,
    Key,
    Op,
    Put,
    VersionIs,
)
from tests.stores import Shelf, new_token

LONE_SURROGATE = "\ud83d"


def refusal(shelf: Shelf, ops: Sequence[Op], *, token: str | None = None) -> ConditionFailed:
    with pytest.raises(ConditionFailed) as caught:
        shelf.store.write(ops, token=token or new_token())
    return caught.value


# Reading back


def test_an_item_that_was_never_written_is_absent(shelf: Shelf) -> None:
    assert shelf.get("a") is None


def test_an_item_comes_back_whole(shelf: Shelf) -> None:
    item = shelf.put("a", '{"n":1}', version=7, expires=int(shelf.clock.time) + 60)
    assert shelf.get("a") == item


@pytest.mark.parametrize(
    "body",
    [
        pytest.param('{"n":1}', id="integer"),
        pytest.param('{"n":1.0}', id="whole float"),
        pytest.param('{"n": 0.1, "big": 123456789012345678901234567890, "e": 1E5}', id="numbers"),
        pytest.param('{ "spaced" :  [ ] , "set": {} }', id="spaces and empty collections"),
        pytest.param('{"a":1,"a":2}', id="a name twice"),
        pytest.param('"line\u2028separator\u2029next\u0085"', id="line separators"),
        pytest.param('"👩‍👩‍👧 🇫🇮 e\u0301 \U0010ffff"', id="astral and combining characters"),
        pytest.param('"\\u0000 and \x00 itself"', id="NUL"),
        pytest.param('"\r\n\t\x7f"', id="control characters"),
        pytest.param("", id="nothing"),
        pytest.param('"' + "å" * 195_000 + '"', id="390,000 bytes"),
    ],
)
def test_a_body_is_kept_letter_by_letter(shelf: Shelf, body: str) -> None:
    shelf.put("a", body)
    assert shelf.get("a") == shelf.item("a", body)
    assert [item.body for item in shelf.store.query("deck", shelf.pk).items] == [body]


@pytest.mark.parametrize("word", ["name", "status", "ttl", "data", "user", "state", "token", "version", "body", ":pk"])
def test_reserved_words_are_ordinary_keys_and_names(shelf: Shelf, word: str) -> None:
    shelf.put(word, json.dumps({word: word}))
    shelf.put(word, json.dumps({word: 2}), version=2, condition=VersionIs(1))
    assert shelf.get(word) == shelf.item(word, json.dumps({word: 2}), version=2)


def test_tables_and_partitions_are_apart(shelf: Shelf) -> None:
    other = Shelf(shelf.store, shelf.clock, shelf.pk + "#more")
    for table in TABLES:
        shelf.put("a", f'"{table}"', table=table)
    other.put("a", '"other"')
    assert [shelf.get("a", table) for table in TABLES] == [
        shelf.item("a", f'"{table}"', table=table) for table in TABLES
    ]
    assert [item.body for item in shelf.store.query("deck", shelf.pk).items] == ['"deck"']


def test_a_put_without_a_condition_replaces_all_of_the_item(shelf: Shelf) -> None:
    shelf.put("a", "1", version=5, expires=int(shelf.clock.time) + 60)
    shelf.put("a", "2")
    assert shelf.get("a") == shelf.item("a", "2", version=1, expires=None)


# Order and ranges


def test_a_partition_is_in_the_byte_order_of_its_keys(shelf: Shelf) -> None:
    keys = shelf.fill(["b", "a", "B", "a#2", "a#10", "é", "ｚ", "😀", "\ue000", "~", "a\x00", "\U0010ffff"])
    assert shelf.keys() == sorted(keys, key=str.encode)


def test_padded_counters_keep_the_order_of_insertion(shelf: Shelf) -> None:
    keys = [f"m#{n:012d}" for n in range(1, 13)]
    for sk in keys:
        shelf.put(sk, condition=ABSENT)
    assert shelf.keys(prefix="m#") == keys


def test_a_prefix_takes_exactly_what_begins_with_it(shelf: Shelf) -> None:
    shelf.fill(["a", "m", "m#", "m#1", "m#😀", "m#\U0010ffff\U0010ffff", "m$", "n"])
    assert shelf.keys(prefix="m#") == ["m#", "m#1", "m#😀", "m#\U0010ffff\U0010ffff"]


@pytest.mark.parametrize("last", ["\ud7ff", "\U0010ffff", "\x7f", "ÿ"])
def test_a_prefix_may_end_in_any_character(shelf: Shelf, last: str) -> None:
    shelf.fill(["p", f"p{last}", f"p{last}x", "p\ue000", "q"])
    assert shelf.keys(prefix=f"p{last}") == [f"p{last}", f"p{last}x"]


def test_after_and_before_are_exclusive(shelf: Shelf) -> None:
    shelf.fill(list("abcde"))
    assert shelf.keys(after="b") == ["c", "d", "e"]
    assert shelf.keys(before="d") == ["a", "b", "c"]
    assert shelf.keys(after="a", before="e") == ["b", "c", "d"]


def test_bounds_need_not_be_keys_that_exist(shelf: Shelf) -> None:
    shelf.fill(["b", "d"])
    assert shelf.keys(after="a", before="c") == ["b"]


def test_prefix_and_bounds_combine(shelf: Shelf) -> None:
    shelf.fill(["a", "e#1", "e#2", "e#3", "e#4", "f"])
    assert shelf.keys(prefix="e#", after="e#1") == ["e#2", "e#3", "e#4"]
    assert shelf.keys(prefix="e#", before="e#3") == ["e#1", "e#2"]
    assert shelf.keys(prefix="e#", after="e#1", before="e#4") == ["e#2", "e#3"]
    assert shelf.keys(prefix="e#", after="a", before="f") == ["e#1", "e#2", "e#3", "e#4"]
    assert shelf.keys(prefix="e#", after="e#1", backwards=True, limit=2) == ["e#4", "e#3"]


@pytest.mark.parametrize("bounds", [{"after": "c", "before": "b"}, {"after": "b", "before": "b"}, {"prefix": "z"}])
def test_an_empty_range_has_no_items(shelf: Shelf, bounds: dict[str, str]) -> None:
    shelf.fill(list("abc"))
    page = shelf.store.query("deck", shelf.pk, **bounds)  # type: ignore[arg-type]
    assert (page.items, page.cursor) == ([], None)


def test_backwards_gives_the_last_first(shelf: Shelf) -> None:
    shelf.fill(list("abc"))
    assert shelf.keys(backwards=True) == ["c", "b", "a"]


# Pages


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 7, 8])
def test_cursors_lead_through_a_range_once(shelf: Shelf, limit: int, backwards: bool) -> None:
    keys = shelf.fill([f"m#{n}" for n in range(7)])
    shelf.fill(["a", "z"])
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = shelf.store.query("deck", shelf.pk, prefix="m#", backwards=backwards, limit=limit, cursor=cursor)
        assert len(page.items) <= limit
        seen += [item.sk for item in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == (keys[::-1] if backwards else keys)


def test_a_page_that_ends_the_range_has_no_cursor(shelf: Shelf) -> None:
    shelf.fill(list("abc"))
    assert shelf.store.query("deck", shelf.pk, limit=3).cursor is None
    assert shelf.store.query("deck", shelf.pk, limit=2).cursor is not None


def test_a_partition_of_several_megabytes_is_read_to_its_end(shelf: Shelf) -> None:
    body = '"' + "x" * 350_000 + '"'
    for n in range(7):
        shelf.put(f"m#{n}", body)
    page = shelf.store.query("deck", shelf.pk)
    assert [(item.sk, item.body == body) for item in page.items] == [(f"m#{n}", True) for n in range(7)]
    assert page.cursor is None


def test_a_limit_reaches_over_the_megabyte_of_one_call(shelf: Shelf) -> None:
    for n in range(5):
        shelf.put(f"m#{n}", '"' + "x" * 350_000 + '"')
    page = shelf.store.query("deck", shelf.pk, limit=4, backwards=True)
    assert [item.sk for item in page.items] == ["m#4", "m#3", "m#2", "m#1"]
    assert page.cursor is not None


def test_a_page_has_at_least_one_item(shelf: Shelf) -> None:
    with pytest.raises(StorageError):
        shelf.store.query("deck", shelf.pk, limit=0)


# Expiry (bug case 49)


def test_an_expired_item_is_absent_from_the_very_second_on(shelf: Shelf) -> None:
    shelf.put("a", expires=int(shelf.clock.time) + 60)
    shelf.clock.time += 59.9
    assert shelf.get("a") is not None
    shelf.clock.time += 0.1
    assert shelf.get("a") is None


def test_expired_items_are_left_out_of_a_query_and_do_not_count(shelf: Shelf) -> None:
    past = int(shelf.clock.time) - 60
    for n in range(9):
        shelf.put(f"m#{n}", expires=None if n in (4, 7) else past)
    page = shelf.store.query("deck", shelf.pk, limit=2)
    assert ([item.sk for item in page.items], page.cursor) == (["m#4", "m#7"], None)
    assert shelf.keys(limit=1) == ["m#4"]


def test_an_expired_item_does_not_stand_in_the_way_of_a_new_one(shelf: Shelf) -> None:
    shelf.put("lock", '"old"', expires=int(shelf.clock.time))
    shelf.put("lock", '"new"', condition=ABSENT)
    assert shelf.get("lock") == shelf.item("lock", '"new"')


@pytest.mark.parametrize("condition", [EXISTS, VersionIs(1)])
def test_an_expired_item_fails_what_asks_for_it(shelf: Shelf, condition: Condition) -> None:
    shelf.put("challenge", expires=int(shelf.clock.time))
    assert condition is not None
    ops: list[list[Op]] = [
        [Put(shelf.item("challenge"), condition)],
        [Delete(shelf.key("challenge"), condition)],
        [Put(shelf.item("b")), Check(shelf.key("challenge"), condition)],
    ]
    found = [refusal(shelf, each) for each in ops]
    assert [(failed.index, failed.item) for failed in found] == [(0, None), (0, None), (1, None)]


# Conditions


def test_absent_holds_where_nothing_is(shelf: Shelf) -> None:
    assert shelf.put("a", condition=ABSENT) == shelf.get("a")


def test_a_failed_absent_hands_back_what_is_there(shelf: Shelf) -> None:
    there = shelf.put("a", '"first"', version=3, expires=int(shelf.clock.time) + 60)
    failed = refusal(shelf, [Put(shelf.item("a", '"second"'), ABSENT)])
    assert (failed.index, failed.item) == (0, there)
    assert shelf.get("a") == there


def test_exists_holds_where_something_is(shelf: Shelf) -> None:
    shelf.put("a", "1")
    assert shelf.put("a", "2", condition=EXISTS) == shelf.get("a")


def test_a_failed_exists_hands_back_nothing(shelf: Shelf) -> None:
    failed = refusal(shelf, [Put(shelf.item("a"), EXISTS)])
    assert (failed.index, failed.item, shelf.get("a")) == (0, None, None)


def test_a_version_must_be_the_stored_one(shelf: Shelf) -> None:
    shelf.put("a", "1", version=9)
    shelf.put("a", "2", version=10, condition=VersionIs(9))
    failed = refusal(shelf, [Put(shelf.item("a", "3", version=10), VersionIs(9))])
    assert (failed.index, failed.item) == (0, shelf.item("a", "2", version=10))


def test_a_version_of_nothing_fails(shelf: Shelf) -> None:
    assert refusal(shelf, [Put(shelf.item("a"), VersionIs(1))]).item is None


def test_a_delete_without_a_condition_takes_what_is_there_or_nothing(shelf: Shelf) -> None:
    shelf.put("a")
    for _ in range(2):
        shelf.store.write([Delete(shelf.key("a"))], token=new_token())
    assert shelf.get("a") is None


def test_a_delete_may_have_a_condition(shelf: Shelf) -> None:
    there = shelf.put("a", version=2)
    failed = refusal(shelf, [Delete(shelf.key("a"), VersionIs(1))])
    assert (failed.index, failed.item, shelf.get("a")) == (0, there, there)
    shelf.store.write([Delete(shelf.key("a"), VersionIs(2))], token=new_token())
    assert shelf.get("a") is None


# Transactions


def test_a_transaction_writes_all_its_ops_over_several_tables(shelf: Shelf) -> None:
    old = shelf.put("old")
    new, turn = shelf.item("new"), shelf.item("turn", table="turns")
    shelf.store.write([Put(new, ABSENT), Delete(shelf.key("old"), EXISTS), Put(turn)], token=new_token())
    assert shelf.get(old.sk) is None
    assert (shelf.get("new"), shelf.get("turn", "turns")) == (new, turn)


def test_a_transaction_with_one_failed_condition_writes_nothing(shelf: Shelf) -> None:
    kept = shelf.put("kept")
    ops: list[Op] = [Put(shelf.item("new")), Delete(shelf.key("kept")), Put(shelf.item("other"), EXISTS)]
    failed = refusal(shelf, ops)
    assert (failed.index, failed.item) == (2, None)
    assert shelf.keys() == [kept.sk]


def test_the_first_op_that_failed_is_told_with_its_item(shelf: Shelf) -> None:
    there = shelf.put("b", '"there"', version=4)
    shelf.put("c")
    ops = [Put(shelf.item("a"), ABSENT), Put(shelf.item("b"), VersionIs(3)), Put(shelf.item("c"), ABSENT)]
    failed = refusal(shelf, ops)
    assert (failed.index, failed.item) == (1, there)


def test_a_check_holds_a_transaction_to_an_item_that_it_does_not_write(shelf: Shelf) -> None:
    there = shelf.put("conversation", version=2)
    ops: list[Op] = [Put(shelf.item("m#1")), Check(shelf.key("conversation"), VersionIs(1))]
    failed = refusal(shelf, ops)
    assert (failed.index, failed.item, shelf.get("m#1")) == (1, there, None)
    shelf.store.write([ops[0], Check(shelf.key("conversation"), VersionIs(2))], token=new_token())
    assert shelf.keys() == ["conversation", "m#1"]


def test_a_transaction_takes_a_hundred_ops(shelf: Shelf) -> None:
    keys = [f"m#{n:03d}" for n in range(100)]
    shelf.store.write([Put(shelf.item(sk), ABSENT) for sk in keys], token=new_token())
    assert shelf.keys() == keys
    failed = refusal(shelf, [Put(shelf.item(sk), ABSENT if sk == "m#099" else None) for sk in keys])
    assert failed.index == 99


# Repeated writes (bug case 47)


@pytest.mark.parametrize("condition", [ABSENT, None])
def test_a_repeated_put_finds_its_own_success(shelf: Shelf, condition: Condition) -> None:
    token = new_token()
    for _ in range(2):
        shelf.put("a", "1", condition=condition, token=token)
    assert shelf.get("a") == shelf.item("a", "1")


def test_a_put_that_moved_the_version_finds_its_own_success_later(shelf: Shelf) -> None:
    shelf.put("head", version=1)
    token = new_token()
    shelf.put("head", '"mine"', version=2, condition=VersionIs(1), token=token)
    shelf.clock.time += 3
    shelf.put("head", '"mine"', version=2, condition=VersionIs(1), token=token)
    assert shelf.get("head") == shelf.item("head", '"mine"', version=2)


def test_the_same_put_by_another_writer_fails(shelf: Shelf) -> None:
    there = shelf.put("lock", '"same"', condition=ABSENT)
    assert refusal(shelf, [Put(there, ABSENT)]).item == there


def test_a_repeated_delete_leaves_what_came_after_it(shelf: Shelf, engine: str) -> None:
    if engine == "moto":
        pytest.skip("moto ignores ClientRequestToken")
    shelf.put("a", "1")
    token = new_token()
    shelf.store.write([Delete(shelf.key("a"), VersionIs(1))], token=token)
    after = shelf.put("a", "2", condition=ABSENT)
    shelf.store.write([Delete(shelf.key("a"), VersionIs(1))], token=token)
    assert shelf.get("a") == after


def test_a_delete_repeated_later_finds_its_own_success(shelf: Shelf, engine: str) -> None:
    if engine == "moto":
        pytest.skip("moto ignores ClientRequestToken")
    shelf.put("a")
    token = new_token()
    for _ in range(2):
        shelf.store.write([Delete(shelf.key("a"), EXISTS)], token=token)
        shelf.clock.time += 3
    assert shelf.get("a") is None


def test_the_same_delete_by_another_writer_fails(shelf: Shelf) -> None:
    shelf.put("a")
    shelf.store.write([Delete(shelf.key("a"), EXISTS)], token=new_token())
    assert refusal(shelf, [Delete(shelf.key("a"), EXISTS)]).item is None


def test_a_repeated_transaction_changes_nothing(shelf: Shelf, engine: str) -> None:
    if engine == "moto":
        pytest.skip("moto ignores ClientRequestToken")
    shelf.put("head", version=1)
    token = new_token()
    ops: list[Op] = [Put(shelf.item("head", version=2), VersionIs(1)), Put(shelf.item("m#1", '"hello"'))]
    shelf.store.write(ops, token=token)
    edited = shelf.put("m#1", '"edited"')
    shelf.store.write(ops, token=token)
    assert shelf.get("m#1") == edited
    assert shelf.get("head") == shelf.item("head", version=2)


def test_a_transaction_repeated_later_finds_its_own_success(shelf: Shelf) -> None:
    shelf.put("head", version=1)
    token = new_token()
    for _ in range(2):
        ops: list[Op] = [Check(shelf.key("gone"), ABSENT), Put(shelf.item("head", version=2), VersionIs(1))]
        shelf.store.write(ops, token=token)
        shelf.clock.time += 3
    assert shelf.get("head") == shelf.item("head", version=2)


def test_the_same_transaction_by_another_writer_fails(shelf: Shelf) -> None:
    ops: list[Op] = [Put(shelf.item("a"), ABSENT), Put(shelf.item("b"), ABSENT)]
    shelf.store.write(ops, token=new_token())
    assert refusal(shelf, ops).index == 0


def test_a_refused_transaction_may_be_repeated_with_its_token(shelf: Shelf) -> None:
    token = new_token()
    ops: list[Op] = [Put(shelf.item("a")), Check(shelf.key("conversation"), EXISTS)]
    refusal(shelf, ops, token=token)
    shelf.put("conversation")
    shelf.store.write(ops, token=token)
    assert shelf.keys() == ["a", "conversation"]


def test_a_token_that_named_another_transaction_is_refused(shelf: Shelf, engine: str) -> None:
    if engine == "moto":
        pytest.skip("moto ignores ClientRequestToken")
    token = new_token()
    shelf.store.write([Put(shelf.item("a")), Put(shelf.item("b"))], token=token)
    with pytest.raises(StorageError):
        shelf.store.write([Put(shelf.item("c")), Put(shelf.item("d"))], token=token)
    assert shelf.keys() == ["a", "b"]


# Limits


def test_the_largest_item_fits_and_one_byte_more_does_not(shelf: Shelf, engine: str) -> None:
    if engine == "moto":
        pytest.skip("moto takes 405,000 bytes of its own counting at most")
    room = ITEM_BYTES - OVERHEAD_BYTES - len(shelf.pk) - len("a")
    shelf.put("a", "x" * room)
    with pytest.raises(ItemTooLarge):
        shelf.put("a", "x" * (room - 1) + "é")
    assert shelf.get("a") == shelf.item("a", "x" * room)


def test_a_transaction_of_over_four_megabytes_is_refused_whole(shelf: Shelf) -> None:
    ops = [Put(shelf.item(f"m#{n}", "x" * 390_000)) for n in range(11)]
    with pytest.raises(ItemTooLarge):
        shelf.store.write(ops, token=new_token())
    assert shelf.keys() == []


def test_the_longest_keys_fit(shelf: Shelf) -> None:
    item = Item("deck", shelf.pk.ljust(KEY_BYTES["pk"], "p"), "é" * (KEY_BYTES["sk"] // 2), "{}")
    shelf.store.write([Put(item, ABSENT)], token=new_token())
    assert shelf.store.get(Key("deck", item.pk, item.sk)) == item


@pytest.mark.parametrize(("pk", "sk"), [("", "a"), ("p", ""), ("p" * 2049, "a"), ("p", "é" * 513)])
def test_keys_outside_the_limits_are_refused_everywhere(shelf: Shelf, pk: str, sk: str) -> None:
    key = Key("deck", pk, sk)
    with pytest.raises(StorageError):
        shelf.store.write([Put(Item("deck", pk, sk, "{}"))], token=new_token())
    with pytest.raises(StorageError):
        shelf.store.get(key)
    with pytest.raises(StorageError):
        shelf.store.delete_many([key])


def test_a_lone_surrogate_is_refused_everywhere(shelf: Shelf) -> None:
    with pytest.raises(StorageError):
        shelf.put("a", LONE_SURROGATE)
    with pytest.raises(StorageError):
        shelf.put(LONE_SURROGATE)
    with pytest.raises(StorageError):
        shelf.get(LONE_SURROGATE)
    for bound in ("prefix", "after", "before", "cursor"):
        with pytest.raises(StorageError):
            shelf.keys(**{bound: LONE_SURROGATE})


def test_a_write_of_none_or_over_a_hundred_ops_is_refused(shelf: Shelf) -> None:
    for count in (0, 101):
        with pytest.raises(StorageError):
            shelf.store.write([Put(shelf.item(f"m#{n}")) for n in range(count)], token=new_token())
    assert shelf.keys() == []


def test_a_key_named_twice_is_refused(shelf: Shelf) -> None:
    with pytest.raises(StorageError):
        shelf.store.write([Put(shelf.item("a")), Delete(shelf.key("a"))], token=new_token())
    assert shelf.keys() == []


def test_a_check_alone_is_refused(shelf: Shelf) -> None:
    with pytest.raises(StorageError):
        shelf.store.write([Check(shelf.key("a"), ABSENT)], token=new_token())


# Many at once (bug case 48)


def test_sixty_items_are_deleted_and_the_others_stay(shelf: Shelf) -> None:
    keys = shelf.fill([f"m#{n:02d}" for n in range(60)])
    shelf.fill(["conversation"])
    shelf.store.delete_many([shelf.key(sk) for sk in keys])
    assert shelf.keys() == ["conversation"]


def test_deleting_nothing_is_fine(shelf: Shelf) -> None:
    shelf.fill(["a"])
    shelf.store.delete_many([])
    assert shelf.keys() == ["a"]


def test_deleting_many_takes_absent_and_repeated_keys_in_any_table(shelf: Shelf) -> None:
    shelf.put("a", table="deck")
    shelf.put("b", table="turns")
    keys = [shelf.key("a"), shelf.key("b", "turns"), shelf.key("never")]
    shelf.store.delete_many(keys * 2)
    assert (shelf.get("a"), shelf.get("b", "turns")) == (None, None)
