"""Cases of `deckhand policy test`: TOML, or JSON with the same names.

[[case]]
name = "nobody deletes the diary"     # optional
role = "agent"                        # or principal = {role, kind, id, user, operations, cards}
operation = "delete_manifest"
card = "diary"                        # optional; or conversation, by id
channel = "chat"                      # optional: api, chat, direct, mcp, schedule or bus; api when left out
confirmed = true                      # optional; on api every call counts as confirmed
destructive = true                    # optional: as the operation is declared when left out
expect = "deny"                       # allow, confirm or deny
by = ["no-diary"]                     # optional: policies that must be among those that decided
"""

import json
import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from deckhand.domain.access import Access, Decision, Verdict
from deckhand.domain.principal import Channel, Kind, Principal, Role
from deckhand.operations.catalog import REGISTRY
from deckhand.policy.groups import CHAT
from deckhand.policy.rules import Rules, RulesFailedError
from infra.local.command_error import CommandError


class CasesError(CommandError):
    """The file cannot be used; the message says where."""


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Who(_Closed):
    role: Role
    kind: Kind = "user"
    id: str = "somebody"
    user: str | None = None
    operations: list[str] | None = None
    cards: list[str] | None = None

    def principal(self) -> Principal:
        return Principal(
            kind=self.kind,
            id=self.id,
            user=self.user or self.id,
            role=self.role,
            operations=None if self.operations is None else frozenset(self.operations),
            cards=None if self.cards is None else frozenset(self.cards),
        )


class Case(_Closed):
    operation: str
    expect: Verdict
    name: str | None = None
    role: Role | None = None
    principal: Who | None = None
    card: str | None = None
    conversation: str | None = None
    channel: Channel = "api"
    confirmed: bool = False
    destructive: bool | None = None
    by: list[str] = Field(default=[])

    @model_validator(mode="after")
    def _can_be_asked(self) -> "Case":
        if (self.role is None) == (self.principal is None):
            raise ValueError("give either role or principal")
        if REGISTRY.find(self.operation) is None and self.operation != CHAT:
            raise ValueError(f"there is no operation {self.operation}")
        if self.card is not None and self.conversation is not None:
            raise ValueError("name a card or a conversation, not both")
        return self

    def access(self) -> Access:
        known = REGISTRY.find(self.operation)
        destructive = bool(known and known.destructive) if self.destructive is None else self.destructive
        who = self.principal or Who(role=self.role or "viewer")
        return Access(
            principal=who.principal(),
            operation=self.operation,
            channel=self.channel,
            mutates=bool(known and known.mutates),
            destructive=destructive,
            confirmed=self.confirmed,
            card=self.card,
            conversation=self.conversation,
        )

    def failure(self, rules: Rules) -> str | None:
        """What is otherwise than expected; None when nothing is."""
        try:
            decision = rules.decide(self.access())
        except RulesFailedError:
            return "a policy could not be evaluated"
        if decision.verdict != self.expect:
            return f"expected {self.expect}, got {decision.verdict} by {_named(decision)}"
        if missing := sorted(set(self.by) - set(decision.policies)):
            return f"{self.expect} as expected, but by {_named(decision)} and not by {', '.join(missing)}"
        return None


class _File(_Closed):
    case: list[Case] = Field(min_length=1)


def read_cases(path: Path) -> list[Case]:
    """Raises `CasesError`."""
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        return _File.model_validate(content).case
    except ValidationError as invalid:
        faults = [f"{_place(e['loc'])}: {e['msg']}" for e in invalid.errors(include_url=False, include_input=False)]
        raise CasesError(f"{path} cannot be used: {'; '.join(faults)}") from None
    except (OSError, ValueError) as error:
        raise CasesError(f"{path} cannot be read: {error}") from None


def _place(loc: tuple[int | str, ...]) -> str:
    """Cases are counted from 1."""
    return ".".join(str(part + 1) if isinstance(part, int) else part for part in loc)


def _named(decision: Decision) -> str:
    return ", ".join(decision.policies) or "nothing, as nothing permits it"
