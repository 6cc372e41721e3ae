"""The body of `POST /api/chat`."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from deckhand.domain.errors import InvalidMessages
from deckhand.edge.operation_routes import validated
from deckhand.edge.request import Request

BODY_BYTES = 256 * 1024
MAX_MESSAGES = 200


class PageContext(BaseModel):
    """Where in the app the person is; goes into their message, never into the system's."""

    model_config = ConfigDict(extra="ignore")
    route: str | None = Field(default=None, max_length=500)
    model: str | None = Field(default=None, max_length=200)
    record: str | None = Field(default=None, max_length=200)


class _Fields(BaseModel):
    model_config = ConfigDict(extra="ignore")
    conversationId: str | None = None
    stream: StrictBool = False
    voiceMode: StrictBool = False
    viewedCardId: str | None = None
    context: PageContext | None = None
    onBusy: Literal["reject", "interrupt", "enqueue"] = "reject"


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """`messages` are `(role, content)`; with a conversation all are the user's."""

    messages: tuple[tuple[Literal["user", "assistant"], str], ...]
    conversation: str | None
    stream: bool
    voice: bool
    viewed_card: str | None
    context: PageContext | None
    on_busy: Literal["reject", "interrupt", "enqueue"]


def read_chat_request(request: Request) -> ChatRequest:
    """Raises `BodyTooLarge`, `InvalidJson`, `InvalidMessages`, `ValidationFailed`, in this order."""
    body = request.json_object(BODY_BYTES)
    messages = _messages(body.get("messages"))
    fields = validated(_Fields, {name: value for name, value in body.items() if value is not None})
    assert isinstance(fields, _Fields)  # noqa: S101 - narrows the type
    if fields.conversationId is not None and any(role != "user" for role, _ in messages):
        raise InvalidMessages("With a conversation the messages are the new turn only: messages of the user.")
    return ChatRequest(
        messages=messages,
        conversation=fields.conversationId,
        stream=fields.stream,
        voice=fields.voiceMode,
        viewed_card=fields.viewedCardId,
        context=fields.context,
        on_busy=fields.onBusy,
    )


def _messages(given: Any) -> tuple[tuple[Literal["user", "assistant"], str], ...]:
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_MESSAGES:
        raise InvalidMessages(f"messages must be a list of 1 to {MAX_MESSAGES}.")
    found: list[tuple[Literal["user", "assistant"], str]] = []
    for message in given:
        role, content = (message.get("role"), message.get("content")) if isinstance(message, dict) else (None, None)
        if role not in ("user", "assistant") or not isinstance(content, str) or not content.strip():
            raise InvalidMessages("Every message needs a role, user or assistant, and a content that is not empty.")
        found.append((role, content))
    if found[-1][0] != "user":
        raise InvalidMessages("The last message must be the user's.")
    return tuple(found)
