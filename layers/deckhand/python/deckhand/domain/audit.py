"""The audit: one entry for each thing that was changed, refused or decided. Ids and names, never what was written."""

import hashlib
import json
from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from deckhand.domain.model import Model
from deckhand.domain.principal import Channel, Principal
from deckhand.domain.times import exact

AuditOutcome = Literal["succeeded", "failed", "denied", "proposed", "confirmed", "rejected"]


class Origin(Model):
    """Where a call comes from, as far as it comes from a conversation."""

    conversation: str | None = None
    turn_id: str | None = None
    call_id: str | None = None
    proposal_id: str | None = None


class AuditEntry(Model):
    """`at` is ISO 8601. `arguments_hash` tells whether two calls asked for the same. `policies` decided. `code` is the
    error's, of what failed.
    """

    id: str
    at: str
    principal: str
    user: str
    role: str
    channel: Channel
    operation: str
    outcome: AuditOutcome
    arguments_hash: str | None = None
    card: str | None = None
    policies: tuple[str, ...] = ()
    code: str | None = None
    conversation: str | None = None
    turn_id: str | None = None
    call_id: str | None = None
    proposal_id: str | None = None

    def shown(self) -> "AuditRecord":
        return cast(AuditRecord, self.model_dump(mode="json", by_alias=True, exclude_none=True))


class AuditRecord(TypedDict):
    """`at` is ISO 8601. `principal` is who acted, as `kind:id`, for the `user`. `argumentsHash` tells whether two calls
    asked for the same. `policies` decided. `code` is the error's, of what failed. The last four are of a call that came
    from a conversation.
    """

    id: str
    at: str
    principal: str
    user: str
    role: str
    channel: Channel
    operation: str
    outcome: AuditOutcome
    argumentsHash: NotRequired[str]
    card: NotRequired[str]
    policies: list[str]
    code: NotRequired[str]
    conversation: NotRequired[str]
    turnId: NotRequired[str]
    callId: NotRequired[str]
    proposalId: NotRequired[str]


def entry(
    principal: Principal, channel: Channel, operation: str, outcome: AuditOutcome, *, id: str, at: float, **more: Any
) -> AuditEntry:
    """`at` in epoch seconds."""
    return AuditEntry(
        id=id,
        at=exact(at),
        principal=principal.name,
        user=principal.user,
        role=principal.role,
        channel=channel,
        operation=operation,
        outcome=outcome,
        **more,
    )


def hash_of(value: Any) -> str:
    """Of anything that an operation takes; instants and the like as their texts."""
    text = json.dumps(value, sort_keys=True, default=str, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
