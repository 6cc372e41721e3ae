"""Proxy answers in their two shapes."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.edge.proxy_answer import chunks, is_proxy_answer, joined, prelude

PIECES = st.lists(st.one_of(st.binary(), st.text(st.characters(codec="utf-8"))))


def as_bytes(pieces: list[bytes | str]) -> bytes:
    return b"".join(piece.encode() if isinstance(piece, str) else piece for piece in pieces)


@given(PIECES)
def test_both_shapes_hold_the_same_bytes(pieces: list[bytes | str]) -> None:
    plain = joined({"statusCode": 200, "body": iter(pieces)})
    body = base64.b64decode(plain["body"]) if plain["isBase64Encoded"] else plain["body"].encode()
    assert body == as_bytes(pieces) == b"".join(chunks({"statusCode": 200, "body": iter(pieces)}))


@given(PIECES)
def test_no_chunk_is_ever_empty(pieces: list[bytes | str]) -> None:
    assert all(chunks({"statusCode": 200, "body": iter(pieces)}))


@given(PIECES)
def test_a_joined_answer_is_joined_only_once(pieces: list[bytes | str]) -> None:
    once = joined({"statusCode": 200, "body": iter(pieces)})
    assert joined(once) == once


def test_the_prelude_holds_no_body() -> None:
    assert json.loads(prelude({"statusCode": 200, "body": "secret", "isBase64Encoded": False})) == {"statusCode": 200}


def test_chunks_are_made_one_by_one() -> None:
    made = []

    def pieces() -> object:
        for number in range(3):
            made.append(number)
            yield str(number)

    reading = chunks({"statusCode": 200, "body": pieces()})
    next(reading)
    assert made == [0]


@pytest.mark.parametrize("result", [None, "text", b"bytes", [], {"fired": 3}, {"statusCode": "200"}])
def test_other_results_are_no_proxy_answers(result: object) -> None:
    assert not is_proxy_answer(result)
