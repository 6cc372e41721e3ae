"""Server-sent events: frames from a fixed alphabet, one JSON line of data, nothing in it that could end a line (bug
cases 15, 40).
"""

from deckhand.domain.events import Event
from deckhand.domain.json_text import dumps
from deckhand.edge.errors import status_of

CONTENT_TYPE = "text/event-stream"
HEADERS = {
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
PING = b": ping\n\n"
OPENING = b": deckhand\n\n"
HEARTBEAT_S = 15.0

# JSON already escapes CR and LF; these three end a line for some parsers only.
_LINE_ENDS = str.maketrans({"\u2028": "\\u2028", "\u2029": "\\u2029", "\u0085": "\\u0085"})


def frame(event: Event, event_id: int | None) -> bytes:
    """`error` gets the status that the buffered mode would have answered with."""
    data = event.data
    if event.name == "error":
        data = {**data, "status": status_of(data["code"])}
    text = dumps(data).translate(_LINE_ENDS)
    head = "" if event_id is None else f"id: {event_id}\n"
    return f"{head}event: {event.name}\ndata: {text}\n\n".encode("utf-8", "replace")
