"""A tool call that waits for a yes or a no, and the only ways it may change.

    PROPOSED ─ confirm ─► EXECUTING ─► SUCCEEDED | FAILED
        ├──── reject ───► REJECTED          (a lease: whoever finds it past that takes the call over)
        └──── time ─────► EXPIRED

The record is one item with a version. Every change is written on the condition that the version is still the one that
was read, so of any number of decisions one counts.
"""

import hashlib
from typing import Any, Literal, NotRequired, cast

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from deckhand.domain.errors import AlreadyDecided, ProposalExpired
from deckhand.domain.job import Actor
from deckhand.domain.json_text import dumps, loads
from deckhand.domain.model import Model
from deckhand.domain.principal import Channel
from deckhand.domain.times import iso

State = Literal["proposed", "executing", "succeeded", "failed", "rejected", "expired"]
EXECUTING_S = 60.0
"""How long an operation may take before its process counts as gone. Operations take a second or two."""
KEPT_S = 24 * 3600
"""How long a decision can be asked for after its proposal has expired; the transcript and the audit keep it longer."""
MAX_REASON = 500


class Ref(Model):
    """What the transcript keeps of a proposal beside its call."""

    id: str
    expires_at: float


class ShownProposal(TypedDict):
    """`arguments` are what the tool is to be called with, `target` is what they are about to change, as it was when it
    was proposed, where the arguments do not say it. `expiresAt` is ISO 8601.
    """

    id: str
    tool: str
    arguments: dict[str, Any]
    target: NotRequired[Any]
    summary: str
    destructive: bool
    expiresAt: str


class DecidedProposal(TypedDict):
    """`result` is what the tool gave, where no turn goes on to tell it."""

    id: str
    outcome: State
    result: NotRequired[Any]


@with_config(ConfigDict(extra="allow"))
class RefusedDecision(TypedDict):
    """Why a decision does not count, with what else the error tells."""

    id: str
    error: str
    code: str


Decision = DecidedProposal | RefusedDecision


class Proposal(Model):
    """`arguments` is the JSON object that the model asked for, `edited` the one that a person put in its place for this
    attempt. Instants are epoch seconds. `result` is what the model is told of the outcome. `voice` and `viewed_card`
    are of the turn, for the one that goes on from it.
    """

    id: str
    conversation: str
    turn_id: str
    anchor: int
    call_id: str
    tool: str
    arguments: str
    arguments_hash: str
    summary: str
    card: str | None = None
    destructive: bool = False
    siblings: int = 0
    """How many wait in the same step, this one included; 0: not known."""
    voice: bool = False
    viewed_card: str | None = None
    target: str | None = None
    """What it would change as a JSON text, where that is short enough to be shown."""
    target_hash: str | None = None
    policies: tuple[str, ...] = ()
    """What decided that it has to wait."""
    actor: Actor
    channel: Channel
    created_at: float
    expires_at: float
    state: State = "proposed"
    decided_by: str | None = None
    decided_at: float | None = None
    lease_until: float | None = None
    edited: str | None = None
    result: str | None = None
    key: str | None = None
    """The hash of the `Idempotency-Key` that came with the decision."""

    def state_at(self, now: float) -> State:
        return "expired" if self.state == "proposed" and now >= self.expires_at else self.state

    def is_open(self, now: float) -> bool:
        """Whether its turn still waits for it: undecided, or decided and not yet at its end."""
        return self.state_at(now) in ("proposed", "executing")

    @property
    def is_over(self) -> bool:
        """Whether nothing but its deletion can happen to it any more."""
        return self.state not in ("proposed", "executing")

    @property
    def running(self) -> str:
        """The arguments that run."""
        return self.arguments if self.edited is None else self.edited

    @property
    def ref(self) -> Ref:
        return Ref(id=self.id, expires_at=self.expires_at)

    def shown(self) -> ShownProposal:
        """As the event `proposal` and the list of open ones have it."""
        target = {} if self.target is None else {"target": loads(self.target)}
        shown = {
            "id": self.id,
            "tool": self.tool,
            "arguments": loads(self.arguments),
            **target,
            "summary": self.summary,
            "destructive": self.destructive,
            "expiresAt": iso(self.expires_at),
        }
        return cast(ShownProposal, shown)

    def outcome(self, now: float) -> dict[str, Any]:
        """What became of it, for whoever decides too late."""
        told: dict[str, Any] = {"outcome": self.state_at(now), "tool": self.tool}
        if self.decided_at is not None:
            told["decidedAt"] = iso(self.decided_at)
        return told

    def executing(self, now: float, *, by: str, arguments: str | None = None, key: str | None = None) -> "Proposal":
        """`arguments`: other ones than were proposed. Raises `AlreadyDecided`, `ProposalExpired`."""
        self._check_undecided(now)
        other = arguments is not None and arguments_hash(arguments) != self.arguments_hash
        return self.model_copy(
            update={
                "state": "executing",
                "decided_by": by,
                "decided_at": now,
                "lease_until": now + EXECUTING_S,
                "edited": arguments if other else None,
                "key": key,
            }
        )

    def rejected(self, now: float, *, by: str, result: str, key: str | None = None) -> "Proposal":
        """Raises `AlreadyDecided`, `ProposalExpired`."""
        self._check_undecided(now)
        decided = {"state": "rejected", "decided_by": by, "decided_at": now, "result": result, "key": key}
        return self.model_copy(update=decided)

    def finished(self, result: str, *, failed: bool) -> "Proposal":
        state: State = "failed" if failed else "succeeded"
        return self.model_copy(update={"state": state, "result": result, "lease_until": None})

    def is_stranded(self, now: float) -> bool:
        """Whether the process that ran it is gone."""
        return self.state == "executing" and self.lease_until is not None and now >= self.lease_until

    def waiting_again(self) -> "Proposal":
        """Nothing came of the process that ran it, so it waits for a decision as before."""
        undone = {"state": "proposed", "lease_until": None, "decided_by": None, "decided_at": None, "edited": None}
        return self.model_copy(update=undone)

    def _check_undecided(self, now: float) -> None:
        state = self.state_at(now)
        if state == "expired":
            raise ProposalExpired()
        if state != "proposed":
            raise AlreadyDecided(**self.outcome(now))


def arguments_hash(arguments: str) -> str:
    """The same for the same JSON object, however it is written."""
    return hashlib.sha256(_sorted(loads(arguments)).encode()).hexdigest()


def _sorted(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{dumps(name)}:{_sorted(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_sorted(item) for item in value) + "]"
    return dumps(value)
