"""The direct form of `POST /api/chat`: one message in, one reply out, for callers that hold the shared token (seed
002).
"""

import hashlib
import hmac
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from deckhand.domain.conversation import Header
from deckhand.domain.errors import (
    ChatDisabled,
    ChatInFlight,
    ConditionFailed,
    InvalidMessage,
    InvalidRequest,
    ProviderFailed,
    TurnRunning,
    Unauthenticated,
)
from deckhand.domain.principal import Principal
from deckhand.domain.times import iso
from deckhand.edge.answer import json_answer
from deckhand.edge.live import EventLoopThread, Live, Publish
from deckhand.edge.request import Request
from deckhand.turns.chat import Chats, Run, TurnWish
from deckhand.turns.context import TurnContext
from deckhand.turns.idempotency import Claimed
from deckhand.turns.slots import holding, take_slot
from deckhand.turns.start import NewTurn, owner_of

BODY_BYTES = 32 * 1024
MAX_SESSION_ID = 200
HEADER = "x-chat-token"
SERVICE = Principal(kind="service", id="direct", user="service:direct", role="agent")

logger = logging.getLogger(__name__)


class DirectChat:
    """`chats` is None while no gateway is configured; `secret` gives the token, None or empty while the form is
    disabled.
    """

    def __init__(
        self,
        *,
        context: TurnContext,
        chats: Chats | None,
        thread: EventLoopThread,
        secret: Callable[[], str | None],
        limit: int,
        admit: Callable[[Principal], Principal],
    ) -> None:
        self._context, self._chats, self._thread, self._admit = context, chats, thread, admit
        self._secret, self._limit = secret, limit

    def wanted(self, request: Request) -> bool:
        """A request is direct when it carries the token's header, or when its JSON body has `message`."""
        if HEADER in request.headers:
            return True
        try:
            body = request.json(BODY_BYTES * 8)
        except InvalidRequest:
            return False
        return isinstance(body, dict) and "message" in body

    def answer(self, request: Request, wish: Callable[[str], TurnWish]) -> Any:
        """Checks in the order of the contract, then runs one turn. Raises what each check says."""
        secret = self._secret()
        if not secret:
            raise ChatDisabled()
        given = request.headers.get(HEADER, "")
        if not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode()):
            raise Unauthenticated()
        self._admit(SERVICE)
        message, session = self._body(request)
        if self._chats is None:
            raise ProviderFailed()
        session = session or self._context.new_id()
        conversation = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        head = self._context.turns.head(owner_of(SERVICE), conversation)
        if head is not None and head.head.running(self._context.now()):
            raise ChatInFlight()
        slot = take_slot(self._context, SERVICE.tenant, self._limit)
        try:
            self._open(conversation, session)
            run = self._start(self._chats, conversation, message, wish)
        except BaseException:
            self._context.store.delete_many([slot])
            raise

        async def held(publish: Publish) -> None:
            async with holding(self._context, slot):
                await run(publish)

        return self._reply(Live(self._thread, held), session)

    def _body(self, request: Request) -> tuple[str, str | None]:
        body = request.json_object(BODY_BYTES)
        message, session, mode = body.get("message"), body.get("sessionId"), body.get("wakeMode")
        if not isinstance(message, str) or not message.strip():
            raise InvalidMessage("message must be a text that is not empty.")
        if "messages" in body:
            raise InvalidMessage("Send message or messages, not both.")
        if session is not None and (not isinstance(session, str) or not 0 < len(session) <= MAX_SESSION_ID):
            raise InvalidMessage(f"sessionId must be a text of 1 to {MAX_SESSION_ID} characters.")
        if mode is not None and mode not in ("wait", "resume"):
            raise InvalidMessage("wakeMode is wait or resume.")
        return message, session

    def _open(self, conversation: str, session: str) -> None:
        """Sessions are stored conversations of the service principal; the first message of one makes it."""
        now = iso(self._context.now())
        header = Header(
            id=conversation,
            title=session[:60],
            titled_by="made",
            created_at=now,
            updated_at=now,
            generation=self._context.new_id(),
        )
        with suppress(ConditionFailed):
            self._context.conversations.create(owner_of(SERVICE), header, [], token=self._context.new_id())

    def _start(self, chats: Chats, conversation: str, message: str, wish: Callable[[str], TurnWish]) -> Run:
        try:
            started = chats.start(NewTurn(SERVICE, conversation, [message]), wish(message))
        except TurnRunning:
            raise ChatInFlight() from None
        if isinstance(started, Claimed):  # no key is ever sent here
            raise ChatInFlight()
        return started[1]

    def _reply(self, live: Live, session: str) -> Any:
        told = live.events()
        reply = next((event for _, event in reversed(told) if event.name == "reply"), None)
        if reply is None:
            code = next((event.data.get("code") for _, event in reversed(told) if event.name == "error"), "stopped")
            logger.warning("direct chat failed", extra={"code": code})
            raise ProviderFailed()
        model = reply.data["model"]
        logger.info("direct chat answered", extra={"model": model or "unknown"})
        answered = {} if model is None else {"model": model}
        return json_answer(200, {"reply": reply.data["reply"], "sessionId": session, **answered})
