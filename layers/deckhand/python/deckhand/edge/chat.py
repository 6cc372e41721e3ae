"""The chat routes: start a turn, reattach, stop, status."""

from collections.abc import Callable, Mapping
from typing import Any

from deckhand.domain.errors import ChatNotConfigured, TurnLost
from deckhand.domain.events import Event
from deckhand.domain.principal import Principal
from deckhand.domain.times import iso
from deckhand.edge.answer import json_answer, no_content, stream_answer
from deckhand.edge.app import Route
from deckhand.edge.chat_request import ChatRequest, PageContext, read_chat_request
from deckhand.edge.direct import DirectChat
from deckhand.edge.errors import status_of
from deckhand.edge.live import EventLoopThread, Live, Publish, Told
from deckhand.edge.request import Request
from deckhand.storage.conversations import Owner
from deckhand.turns.chat import Chats, TurnWish
from deckhand.turns.context import TurnContext
from deckhand.turns.idempotency import Claimed, claim
from deckhand.turns.replay import Attachment, attach, replay
from deckhand.turns.start import NewTurn, owner_of
from deckhand.turns.stop import stop_turn
from deckhand.turns.sweep import running_turns

# Kept for the finish when the platform ends the process.
FINISH_MARGIN_S = 10.0


class ChatRoutes:
    """`chats` is None while no gateway is configured."""

    def __init__(
        self,
        *,
        context: TurnContext,
        chats: Chats | None,
        thread: EventLoopThread,
        authenticate: Callable[[Request], Principal],
        direct: DirectChat,
        status: Mapping[str, Any],
    ) -> None:
        self._context, self._chats, self._thread = context, chats, thread
        self._authenticate, self._direct, self._status = authenticate, direct, status

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/api/chat", self._post),
            Route("GET", "/api/chat/status", self._get_status),
            Route("GET", "/api/chat/turns", self._running),
            Route("GET", "/api/chat/turn/{conversationId}", self._reattach),
            Route("DELETE", "/api/chat/turn/{conversationId}", self._stop),
        ]

    def _post(self, request: Request, _: Mapping[str, str], context: Any) -> Any:
        if self._direct.wanted(request):
            left = _time_left(context)
            return self._direct.answer(request, lambda text: TurnWish(messages=[("user", text)], time_left=left))
        principal = self._authenticate(request)
        wanted = read_chat_request(request)
        wish = _wish(wanted, context)
        if wanted.conversation is None:
            run = self._configured().client_transcript(principal, wish)
            return self._answer(Live(self._thread, run), wanted, turn_id=None)
        self._context.conversations.find(owner_of(principal), wanted.conversation)
        chats, key = self._configured(), request.headers.get("idempotency-key")
        new = NewTurn(
            principal=principal,
            conversation=wanted.conversation,
            texts=[content for _, content in wanted.messages],
            page=wish.page,
            claim=None if key is None else claim(principal, key, request.body),
        )
        started = chats.start(new, wish, on_busy=wanted.on_busy)
        if isinstance(started, Claimed):
            return self._join(owner_of(principal), started, wanted)
        turn, run = started
        return self._answer(Live(self._thread, run), wanted, turn_id=turn.id)

    def _join(self, owner: Owner, known: Claimed, wanted: ChatRequest) -> Any:
        """The answer of a turn that was started before, from its start, or what was said of a queued message."""
        if known.turn_id is None:
            queued = {"queued": True, "conversationId": known.conversation, "messageId": known.message_id}
            return json_answer(202, queued)
        attachment = Attachment(owner, known.conversation, known.turn_id, known.first_event_id, after=0)
        live = Live(self._thread, lambda publish: _tell(self._context, attachment, publish))
        return self._answer(live, wanted, turn_id=known.turn_id)

    def _configured(self) -> Chats:
        if self._chats is None:
            raise ChatNotConfigured()
        return self._chats

    def _answer(self, live: Live, wanted: ChatRequest, *, turn_id: str | None) -> Any:
        return stream_answer(live) if wanted.stream else buffered(live.events(), turn_id)

    def _get_status(self, request: Request, *_: Any) -> Any:
        self._authenticate(request)
        return json_answer(200, self._status)

    def _running(self, request: Request, *_: Any) -> Any:
        principal = self._authenticate(request)
        found = running_turns(self._context, principal.tenant, None if principal.role == "owner" else principal.user)
        turns = [
            {
                "conversationId": entry.conversation,
                "turnId": head.turn_id,
                "startedAt": iso(head.started_at),
                "steps": head.steps,
                "phase": head.phase,
                "principal": head.principal,
            }
            for entry, head in found
        ]
        return json_answer(200, {"turns": turns})

    def _reattach(self, request: Request, parts: Mapping[str, str], _: Any) -> Any:
        principal = self._authenticate(request)
        after = _cursor(request)
        attachment = attach(self._context, principal, parts["conversationId"], after)
        if attachment is None:
            return no_content()
        return stream_answer(Live(self._thread, lambda publish: _tell(self._context, attachment, publish)))

    def _stop(self, request: Request, parts: Mapping[str, str], _: Any) -> Any:
        principal = self._authenticate(request)
        turn_id = stop_turn(
            self._context, owner_of(principal), parts["conversationId"], request.query.get("turnId") or None
        )
        return json_answer(200, {"ok": True, "turnId": turn_id})


async def _tell(context: TurnContext, attachment: Attachment, publish: Publish) -> None:
    async for numbered in replay(context, attachment):
        publish(numbered.id, numbered.event)


def buffered(told: list[Told], turn_id: str | None) -> Any:
    """The one JSON answer of a turn: what its closing event says."""
    closing = next((event for _, event in reversed(told) if event.name in ("reply", "stopped", "error")), None)
    if closing is None:
        closing = Event("error", TurnLost().as_body())
    if closing.name == "stopped":
        return json_answer(200, {"stopped": True, **({"turnId": turn_id} if turn_id else {})})
    if closing.name == "error":
        named = {"turnId": turn_id} if turn_id else {}
        return json_answer(status_of(closing.data["code"]), {**closing.data, **named})
    return json_answer(200, closing.data)


def _wish(wanted: ChatRequest, context: Any) -> TurnWish:
    return TurnWish(
        messages=wanted.messages,
        voice=wanted.voice,
        viewed_card=wanted.viewed_card,
        page=_page(wanted.context),
        time_left=_time_left(context),
    )


def _time_left(context: Any) -> float | None:
    """Seconds that the platform gives this process, less what the finish needs."""
    remaining = getattr(context, "get_remaining_time_in_millis", None)
    return None if remaining is None else max(1.0, remaining() / 1000 - FINISH_MARGIN_S)


def _page(context: PageContext | None) -> str | None:
    if context is None:
        return None
    named = [f"{name}: {value}" for name, value in context.model_dump(exclude_none=True).items() if value]
    return "Where the person is in the app: " + ", ".join(named) if named else None


def _cursor(request: Request) -> int:
    """The header wins; what is not a non-negative integer counts as 0."""
    given = request.headers.get("last-event-id", request.query.get("after", "0")).strip()
    return int(given) if given.isascii() and given.isdigit() and len(given) <= 15 else 0
