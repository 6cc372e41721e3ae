"""Conversations: list, create, read, rename, replace, delete."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import TypedDict

from deckhand.domain.conversation import (
    MAX_MESSAGES,
    MAX_TITLE,
    MAX_TRANSCRIPT_BYTES,
    ConversationSummary,
    Header,
    Message,
    ShownMessage,
    first_words,
)
from deckhand.domain.errors import BodyTooLarge, ConditionFailed, NotFound, StorageUnavailable, TurnRunning
from deckhand.domain.job import Notice
from deckhand.domain.times import iso
from deckhand.operations.caller import Caller
from deckhand.operations.permission import visible_conversations
from deckhand.operations.registry import Http, operation
from deckhand.operations.shapes import Done
from deckhand.storage.deletion import delete_conversation as _delete
from deckhand.storage.deletion import make_room
from deckhand.storage.history import History

ATTEMPTS = 20
NO_HISTORY = "There is no earlier transcript to take over."
# A transcript's JSON may be longer than its texts; the texts are measured after parsing.
TRANSCRIPT_BODY = 4 * MAX_TRANSCRIPT_BYTES


class Given(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)


class GivenMessage(BaseModel):
    """A message as a client keeps it; what the server makes itself (`id`, `createdAt`, marks) is ignored."""

    model_config = ConfigDict(extra="ignore")
    role: Literal["user", "assistant"]
    content: str


class Nothing(Given):
    pass


class ConversationId(Given):
    id: str


class Reading(ConversationId):
    limit: int | None = Field(default=None, ge=1, le=MAX_MESSAGES, description="Only the newest so many messages.")


class NewConversation(Given):
    title: str | None = Field(default=None, max_length=MAX_TITLE)
    messages: list[GivenMessage] = Field(default_factory=list)
    fromHistory: bool = Field(default=False, description="Take over the single transcript, once.")


class Rename(Given):
    id: str
    title: str | None = Field(max_length=MAX_TITLE)


class Transcript(Given):
    id: str
    messages: list[GivenMessage]

    @field_validator("messages")
    @classmethod
    def _newest(cls, messages: list[GivenMessage]) -> list[GivenMessage]:
        return messages[-MAX_MESSAGES:]


class ConversationSummaries(TypedDict):
    conversations: list[ConversationSummary]


class WholeConversation(ConversationSummary):
    messages: list[ShownMessage]


class OneConversation(TypedDict):
    conversation: WholeConversation


@operation(summary="List conversations", input=Nothing, http=Http("GET", "/api/conversations"))
def list_conversations(caller: Caller, _: Nothing) -> ConversationSummaries:
    """Newest activity first, at most 100."""
    headers = visible_conversations(caller, "list_conversations")
    return {"conversations": [stored.header.summary() for stored in headers]}


@operation(
    summary="Start a conversation",
    input=NewConversation,
    mutates=True,
    http=Http("POST", "/api/conversations", status=201, limit=TRANSCRIPT_BODY),
)
def create_conversation(caller: Caller, given: NewConversation) -> OneConversation:
    """The 101st removes the least recently active one that has no running turn.

    Raises `BodyTooLarge`, and `NotFound` when there is no single transcript (any more) to take over.
    """
    now = iso(caller.now())
    texts = _from_history(caller) if given.fromHistory else given.messages
    messages = _messages(caller, texts[-MAX_MESSAGES:], now)
    title = (given.title or "").strip() or None
    header = Header(
        id=caller.new_id(),
        title=title,
        titled_by="person" if title else None,
        created_at=now,
        updated_at=now,
        message_count=len(messages),
        next_seq=len(messages) + 1,
        generation=caller.new_id(),
        first_words=next((first_words(m.content) for m in messages if m.role == "user"), None),
    )
    history = History(caller.store)
    beside = [history.taking(caller.owner)] if given.fromHistory else []
    try:
        caller.conversations.create(caller.owner, header, messages, token=caller.new_id(), beside=beside)
    except ConditionFailed:
        raise NotFound(NO_HISTORY) from None
    if given.fromHistory:
        history.remove(caller.owner, token=caller.new_id())
    make_room(caller.store, caller.owner, keep=header.id, now=caller.now(), new_token=caller.new_id)
    caller.announce(Notice(name="chat.conversation-created", conversation=header.id))
    return {"conversation": {**header.summary(), "messages": [message.shown() for message in messages]}}


@operation(summary="Read a conversation", input=Reading, conversation="id", http=Http("GET", "/api/conversations/{id}"))
def read_conversation(caller: Caller, given: Reading) -> OneConversation:
    """Its messages in their order, those last that wait for a turn of their own. All of them may be more than fits one
    answer. Raises `UnknownConversation`.
    """
    header = caller.conversations.find(caller.owner, given.id).header
    shown = [message.shown() for message in caller.conversations.messages(caller.owner, header)]
    if header.queued:
        waiting = caller.conversations.queue(caller.owner, given.id)
        shown += [{**one.queued.message.shown(), "queued": True} for one in waiting]
    return {"conversation": {**header.summary(), "messages": shown[-given.limit :] if given.limit else shown}}


@operation(
    summary="Rename a conversation",
    input=Rename,
    mutates=True,
    conversation="id",
    http=Http("PATCH", "/api/conversations/{id}"),
)
def rename_conversation(caller: Caller, given: Rename) -> Done:
    """A blank title makes it untitled. Raises `UnknownConversation`."""
    title = (given.title or "").strip() or None
    for _ in range(ATTEMPTS):
        stored = caller.conversations.find(caller.owner, given.id)
        untitled = {} if title else {"first_words": None}
        header = stored.header.model_copy(update={"title": title, "titled_by": "person" if title else None, **untitled})
        try:
            caller.conversations.move(caller.owner, header, after=stored, token=caller.new_id())
        except ConditionFailed:
            continue
        return {"ok": True}
    raise StorageUnavailable()


@operation(
    summary="Replace a conversation's messages",
    input=Transcript,
    mutates=True,
    conversation="id",
    http=Http("PUT", "/api/conversations/{id}/messages", limit=TRANSCRIPT_BODY),
)
def replace_messages(caller: Caller, given: Transcript) -> Done:
    """The newest 200 are kept. Raises `UnknownConversation`, `TurnRunning`, `BodyTooLarge`."""
    for _ in range(ATTEMPTS):
        stored = caller.conversations.find(caller.owner, given.id)
        _refuse_while_running(caller, given.id)
        now = iso(caller.now())
        messages = _messages(caller, given.messages, now)
        header = stored.header.model_copy(
            update={
                "message_count": len(messages),
                "next_seq": len(messages) + 1,
                "updated_at": now,
                "generation": caller.new_id(),
                "first_words": next((first_words(m.content) for m in messages if m.role == "user"), None),
            }
        )
        try:
            caller.conversations.replace(caller.owner, header, messages, after=stored, token=caller.new_id())
        except ConditionFailed:
            continue
        return {"ok": True}
    raise StorageUnavailable()


@operation(
    summary="Delete a conversation",
    input=ConversationId,
    mutates=True,
    conversation="id",
    http=Http("DELETE", "/api/conversations/{id}"),
)
def delete_conversation(caller: Caller, given: ConversationId) -> Done:
    """A running turn is stopped and leaves nothing. Raises `UnknownConversation`."""
    stored = caller.conversations.find(caller.owner, given.id)
    _delete(caller.store, caller.owner, stored, now=caller.now(), token=caller.new_id())
    return {"ok": True}


def _running(caller: Caller, conversation: str) -> str | None:
    stored = caller.turns.head(caller.owner, conversation)
    return stored.head.turn_id if stored is not None and stored.head.running(caller.now()) else None


def _refuse_while_running(caller: Caller, conversation: str) -> None:
    if (turn_id := _running(caller, conversation)) is not None:
        raise TurnRunning(turnId=turn_id)


def _from_history(caller: Caller) -> list[GivenMessage]:
    """The messages of the single transcript that a conversation can hold."""
    kept = []
    for message in History(caller.store).read(caller.owner):
        role, content = message.get("role"), message.get("content")
        if role in ("user", "assistant") and isinstance(content, str):
            kept.append(GivenMessage(role=role, content=content))
    if not kept:
        raise NotFound(NO_HISTORY)
    return kept


def _messages(caller: Caller, given: list[GivenMessage], now: str) -> list[Message]:
    if sum(len(message.content.encode()) for message in given) > MAX_TRANSCRIPT_BYTES:
        raise BodyTooLarge()
    return [
        Message(seq=seq, id=caller.new_id(), role=message.role, content=message.content, created_at=now)
        for seq, message in enumerate(given, start=1)
    ]
