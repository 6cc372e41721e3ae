"""JSON as it is kept: read back exactly, or refused."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain.errors import InvalidJson
from deckhand.domain.json_text import MAX_DEPTH, dumps, loads

UNICODE = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | UNICODE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(UNICODE, inner, max_size=4),
    max_leaves=20,
)


def exact(value: Any) -> Any:
    """The value with its types, so that 1, 1.0 and true are apart, as are 0.0 and -0.0."""
    if isinstance(value, list):
        return [exact(item) for item in value]
    if isinstance(value, dict):
        return [(name, exact(item)) for name, item in value.items()]
    return type(value), repr(value)


@given(VALUES)
def test_any_value_is_read_back_exactly(value: Any) -> None:
    assert exact(loads(dumps(value))) == exact(value)
    assert exact(loads(dumps(value).encode())) == exact(value)


@given(VALUES)
def test_text_with_escapes_and_blanks_means_the_same(value: Any) -> None:
    assert exact(loads(json.dumps(value, indent=1))) == exact(value)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", '{"a":[NaN]}', "1e400", "-1e400", "[1e999]"])
def test_numbers_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InvalidJson):
        loads(text)


@pytest.mark.parametrize("value", [math.nan, math.inf, [-math.inf]])
def test_numbers_that_are_none_are_not_written(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        dumps(value)


@pytest.mark.parametrize("text", ['{"a":1,"a":1}', '[{"b":{"a":1,"c":2,"a":3}}]', '{"\\u0061":1,"a":2}'])
def test_a_name_twice_in_one_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidJson):
        loads(text)


def test_a_name_may_stand_in_several_objects() -> None:
    assert loads('[{"a":{"a":1}},{"a":2}]') == [{"a": {"a": 1}}, {"a": 2}]


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_of_64_is_taken_and_of_65_is_refused(opening: str, closing: str) -> None:
    def nested(depth: int) -> str:
        return opening * depth + "1" + closing * depth

    loads(nested(MAX_DEPTH))
    with pytest.raises(InvalidJson):
        loads(nested(MAX_DEPTH + 1))


def test_nesting_that_would_exhaust_the_parser_is_refused() -> None:
    with pytest.raises(InvalidJson):
        loads("[" * 1_000_000)


def test_brackets_in_strings_do_not_count_as_nesting() -> None:
    text = json.dumps(['\\"' + "[{" * 200, *[[] for _ in range(200)]])
    assert loads(text)[0] == '\\"' + "[{" * 200


@pytest.mark.parametrize("text", ['"\\ud800"', '{"a":"x\\udfff"}', '{"\\ud800":1}', '"\ud800"', '{"\udc00":1}'])
def test_lone_surrogates_are_refused_escaped_or_raw(text: str) -> None:
    with pytest.raises(InvalidJson):
        loads(text)


def test_a_pair_of_escaped_surrogates_is_one_character() -> None:
    assert loads('"\\ud83c\\udf75"') == "🍵"


def test_integers_keep_every_digit() -> None:
    digits = "9" * 4_300
    assert dumps(loads(f"[{digits},-{digits}]")) == f"[{digits},-{digits}]"


def test_more_digits_than_can_be_read_in_bounded_time_are_refused() -> None:
    with pytest.raises(InvalidJson):
        loads("9" * 4_301)


@pytest.mark.parametrize("text", ["", " ", "{", "[1,]", "{'a':1}", "nul", "1 2", "\ufeff1", "01", "+1", '"\n"'])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidJson):
        loads(text)


@pytest.mark.parametrize("data", [b'"\xff"', b"\xed\xa0\x80", '"é"'.encode("latin-1")])
def test_bytes_that_are_not_utf8_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidJson):
        loads(data)
