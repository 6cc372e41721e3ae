"""The chat routes: start a turn, reattach, stop, status."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from deckhand.domain.access import Sees
from deckhand.domain.audit import entry
from deckhand.domain.errors import ChatNotConfigured, NotAllowed, NoTurnRunning, Unauthenticated, UnknownConversation
from deckhand.domain.principal import Principal
from deckhand.domain.times import iso
from deckhand.domain.turn import Head
from deckhand.edge.answer import json_answer, no_content
from deckhand.edge.app import Route
from deckhand.edge.chat_request import ChatRequest, PageContext, read_chat_request
from deckhand.edge.direct import DirectChat
from deckhand.edge.request import Request
from deckhand.edge.shapes import ChatStatus, RunningTurn
from deckhand.edge.turn_answer import TurnAnswers, time_left
from deckhand.storage.audit import put_entry
from deckhand.storage.conversations import Owner
from deckhand.storage.turns import Running
from deckhand.turns.chat import Chats, TurnWish
from deckhand.turns.context import TurnContext
from deckhand.turns.idempotency import Claimed, claim
from deckhand.turns.replay import attach
from deckhand.turns.start import NewTurn, owner_of
from deckhand.turns.stop import stop_turn
from deckhand.turns.sweep import running_turns

CURSOR_DIGITS = 15
OPERATORS = ("owner", "operator")
"""Who may see that turns run, and stop them, whoever's they are."""


class ChatRoutes:
    """`chats` is None while no gateway is configured; `sees` says in which of their conversations somebody may chat."""

    def __init__(
        self,
        *,
        context: TurnContext,
        chats: Chats | None,
        answers: TurnAnswers,
        authenticate: Callable[[Request], Principal],
        sees: Callable[[Principal], Sees],
        operator: Callable[[Request], Principal],
        direct: DirectChat,
        status: ChatStatus,
    ) -> None:
        self._context, self._chats, self._answers = context, chats, answers
        self._authenticate, self._sees, self._operator = authenticate, sees, operator
        self._direct, self._status = direct, status

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/api/chat", self._post),
            Route("GET", "/api/chat/status", self._get_status),
            Route("GET", "/api/chat/turns", self._running),
            Route("DELETE", "/api/chat/turns", self._stop_all),
            Route("GET", "/api/chat/turn/{conversationId}", self._reattach),
            Route("DELETE", "/api/chat/turn/{conversationId}", self._stop),
        ]

    def _post(self, request: Request, _: Mapping[str, str], context: Any) -> Any:
        if self._direct.wanted(request):
            left = time_left(context)
            return self._direct.answer(request, lambda text: TurnWish(messages=[("user", text)], time_left=left))
        principal = self._authenticate(request)
        wanted = read_chat_request(request)
        wish = _wish(wanted, context)
        if wanted.conversation is None:
            run = self._configured().client_transcript(principal, wish)
            return self._answers.of_run(run, stream=wanted.stream, turn_id=None)
        self._context.conversations.find(owner_of(principal), wanted.conversation)
        self._enter(principal, wanted.conversation)
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
            return self._answers.of_known(owner_of(principal), started, stream=wanted.stream)
        turn, run = started
        return self._answers.of_run(run, stream=wanted.stream, turn_id=turn.id)

    def _enter(self, principal: Principal, conversation: str) -> None:
        if not self._sees(principal)(conversation):
            raise NotAllowed()

    def _configured(self) -> Chats:
        if self._chats is None:
            raise ChatNotConfigured()
        return self._chats

    def _get_status(self, request: Request, *_: Any) -> Any:
        self._authenticate(request)
        return json_answer(200, self._status)

    def _running(self, request: Request, *_: Any) -> Any:
        found = self._reach(self._operator_or_caller(request))
        turns: list[RunningTurn] = [
            {
                "conversationId": running.conversation,
                "turnId": head.turn_id,
                "startedAt": iso(head.started_at),
                "steps": head.steps,
                "phase": head.phase,
                "principal": head.principal,
            }
            for running, head in found
        ]
        return json_answer(200, {"turns": turns})

    def _reattach(self, request: Request, parts: Mapping[str, str], _: Any) -> Any:
        principal = self._authenticate(request)
        self._enter(principal, parts["conversationId"])
        after = _cursor(request)
        attachment = attach(self._context, principal, parts["conversationId"], after)
        if attachment is None:
            return no_content()
        return self._answers.of_attachment(attachment)

    def _stop_all(self, request: Request, *_: Any) -> Any:
        """The caller's own; an operator's stops all."""
        stopped = []
        principal = self._operator_or_caller(request)
        for running, head in self._reach(principal):
            with suppress(NoTurnRunning, UnknownConversation):
                owner = Owner(principal.tenant, running.user)
                stopped.append(self._stopped(principal, owner, running.conversation, head.turn_id))
        return json_answer(200, {"ok": True, "turnIds": stopped})

    def _reach(self, principal: Principal) -> list[tuple[Running, Head]]:
        """The running turns that a caller may see and stop, though not read: an operator's are all."""
        if _is_operator(principal):
            return running_turns(self._context, principal.tenant, None)
        sees = self._sees(principal)
        found = running_turns(self._context, principal.tenant, principal.user)
        return [(running, head) for running, head in found if sees(running.conversation)]

    def _operator_or_caller(self, request: Request) -> Principal:
        try:
            return self._operator(request)
        except Unauthenticated:
            return self._authenticate(request)

    def _stop(self, request: Request, parts: Mapping[str, str], _: Any) -> Any:
        principal = self._operator_or_caller(request)
        if not _is_operator(principal):
            self._enter(principal, parts["conversationId"])
        conversation, turn_id = parts["conversationId"], request.query.get("turnId") or None
        owner = next(
            (Owner(principal.tenant, e.user) for e, _ in self._reach(principal) if e.conversation == conversation),
            owner_of(principal),
        )
        return json_answer(200, {"ok": True, "turnId": self._stopped(principal, owner, conversation, turn_id)})

    def _stopped(self, principal: Principal, owner: Owner, conversation: str, turn_id: str | None) -> str:
        """Stops a turn and returns its id; another person's is in the audit. Raises what `stop_turn` raises."""
        stopped = stop_turn(self._context, owner, conversation, turn_id)
        if owner.user != principal.user:
            told = entry(
                principal,
                "api",
                "stop_turn",
                "succeeded",
                id=self._context.new_id(),
                at=self._context.now(),
                conversation=conversation,
                turn_id=stopped,
            )
            self._context.store.write([put_entry(owner.tenant, told)], token=told.id)
        return stopped


def _is_operator(principal: Principal) -> bool:
    """A token that is narrowed is none, whoever's it is."""
    return principal.role in OPERATORS and principal.operations is None and principal.cards is None


def _wish(wanted: ChatRequest, context: Any) -> TurnWish:
    return TurnWish(
        messages=wanted.messages,
        voice=wanted.voice,
        viewed_card=wanted.viewed_card,
        page=_page(wanted.context),
        time_left=time_left(context),
    )


def _page(context: PageContext | None) -> str | None:
    if context is None:
        return None
    named = [f"{name}: {value}" for name, value in context.model_dump(exclude_none=True).items() if value]
    return "Where the person is in the app: " + ", ".join(named) if named else None


def _cursor(request: Request) -> int:
    """The header wins; what is not a non-negative integer counts as 0."""
    given = request.headers.get("last-event-id", request.query.get("after", "0")).strip()
    if not (given.isascii() and given.isdigit()):
        return 0
    # More digits than any id has say no more than these: beyond every event.
    return int(given.lstrip("0")[:CURSOR_DIGITS] or "0")
