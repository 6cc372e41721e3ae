"""The answers of the routes that are no operations."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from deckhand.domain.account import ShownCredential, UserRole
from deckhand.domain.proposal import DecidedProposal, Decision, ShownProposal, State
from deckhand.operations.shapes import Done


class StoppedReply(TypedDict):
    """`decisions` tell of each of several that this turn went on from."""

    stopped: Literal[True]
    turnId: NotRequired[str]
    decisions: NotRequired[list[Decision]]


class QueuedMessage(TypedDict):
    queued: Literal[True]
    conversationId: str
    messageId: str


class DirectReply(TypedDict):
    """`model` is what the gateway reported, else the one it was asked for; left out of what no model said."""

    reply: str
    sessionId: str
    model: NotRequired[str | None]


class Pod(TypedDict):
    pod: str


class WakingReply(TypedDict):
    """No model was asked: the pod is on its way, and the same message is to be sent again with `resume`."""

    reply: str
    sessionId: str
    pendingWake: Pod


class Agent(TypedDict):
    name: str
    emoji: str


class ChatStatus(TypedDict):
    """`configured`: there is a gateway. `demo`: it is the one that ships, without a model."""

    configured: bool
    agent: Agent
    demo: bool


class RunningTurn(TypedDict):
    """`startedAt` is ISO 8601; `steps` counts the calls of the model; `phase` is `thinking` or `tool`; `principal` is
    who started it, as `kind:id`.
    """

    conversationId: str
    turnId: str
    startedAt: str
    steps: int
    phase: str
    principal: str


class RunningTurns(TypedDict):
    turns: list[RunningTurn]


class StoppedTurn(Done):
    turnId: str


class StoppedTurns(Done):
    turnIds: list[str]


class OpenProposal(ShownProposal):
    """`conversationId` is null where the turn belonged to none."""

    state: State
    turnId: str
    conversationId: str | None


class OpenProposals(TypedDict):
    proposals: list[OpenProposal]


class StillOpen(TypedDict):
    """`open` are the ids of the turn's proposals that wait."""

    status: Literal["awaiting_confirmation"]
    open: list[str]


class AllDecided(TypedDict):
    """`turnId` is of a turn that runs, and whose end looks at what was decided."""

    status: Literal["decided"]
    turnId: NotRequired[str]


class OneStillOpen(StillOpen, DecidedProposal):
    """One of several proposals is decided."""


class OneDecided(AllDecided, DecidedProposal):
    """No turn goes on from it here."""


class SeveralStillOpen(StillOpen):
    decisions: list[Decision]


class SeveralDecided(AllDecided):
    decisions: list[Decision]


class Instance(TypedDict):
    name: str
    chatAgent: Agent
    demo: bool


class SignedInUser(TypedDict):
    id: str
    name: str
    role: UserRole


class SignInStatus(TypedDict):
    """`enrolled`: the first owner has a passkey."""

    signedIn: bool
    enrolled: bool
    user: NotRequired[SignedInUser]


class SignedIn(TypedDict):
    user: SignedInUser


class Enrolled(SignedIn):
    credential: ShownCredential


class Described(TypedDict):
    """The document itself."""

    openapi: str
    info: dict[str, Any]
    servers: list[dict[str, Any]]
    security: list[dict[str, Any]]
    paths: dict[str, Any]
    components: dict[str, Any]
