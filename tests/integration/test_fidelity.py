"""Whatever JSON is written is what is read back; what could not be is refused and changes nothing."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deckhand.storage.sqlite import SqliteStore
from tests.deck import Deck, manifest
from tests.stores import Clock

PATH = "/api/manifests/weight"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = TEXT | st.sampled_from(["__proto__", "constructor", "toString", "", "$ref", "\x00", "id", "version", "null"])
NUMBERS = st.integers() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=15,
)


@pytest.fixture(scope="module")
def deck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deck]:
    """One for all examples; each writes a card of its own or all of the data."""
    folder: Path = tmp_path_factory.mktemp("deck")
    with closing(SqliteStore(":memory:", now=Clock())) as store:
        made = Deck(folder, store)
        made.create(data=[])
        yield made


def exact(value: Any) -> Any:
    """The value with its types and the order of its names, so that 1, 1.0 and true are apart."""
    if isinstance(value, list):
        return [exact(item) for item in value]
    if isinstance(value, dict):
        return [(name, exact(item)) for name, item in value.items()]
    return type(value), repr(value)


def many(test: Any) -> Any:
    return settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)(test)


@many
@given(value=VALUES.filter(lambda value: not isinstance(value, str)))
def test_any_data_is_read_back_exactly(deck: Deck, value: Any) -> None:
    assert deck("POST", f"{PATH}/data", {"data": value}).status == 200
    assert exact(deck.data()) == exact(value)
    assert exact(deck.get(PATH)["data"]) == exact(value)


@many
@given(value=VALUES)
def test_any_row_is_read_back_exactly(deck: Deck, value: Any) -> None:
    deck("POST", f"{PATH}/data", {"data": []})
    deck.append("weight", value)
    (row,) = deck.get(f"{PATH}/rows")["rows"]
    assert exact(row["value"]) == exact(value)


@many
@given(changes=st.dictionaries(NAMES, VALUES.filter(lambda value: value is not None), max_size=4))
def test_any_change_of_a_row_is_read_back_exactly(deck: Deck, changes: dict[str, Any]) -> None:
    flat = {name: value for name, value in changes.items() if not isinstance(value, dict)}
    deck("POST", f"{PATH}/data", {"data": [{}]})
    (row,) = deck.get(f"{PATH}/rows")["rows"]
    assert deck("PATCH", f"{PATH}/rows/{row['rowId']}", {"changes": flat}).status == 200
    assert exact(deck.data()) == exact([flat])


@many
@given(own=VALUES)
def test_any_part_of_a_manifest_that_is_not_constrained_is_read_back_exactly(deck: Deck, own: Any) -> None:
    deck("DELETE", "/api/manifests/own")
    made = manifest("own", own={"value": own}, view={"component": own, "display": own})
    assert deck("POST", "/api/manifests", made).status == 201
    assert exact(deck.get("/api/manifests/own")["meta"]) == exact(made["meta"])


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "1.0",
        "-0.0",
        "0.1",
        "1e308",
        "5e-324",
        "123456789012345678901234567890",
        "9007199254740993",
        '"\\u0000"',
        '"é"',
        '"e\\u0301"',
        '"🙂"',
        '"\\ud83d\\ude42"',
        '"\u2028"',
        "{}",
        "[]",
        '{"a":{}}',
    ],
)
def test_a_value_is_kept_to_the_letter(deck: Deck, text: str) -> None:
    raw = f'{{"data":[{text}]}}'.encode()
    assert deck("POST", f"{PATH}/data", raw=raw).status == 200
    assert exact(deck.data()) == exact([json.loads(text)])


REFUSED = {
    "nan": b"NaN",
    "infinity": b"-Infinity",
    "beyond doubles": b"1e400",
    "a name twice": b'{"a":1,"a":1}',
    "a name twice, escaped": b'{"a":1,"\\u0061":1}',
    "a lone surrogate": b'"\\ud800"',
    "a lone surrogate as a name": b'{"\\udfff":1}',
    "a surrogate in bytes": b'"\xed\xa0\x80"',
    "no UTF-8": b'"\xff"',
    "too many digits": b"1" * 5000,
    "no JSON": b"{a:1}",
    "a byte order mark": b"\xef\xbb\xbf1",
    "something behind it": b"1 2",
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize(
    ("method", "path", "frame"),
    [
        ("POST", "/api/manifests", b'{"$schema":"klebb.datafile.v1","meta":{"id":"new","label":"N","own":%s}}'),
        ("PATCH", PATH, b'{"meta":{"own":%s}}'),
        ("POST", f"{PATH}/data", b'{"data":[%s]}'),
        ("POST", f"{PATH}/rows", b'{"value":%s}'),
    ],
)
def test_what_could_not_be_read_back_is_400_and_changes_nothing(
    deck: Deck, what: str, method: str, path: str, frame: bytes
) -> None:
    before = deck.everything()
    answer = deck(method, path, raw=frame % REFUSED[what])
    assert (answer.status, answer.code) == (400, "invalid_json")
    assert deck.everything() == before


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def test_nesting_of_64_passes_and_of_65_is_refused(deck: Deck) -> None:
    assert deck("POST", f"{PATH}/data", raw=b'{"data":' + nested(63) + b"}").status == 200
    kept = deck.data()
    answer = deck("POST", f"{PATH}/data", raw=b'{"data":' + nested(64) + b"}")
    assert (answer.status, answer.code) == (400, "invalid_json")
    assert deck.data() == kept == json.loads(nested(63))


@pytest.mark.parametrize("raw", [b"[" * 3_000_000, b'{"a":' * 500_000, b'"' + b'\\"' * 2_000_000, b'["' * 1_000_000])
def test_bodies_made_to_exhaust_a_parser_are_refused(deck: Deck, raw: bytes) -> None:
    assert deck("POST", f"{PATH}/data", raw=raw).status == 400
