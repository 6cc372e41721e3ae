"""The direct form of `POST /api/chat`: one message in, one reply out, for callers that hold the shared token (seed
002).
"""

import hashlib
import hmac
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

from deckhand.agent.chat import ChatGateway
from deckhand.agent.wake import WakeFailed, WakeMode
from deckhand.agent.wording import WAKING, is_ours, waiting_in_words
from deckhand.domain.conversation import Header
from deckhand.domain.errors import (
    ChatDisabled,
    ChatInFlight,
    ConditionFailed,
    DailyAllowanceUsedUp,
    InvalidMessage,
    InvalidRequest,
    ProviderFailed,
    TurnRunning,
    Unauthenticated,
    UnknownConversation,
)
from deckhand.domain.principal import DIRECT, Principal
from deckhand.domain.times import iso
from deckhand.edge.answer import json_answer
from deckhand.edge.live import EventLoopThread, Live, Publish
from deckhand.edge.request import Request
from deckhand.edge.shapes import DirectReply, WakingReply
from deckhand.storage.deletion import make_room
from deckhand.turns.chat import Chats, Run, TurnWish
from deckhand.turns.context import TurnContext
from deckhand.turns.idempotency import Claimed
from deckhand.turns.slots import give_back, holding, take_slot
from deckhand.turns.start import NewTurn, owner_of
from deckhand.turns.waking import PendingWake, Waking

BODY_BYTES = 32 * 1024
MAX_SESSION_ID = 200
ATTEMPTS = 3
HEADER = "x-chat-token"
SERVICE = DIRECT

logger = logging.getLogger(__name__)


class DirectChat:
    """`chats` is None while no gateway is configured, `waking` while no conductor is; `secret` gives the token, None
    or empty while the form is disabled.
    """

    def __init__(
        self,
        *,
        context: TurnContext,
        chats: Chats | None,
        waking: Waking | None,
        thread: EventLoopThread,
        secret: Callable[[], str | None],
        limit: int,
        admit: Callable[[Principal], Principal],
    ) -> None:
        self._context, self._chats, self._waking, self._thread = context, chats, waking, thread
        self._admit = admit
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
        self._authorise(request)
        self._admit(SERVICE)
        asked = _read(request)
        session = asked.session or self._context.new_id()
        conversation = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        head = self._context.turns.head(owner_of(SERVICE), conversation)
        if head is not None and head.head.running(self._context.now()):
            raise ChatInFlight()
        slot = take_slot(self._context, SERVICE.tenant, self._limit)
        try:
            if self._chats is None:
                raise ProviderFailed()
            # Whoever has nothing left wakes nobody.
            self._chats.admit(SERVICE)
            pinned = self._awake(asked.mode)
            if isinstance(pinned, PendingWake):
                give_back(self._context, slot)
                pending: WakingReply = {"reply": WAKING, "sessionId": session, "pendingWake": {"pod": pinned.pod}}
                return json_answer(200, pending)
            run = self._start(self._chats, conversation, session, replace(wish(asked.message), pinned=pinned))
        except BaseException:
            give_back(self._context, slot)
            raise

        async def held(publish: Publish) -> None:
            async with holding(self._context, slot):
                await run(publish)

        return self._reply(Live(self._thread, held), session)

    def _authorise(self, request: Request) -> None:
        secret = self._secret()
        if not secret:
            raise ChatDisabled()
        given = request.headers.get(HEADER, "")
        if not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode()):
            raise Unauthenticated()

    def _awake(self, mode: WakeMode | None) -> ChatGateway | PendingWake | None:
        """None: an ordinary turn with the deployment's gateway."""
        if mode is None or self._waking is None:
            return None
        try:
            return self._waking.check(SERVICE.tenant, mode)
        except WakeFailed as failed:
            logger.warning("direct chat found no model awake", extra={"reason": str(failed), "mode": mode})
            raise ProviderFailed() from None

    def _start(self, chats: Chats, conversation: str, session: str, wish: TurnWish) -> Run:
        new = NewTurn(SERVICE, conversation, [content for _, content in wish.messages])
        for _ in range(ATTEMPTS):
            self._open(conversation, session)
            try:
                started = chats.start(new, wish)
            except TurnRunning:
                raise ChatInFlight() from None
            except UnknownConversation:
                # It was the least recently active one when another session was opened just now.
                continue
            if isinstance(started, Claimed):  # no key is ever sent here
                break
            return started[1]
        raise ChatInFlight()

    def _open(self, conversation: str, session: str) -> None:
        """Sessions are stored conversations of the service principal, at most 100; a first message makes one."""
        owner, now = owner_of(SERVICE), self._context.now()
        header = Header(
            id=conversation,
            title=session[:60],
            titled_by="made",
            created_at=iso(now),
            updated_at=iso(now),
            generation=self._context.new_id(),
        )
        try:
            self._context.conversations.create(owner, header, [], token=self._context.new_id())
        except ConditionFailed:
            return
        make_room(self._context.store, owner, keep=conversation, now=now, new_token=self._context.new_id)

    def _reply(self, live: Live, session: str) -> Any:
        told = live.events()
        reply = next((event for _, event in reversed(told) if event.name == "reply"), None)
        if reply is None:
            error = next((event.data for _, event in reversed(told) if event.name == "error"), {"code": "stopped"})
            logger.warning("direct chat failed", extra={"code": error["code"]})
            if "resetsAt" in error:
                # Ours, not the provider's.
                raise DailyAllowanceUsedUp(left=error["left"], resetsAt=error["resetsAt"])
            raise ProviderFailed()
        text, model = reply.data["reply"], reply.data["model"]
        logger.info("direct chat answered", extra={"model": model or "unknown"})
        shown = waiting_in_words(text, waiting) if (waiting := reply.data.get("proposals")) else text
        answer: DirectReply = {"reply": shown, "sessionId": session}
        if not is_ours(text):
            answer["model"] = model
        return json_answer(200, answer)


@dataclass(frozen=True, slots=True)
class _Asked:
    message: str
    session: str | None
    mode: WakeMode | None


def _read(request: Request) -> _Asked:
    body = request.json_object(BODY_BYTES)
    message, session, mode = body.get("message"), body.get("sessionId"), body.get("wakeMode")
    if not isinstance(message, str) or not message.strip():
        raise InvalidMessage("message must be a text that is not empty.")
    if "messages" in body:
        raise InvalidMessage("Send message or messages, not both.")
    if session is not None and (not isinstance(session, str) or not 0 < len(session) <= MAX_SESSION_ID):
        raise InvalidMessage(f"sessionId must be a text of 1 to {MAX_SESSION_ID} characters.")
    if "wakeMode" in body and mode not in get_args(WakeMode):
        raise InvalidMessage("wakeMode is wait or resume.")
    return _Asked(message, session, mode)
