"""The terminal's own reading of streams."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain.events import Event
from deckhand.edge.sse import OPENING, PING, frame
from infra.local.sse_client import EventReader, Message

STREAM = (
    OPENING
    + frame(Event("status", {"phase": "thinking"}), 1)
    + frame(Event("token", {"text": "té 🍵\u2028\r\n\u0085 data: x"}), 2)
    + PING
    + frame(Event("done", {}), 3)
)
MESSAGES = [
    Message(1, "status", {"phase": "thinking"}),
    Message(2, "token", {"text": "té 🍵\u2028\r\n\u0085 data: x"}),
    Message(3, "done", {}),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=30), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_any_split_and_any_line_end_give_the_same_events(cuts: list[int], end: bytes) -> None:
    stream = STREAM.replace(b"\n", end)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    reader = EventReader()
    chunks = [stream[a:b] for a, b in pairwise(edges)]
    assert [message for chunk in chunks for message in reader.feed(chunk)] == MESSAGES


def test_an_event_without_its_blank_line_is_not_told() -> None:
    assert list(EventReader().feed(frame(Event("done", {}), 1)[:-1])) == []
