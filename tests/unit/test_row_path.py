"""The path language for places inside a card's data."""

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from deckhand.domain.errors import Ambiguous, BadPath, NoMatch, WrongType
from deckhand.domain.row_path import MAX_PATH, Filter, Name, at_place, locate, parse, replaced

STACK = {
    "items": [
        {"name": "Zinc", "doses": [{"n": 1}, {"n": 2}]},
        {"name": 'the "other" one', "taken": True, "dose": 1.5},
        {"name": "Zinc 2", "taken": 1, "index": 7},
    ]
}
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,6}", fullmatch=True)
LITERALS = st.text(max_size=8) | st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6) | st.booleans()


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("", ()),
        ("items", ("items",)),
        ('items[name="Zinc"]', ("items", 0)),
        ("items[name='Zinc'].doses[index=1].n", ("items", 0, "doses", 1, "n")),
        ('items[name="the \\"other\\" one"]', ("items", 1)),
        ("items[dose=1.5]", ("items", 1)),
        ("items[taken=true]", ("items", 1)),
        ("items[taken=1]", ("items", 2)),
        ("items[index=2].name", ("items", 2, "name")),
    ],
)
def test_a_path_leads_to_one_place(path: str, place: tuple[str | int, ...]) -> None:
    assert locate(STACK, path) == place


def test_a_filter_may_come_first_in_a_list() -> None:
    assert locate([{"date": "2026-04-19"}, {"date": "2026-04-20"}], '[date="2026-04-20"]') == (1,)


@pytest.mark.parametrize(
    "path",
    [
        ".",
        "items.",
        ".items",
        "items..doses",
        "items[",
        "items[]",
        "items[name]",
        "items[name=]",
        'items[name="Zinc"',
        'items[name="Zinc]',
        "items[name=Zinc]",
        "items[name=tru]",
        "items[name=01]",
        "items[name=+1]",
        "items[name=NaN]",
        "items[name=null]",
        "items doses",
        'items[name="Zinc"]doses',
        "1items",
        "items[0]",
        "/etc/passwd",
        "a" * (MAX_PATH + 1),
    ],
)
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(BadPath):
        locate(STACK, path)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("doses", NoMatch),
        ('items[name="zinc"]', NoMatch),
        ('items[taken="1"]', NoMatch),
        ('items[dose="1.5"]', NoMatch),
        ("items[index=3]", NoMatch),
        ("items[index=-1]", NoMatch),
        ("items.name", WrongType),
        ("[index=0]", WrongType),
        ('items[name="Zinc"].name.first', WrongType),
    ],
)
def test_a_path_that_leads_nowhere_says_so(path: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        locate(STACK, path)


def test_a_filter_that_fits_several_elements_is_ambiguous() -> None:
    with pytest.raises(Ambiguous, match="2 elements"):
        locate([{"a": 1}, {"a": 1.0}], "[a=1]")


def test_true_is_not_1_and_1_is_not_true() -> None:
    assert locate([{"a": True}, {"a": 1}], "[a=1]") == (1,)
    assert locate([{"a": True}, {"a": 1}], "[a=true]") == (0,)


def test_an_integer_beyond_doubles_is_found_exactly() -> None:
    assert locate([{"a": 2**60}, {"a": 2**60 + 1}], f"[a={2**60 + 1}]") == (1,)


@given(st.lists(NAMES, min_size=1, max_size=5))
def test_any_names_joined_by_dots_are_read_back(names: list[str]) -> None:
    assert parse(".".join(names)) == tuple(Name(name) for name in names)


@given(NAMES, LITERALS)
def test_any_literal_is_read_back_with_its_type(name: str, value: Any) -> None:
    written = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else quoted(value)
    (step,) = parse(f"[{name}={written}]")
    assert step == Filter(name, value)
    assert isinstance(step, Filter)
    assert type(step.value) is type(value)


@given(st.lists(st.dictionaries(st.sampled_from("ab"), LITERALS), max_size=6), st.sampled_from("ab"), LITERALS)
def test_a_found_element_is_the_only_one_that_has_the_value(rows: list[Any], key: str, value: Any) -> None:
    assume(key != "index")
    written = json.dumps(value) if not isinstance(value, str) else quoted(value)
    equal = [n for n, row in enumerate(rows) if key in row and same(row[key], value)]
    try:
        assert [locate(rows, f"[{key}={written}]")[0]] == equal
    except NoMatch:
        assert equal == []
    except Ambiguous:
        assert len(equal) > 1


@given(st.text(max_size=40))
def test_any_text_is_a_path_or_is_refused_as_one(path: str) -> None:
    try:
        parse(path)
    except BadPath as refused:
        assert "character" in str(refused)  # noqa: PT017 - most texts are refused, some are not


def test_what_is_put_at_a_place_is_there_and_the_rest_is_as_it_was() -> None:
    before = copy.deepcopy(STACK)
    place = locate(STACK, 'items[name="Zinc"].doses[index=1]')
    changed = replaced(STACK, place, "new")
    assert before == STACK
    assert at_place(changed, place) == "new"
    assert replaced(changed, place, {"n": 2}) == STACK


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def same(left: Any, right: Any) -> bool:
    kinds = [bool if isinstance(one, bool) else str if isinstance(one, str) else float for one in (left, right)]
    return kinds[0] is kinds[1] and left == right
