"""A stored transcript: its header, its messages and the tool exchanges between them."""

from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from deckhand.domain.followup import Followup
from deckhand.domain.job import Actor
from deckhand.domain.model import Model
from deckhand.domain.proposal import Ref

MAX_CONVERSATIONS = 100
MAX_MESSAGES = 200
MAX_TITLE = 120
MAX_QUEUED = 20
MAX_QUEUED_BYTES = 1024 * 1024
FIRST_WORDS_CHARS = 60
MAX_TRANSCRIPT_BYTES = 512 * 1024

Role = Literal["user", "assistant"]


class ShownMessage(TypedDict):
    """A message as clients see it. `createdAt` is ISO 8601; `speak` is the text of a voice turn that is read aloud;
    `tools` are the names of the tools that its turn called. `interrupted`: the turn broke off, `capped`: it ran into
    one of its limits. `queued`: it waits until the turn that runs has ended.
    """

    id: str
    role: Role
    content: str
    createdAt: str
    hasVoice: NotRequired[bool]
    speak: NotRequired[str]
    capped: NotRequired[bool]
    interrupted: NotRequired[bool]
    stopped: NotRequired[bool]
    followup: NotRequired[Followup]
    tools: NotRequired[list[str]]
    queued: NotRequired[Literal[True]]


class ConversationSummary(TypedDict):
    """`title` is the beginning of the first message until one is made, null for an untitled one. Instants are ISO 8601;
    `updatedAt` moves with each message.
    """

    id: str
    title: str | None
    createdAt: str
    updatedAt: str
    messageCount: int


class Message(Model):
    """One message. `seq` orders the transcript and is not shown; the marks say how an assistant message came to be."""

    seq: int
    id: str
    role: Role
    content: str
    created_at: str
    has_voice: bool | None = None
    speak: str | None = None
    capped: bool | None = None
    interrupted: bool | None = None
    stopped: bool | None = None
    followup: dict[str, Any] | None = None
    tools: list[str] | None = None
    context: str | None = None
    """Where in the app the person was; for the model only."""

    def shown(self) -> ShownMessage:
        shown = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"seq", "context"})
        return cast(ShownMessage, shown)


class Call(Model):
    """A tool call and its result; `result` is None while it runs or waits, and stays so when its process died."""

    id: str
    name: str
    arguments: str
    extra: dict[str, Any] | None = None
    result: str | None = None
    proposal: Ref | None = None
    """It waits, or waited, for a person's yes."""


class Exchange(Model):
    """One step's calls. `anchor` is the seq of the newest message when the step ran; `step` orders the exchanges of
    a turn.
    """

    anchor: int
    turn_id: str
    step: int
    text: str = ""
    calls: list[Call]
    extra: dict[str, Any] | None = None


class Queued(Model):
    """A message that came while a turn was running. `seq` of the message is given when its turn starts."""

    message: Message
    actor: Actor


class Header(Model):
    """What lists show, and where the next message goes. `generation` names the present transcript: replacing it
    moves the name.
    """

    id: str
    title: str | None = None
    titled_by: Literal["person", "made"] | None = None
    created_at: str
    updated_at: str
    message_count: int = 0
    next_seq: int = 1
    generation: str = "0"
    first_words: str | None = None
    """Stands for the title until one is made."""
    queued: int = 0
    """Messages that wait for a turn of their own."""
    next_queued: int = 1

    def summary(self) -> ConversationSummary:
        return {
            "id": self.id,
            "title": self.title or self.first_words,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "messageCount": self.message_count,
        }

    def appended(self, count: int, now: str) -> "Header":
        """The header after `count` more messages."""
        return self.model_copy(
            update={
                "next_seq": self.next_seq + count,
                "message_count": min(self.message_count + count, MAX_MESSAGES),
                "updated_at": now,
            }
        )


def first_words(text: str) -> str:
    """The beginning of a message on one line, cut at a word, at most 60 characters."""
    line = " ".join(text.split())
    if len(line) <= FIRST_WORDS_CHARS:
        return line
    cut = line[: FIRST_WORDS_CHARS - 1]
    return f"{cut.rsplit(' ', 1)[0] if ' ' in cut else cut}…"
