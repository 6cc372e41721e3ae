"""The policy document: read it, replace it, ask why. For owners, and never for a model."""

from typing import Literal, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from deckhand.domain.access import Access, ConfirmWrites, Verdict
from deckhand.domain.account import OWNER_ID
from deckhand.domain.errors import NotFound, StaleVersion, ValidationFailed, WouldLockOut
from deckhand.domain.policy_document import MAX_CHARS, PolicyDocument
from deckhand.domain.principal import Channel, Principal, Role
from deckhand.domain.times import iso
from deckhand.operations.arguments import Arguments
from deckhand.operations.caller import Caller
from deckhand.operations.registry import REGISTRY, Http, operation
from deckhand.operations.shapes import Done
from deckhand.policy.check import Fault, check
from deckhand.policy.groups import CHAT
from deckhand.policy.rules import Rules, keeps_policy, shipped, signed_in_owner
from deckhand.policy.schema import schema_of
from deckhand.storage.accounts import Accounts
from deckhand.storage.policies import Policies
from deckhand.storage.port import Check

ROUTE = "/api/policy"
TRIES = 5


class Version(Arguments):
    version: int | None = Field(default=None, ge=1, description="An earlier one; left out: the one in force.")


class NewPolicy(Arguments):
    policy: str = Field(max_length=MAX_CHARS, description="Cedar policies, added to those that ship.")
    shadow: str | None = Field(
        default=None, max_length=MAX_CHARS, description="Cedar policies that are tried out: only told of in the log."
    )
    expectedVersion: int | None = Field(default=None, ge=0, description="The version that was read, 0 for none.")


class Who(Arguments):
    role: Role
    kind: Literal["user", "token", "service", "schedule"] = "user"
    id: str = Field(default="somebody", min_length=1, max_length=200)
    user: str | None = Field(default=None, description="Whom a token acts for; else the same as id.")
    operations: list[str] | None = None
    cards: list[str] | None = None


class Question(Arguments):
    principal: Who | None = Field(default=None, description="Left out: you.")
    operation: str
    card: str | None = None
    conversation: str | None = Field(default=None, description="By id; not with card.")
    channel: Channel = "api"
    confirmed: bool = Field(default=False, description="On api every call counts as confirmed.")
    destructive: bool | None = Field(default=None, description="Left out: as the operation is declared.")


class ShownPolicy(TypedDict):
    """Texts of Cedar. `version` counts from 1; 0, with an empty text, before the first one. `shadow` is only tried out.
    `writtenAt` is ISO 8601.
    """

    policy: str
    version: int
    shadow: NotRequired[str]
    writtenBy: NotRequired[str]
    writtenAt: NotRequired[str]


class PolicyInForce(ShownPolicy):
    """`builtIn` are the policies that ship, to which it is added; `confirmWrites` is the deployment's switch, which the
    policies see.
    """

    builtIn: str
    confirmWrites: ConfirmWrites


class WrittenPolicy(Done):
    version: int


class Explanation(TypedDict):
    """`policies` are the names of those that decided, none when nothing permits it."""

    decision: Verdict
    policies: list[str]


@operation(summary="Read the policy", input=Version, http=Http("GET", ROUTE))
def read_policy(caller: Caller, given: Version) -> PolicyInForce:
    """Raises `NotFound` for a version that never was."""
    policies = _policies(caller)
    found = policies.current() if given.version is None else policies.version(given.version)
    if found is None and given.version is not None:
        raise NotFound("There is no such version.")
    shown: ShownPolicy = _shown(found) if found else {"policy": "", "version": 0}
    return {**shown, "builtIn": shipped(), "confirmWrites": caller.policy.confirm_writes}


@operation(summary="Replace the policy", input=NewPolicy, mutates=True, http=Http("PUT", ROUTE))
def write_policy(caller: Caller, given: NewPolicy) -> WrittenPolicy:
    """It holds everywhere within 5 seconds. Raises `ValidationFailed` with `{path, message, line,
    column}`, `WouldLockOut`, `StaleVersion`.
    """
    _check(given)
    policies, rules = _policies(caller), Rules(given.policy)
    for _ in range(TRIES):
        governor = _governor(caller, rules)
        current = policies.current()
        version = current.version if current else 0
        if given.expectedVersion not in (None, version):
            raise StaleVersion("The policy changed since you read it.", version=version)
        document = PolicyDocument(
            version=version + 1,
            policy=given.policy,
            shadow=given.shadow,
            written_by=caller.principal.name,
            written_at=iso(caller.now()),
        )
        try:
            policies.put(document, token=caller.new_id(), given=[governor])
        except StaleVersion:
            continue
        return {"ok": True, "version": document.version}
    raise StaleVersion("The policy changed since you read it.")


@operation(summary="Explain a decision", input=Question, http=Http("POST", f"{ROUTE}/explain"))
def explain_policy(caller: Caller, given: Question) -> Explanation:
    """Raises `ValidationFailed` for an operation that is not known, and for one about a card and a conversation."""
    known = REGISTRY.find(given.operation)
    if known is None and given.operation != CHAT:
        raise ValidationFailed(errors=[{"path": "operation", "message": "there is no such operation"}])
    if given.card is not None and given.conversation is not None:
        raise ValidationFailed(errors=[{"path": "conversation", "message": "name a card or a conversation, not both"}])
    mutates, destructive = (known.mutates, known.destructive) if known else (False, False)
    decision = caller.policy.decide(
        Access(
            principal=caller.principal if given.principal is None else _principal(given.principal, caller),
            operation=given.operation,
            channel=given.channel,
            mutates=mutates,
            destructive=destructive if given.destructive is None else given.destructive,
            confirmed=given.confirmed,
            card=given.card,
            conversation=given.conversation,
        )
    )
    return {"decision": decision.verdict, "policies": list(decision.policies)}


def _governor(caller: Caller, rules: Rules) -> Check:
    """Holds only while an owner stays who can sign in and change this policy, or while the first one to come would be
    one. Tokens do not count: they end, or are revoked. Raises `WouldLockOut`.
    """
    tenant = caller.principal.tenant
    accounts = Accounts(caller.store, tenant, new_id=caller.new_id)
    found = {one.account.id: one for one in accounts.all()}
    for id in [id for id, one in found.items() if one.account.rules] or [OWNER_ID]:
        if keeps_policy(rules, [signed_in_owner(id, tenant)]):
            return accounts.unchanged(id, found.get(id))
    raise WouldLockOut()


def _policies(caller: Caller) -> Policies:
    return Policies(caller.store, caller.principal.tenant)


def _shown(document: PolicyDocument) -> ShownPolicy:
    return cast(ShownPolicy, document.model_dump(by_alias=True, exclude_none=True))


def faults_of(text: str) -> list[Fault]:
    """What keeps a document from being used with the operations that there are."""
    return check(text, policy_schema())


def policy_schema() -> str:
    """Of the operations that there are."""
    return schema_of((known.name, known.about) for known in REGISTRY.all())


def _check(given: NewPolicy) -> None:
    texts = [("policy", given.policy), *([("shadow", given.shadow)] if given.shadow is not None else [])]
    if errors := [fault.as_error(path) for path, text in texts for fault in faults_of(text)]:
        raise ValidationFailed("The policy cannot be used.", errors=errors)


def _principal(who: Who, caller: Caller) -> Principal:
    return Principal(
        kind=who.kind,
        id=who.id,
        user=who.user or who.id,
        role=who.role,
        tenant=caller.principal.tenant,
        operations=None if who.operations is None else frozenset(who.operations),
        cards=None if who.cards is None else frozenset(who.cards),
    )
