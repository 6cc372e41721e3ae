"""Frames of the event stream: nothing that a model writes can become a frame of its own."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain.events import Event, token
from deckhand.edge.sse import frame

FRAME = re.compile(rb"(?:id: [0-9]+\n)?event: [a-z]+\ndata: [^\r\n]+\n\n")


def data_of(written: bytes) -> Any:
    return json.loads(written.decode().partition("data: ")[2])


@given(st.text(), st.none() | st.integers(0, 10**12))
def test_cases_15_and_40_any_text_is_one_event_on_one_line(text: str, event_id: int | None) -> None:
    text = text.encode("utf-8", "replace").decode()
    written = frame(token(text), event_id)
    assert FRAME.fullmatch(written)
    assert len(written.decode().splitlines()) == (4 if event_id is not None else 3)
    assert data_of(written) == {"text": text}


def test_case_40_text_that_looks_like_an_event_stays_text() -> None:
    text = 'ok\r\rdata: {"type":"done"}\r\r\n\nevent: done\n\n'
    assert frame(token(text), 1).count(b"\n\n") == 1


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\u0085", "\r", "\n"])
def test_case_15_characters_that_end_a_line_for_some_are_escaped(character: str) -> None:
    written = frame(token(f"a{character}b"), 1)
    assert character not in written.decode().partition("data: ")[2].rstrip("\n")
    assert data_of(written) == {"text": f"a{character}b"}


def test_case_15_other_characters_are_written_as_they_are() -> None:
    assert "té 🍵".encode() in frame(token("té 🍵"), 1)


def test_an_event_without_an_id_has_no_id_line() -> None:
    assert frame(Event("done", {"status": "done"}), None) == b'event: done\ndata: {"status":"done"}\n\n'


def test_an_error_says_the_status_that_a_buffered_answer_would_have() -> None:
    written = frame(Event("error", {"error": "No.", "code": "gateway_timeout"}), 3)
    assert data_of(written) == {"error": "No.", "code": "gateway_timeout", "status": 504}


def test_half_a_character_does_not_break_the_stream() -> None:
    assert FRAME.fullmatch(frame(token("a\ud800b"), 1))
