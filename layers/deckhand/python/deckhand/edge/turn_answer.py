"""What a request for a turn is answered with: its stream, or the one JSON object of its end."""

from typing import Any

from deckhand.domain.errors import TurnLost
from deckhand.domain.events import Event
from deckhand.edge.answer import json_answer, stream_answer
from deckhand.edge.errors import status_of
from deckhand.edge.live import EventLoopThread, Live, Publish, Told
from deckhand.storage.conversations import Owner
from deckhand.turns.chat import Run
from deckhand.turns.context import TurnContext
from deckhand.turns.idempotency import Claimed
from deckhand.turns.replay import Attachment, replay

# Kept for the finish when the platform ends the process.
FINISH_MARGIN_S = 10.0


class TurnAnswers:
    """Runs turns, and follows those that run, on the process's event loop."""

    def __init__(self, context: TurnContext, thread: EventLoopThread) -> None:
        self._context, self._thread = context, thread

    def of_run(self, run: Run, *, stream: bool, turn_id: str | None) -> Any:
        live = Live(self._thread, run)
        return stream_answer(live) if stream else buffered(live.events(), turn_id)

    def of_known(self, owner: Owner, known: Claimed, *, stream: bool) -> Any:
        """The answer of a turn that was started before, from its start, or what was said of a queued message."""
        if known.turn_id is None:
            queued = {"queued": True, "conversationId": known.conversation, "messageId": known.message_id}
            return json_answer(202, queued)
        attachment = Attachment(owner, known.conversation, known.turn_id, known.first_event_id, after=0)
        live = self._following(attachment)
        return stream_answer(live) if stream else buffered(live.events(), known.turn_id)

    def of_attachment(self, attachment: Attachment) -> Any:
        return stream_answer(self._following(attachment))

    def _following(self, attachment: Attachment) -> Live:
        async def tell(publish: Publish) -> None:
            async for numbered in replay(self._context, attachment):
                publish(numbered.id, numbered.event)

        return Live(self._thread, tell)


def buffered(told: list[Told], turn_id: str | None) -> Any:
    """The one JSON answer of a turn: what its closing event says."""
    closing = next((event for _, event in reversed(told) if event.name in ("reply", "stopped", "error")), None)
    if closing is None:
        closing = Event("error", TurnLost().as_body())
    named = {"turnId": turn_id} if turn_id else {}
    if closing.name == "stopped":
        return json_answer(200, {"stopped": True, **closing.data, **named})
    if closing.name == "error":
        return json_answer(status_of(closing.data["code"]), {**closing.data, **named})
    return json_answer(200, closing.data)


def time_left(context: Any) -> float | None:
    """Seconds that the platform gives this process, less what the finish needs."""
    remaining = getattr(context, "get_remaining_time_in_millis", None)
    return None if remaining is None else max(1.0, remaining() / 1000 - FINISH_MARGIN_S)
