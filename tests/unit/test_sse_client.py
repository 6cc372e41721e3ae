"""The client's reader of server-sent events, cut anywhere."""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain.events import Event
from deckhand.edge.sse import OPENING, PING, frame
from infra.local.sse_client import EventReader, MalformedEventError, Message

texts = st.text(alphabet='aé😀 \n\r\t":\u0085\u2028\u2029\ufeff', max_size=12)
events = st.lists(st.tuples(st.none() | st.integers(0, 10**9), st.sampled_from(["token", "reset"]), texts), max_size=6)
cuts = st.lists(st.integers(0, 400), max_size=30)


def read(raw: bytes, at: Sequence[int] = ()) -> list[Message]:
    return list(messages(raw, at))


def messages(raw: bytes, at: Sequence[int] = ()) -> Iterator[Message]:
    edges = [0, *sorted(min(cut, len(raw)) for cut in at), len(raw)]
    reader = EventReader()
    for start, end in pairwise(edges):
        yield from reader.feed(raw[start:end])


def outcome(raw: bytes, at: Sequence[int] = ()) -> list[Message | None]:
    """The events, and None in the place of one that cannot be read."""
    told: list[Message | None] = []
    try:
        told.extend(messages(raw, at))
    except MalformedEventError:
        told.append(None)
    return told


@given(events, cuts, st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_events_are_read_as_they_were_written_wherever_the_bytes_are_cut(
    written: list[tuple[int | None, Literal["token", "reset"], str]], at: list[int], line_end: bytes
) -> None:
    raw = OPENING + PING.join(frame(Event(name, {"text": text}), number) for number, name, text in written)
    assert read(raw.replace(b"\n", line_end), at) == [Message(i, name, {"text": text}) for i, name, text in written]


pieces = st.sampled_from(
    [b"\r", b"\n", b"id: 7", b"event:x", b"data: {}", b"data", b":", b" ", b"\xff", b"\xef\xbb\xbf"]
)


@given(st.lists(pieces, max_size=25), cuts)
def test_any_stream_gives_the_same_events_whole_or_cut(parts: list[bytes], at: list[int]) -> None:
    raw = b"".join(parts) + b'\n\ndata: {"n": 2}\n\n'
    assert outcome(raw, at) == outcome(raw)


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c"])
def test_only_lf_and_cr_end_a_line(mark: str) -> None:
    assert read(f"event: a{mark}b\ndata: {{}}\n\n".encode()) == [Message(None, f"a{mark}b", {})]


def test_a_carriage_return_and_its_line_feed_in_two_chunks_are_one_line_end() -> None:
    reader = EventReader()
    assert [list(reader.feed(part)) for part in (b"data: {}\r", b"\n", b"\r", b"\n")][2] == [
        Message(None, "message", {})
    ]


def test_a_blank_line_after_a_carriage_return_gives_its_event_at_once() -> None:
    assert list(EventReader().feed(b"data: {}\r\r")) == [Message(None, "message", {})]


def test_data_over_several_lines_is_joined_by_line_feeds() -> None:
    assert read(b'data: {"a":\ndata: 1}\n\n') == [Message(None, "message", {"a": 1})]


def test_a_byte_order_mark_is_passed_over() -> None:
    assert read(b"\xef\xbb\xbfdata: {}\n\n") == [Message(None, "message", {})]


def test_an_event_without_its_blank_line_is_none() -> None:
    assert read(b"event: done\ndata: {}\n") == []


def test_fields_of_one_event_do_not_reach_the_next() -> None:
    assert read(b"id: 4\nevent: token\ndata: {}\n\ndata: {}\n\n")[1] == Message(None, "message", {})


@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "²", "9" * 5000])
def test_an_id_that_is_no_event_id_counts_as_none(value: str) -> None:
    assert read(f"id: {value}\ndata: {{}}\n\n".encode()) == [Message(None, "message", {})]


@pytest.mark.parametrize("data", ["[1]", "3", "{", "[" * 100_000, "<html>"], ids=str.__len__)
def test_data_that_is_no_object_is_no_event_of_ours(data: str) -> None:
    with pytest.raises(MalformedEventError):
        read(f"data: {data}\n\n".encode())


def test_a_long_line_in_many_pieces_is_read_whole() -> None:
    raw = b"data: " + json.dumps({"text": "x" * 100_000}).encode() + b"\n\n"
    assert len(read(raw, list(range(0, len(raw), 7)))[0].data["text"]) == 100_000
