"""Work that is done behind a request: what a job is."""

from dataclasses import asdict
from typing import Literal

from deckhand.domain.model import Model
from deckhand.domain.principal import Kind, Principal, Role


class Actor(Model):
    """A principal as it travels, with whatever narrows it."""

    kind: Kind
    id: str
    user: str
    role: Role
    tenant: str
    operations: frozenset[str] | None = None
    cards: frozenset[str] | None = None
    until: float | None = None

    @classmethod
    def of(cls, principal: Principal) -> "Actor":
        return cls(**asdict(principal))

    def principal(self) -> Principal:
        return Principal(**dict(self))


class Notice(Model):
    """Something that happened, without content."""

    name: Literal["chat.conversation-created", "chat.message-created", "chat.proposal-opened", "chat.proposal-decided"]
    conversation: str
    message: str | None = None
    author: str | None = None
    proposal: str | None = None
    outcome: str | None = None


class Job(Model):
    """`title`: make a title for the conversation. `queued_turn`: answer the messages that queued in it. `drop_rows`:
    remove a generation of a card's rows that nobody sees any more. `push`: show the actor's user the reminders (each
    `card#item`) whose time `due` was, an instant of UTC, on the user's own date `day`; `late` when it was well past;
    `asked` when the user wants it now, to see it. `fire` names that push: it is the same whenever the job comes again,
    and no two pushes share it. `notices`: what happened in a conversation. `continued_turn`: go on from what was
    decided in it. All may be done twice without harm.
    """

    kind: Literal["title", "queued_turn", "drop_rows", "push", "notices", "continued_turn"]
    actor: Actor
    conversation: str = ""
    card: str = ""
    generation: str = ""
    due: str = ""
    day: str = ""
    reminders: tuple[str, ...] = ()
    late: bool = False
    asked: bool = False
    fire: str = ""
    notices: tuple[Notice, ...] = ()
