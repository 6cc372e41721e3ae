"""Users of a deployment: who there is, what they may, how they come in. Passkeys and codes are everybody's own."""

from contextlib import suppress

from pydantic import Field
from typing_extensions import TypedDict

from deckhand.domain import recovery
from deckhand.domain.access_token import RANKS
from deckhand.domain.account import MAX_NAME, Account, ShownCredential, UserRole, shown_credential
from deckhand.domain.base64url import from_base64, to_base64url
from deckhand.domain.errors import NotAllowed, UnknownCredential, UnknownToken, UnknownUser
from deckhand.domain.job import Actor
from deckhand.domain.times import iso
from deckhand.operations.arguments import Arguments, Nothing
from deckhand.operations.caller import Caller
from deckhand.operations.registry import Http, operation
from deckhand.operations.shapes import Done
from deckhand.policy.rules import governs, signed_in_owner
from deckhand.storage.accounts import Accounts, Edit, put_code
from deckhand.storage.invites import CODE_BYTES, INVITE_LIFE_S, Invite, Invites
from deckhand.storage.policies import Policies
from deckhand.storage.subscriptions import Subscriptions
from deckhand.storage.tokens import Tokens


class CredentialId(Arguments):
    id: str = Field(description="The passkey's id, as list_credentials shows it.")


class NewInvite(Arguments):
    role: UserRole = Field(description="What whoever comes by it may do.")


class UserId(Arguments):
    id: str = Field(description="The user's id, as list_users shows it.")


class UserChange(UserId):
    name: str | None = Field(default=None, min_length=1, max_length=MAX_NAME, pattern=r"\S")
    role: UserRole | None = None
    disabled: bool | None = Field(default=None, description="Who is disabled cannot sign in, and is signed out.")


class OwnCredentials(TypedDict):
    """`recoveryCodes` counts those that are left."""

    credentials: list[ShownCredential]
    recoveryCodes: int


class RecoveryCodes(TypedDict):
    """Shown this once."""

    codes: list[str]


class MadeInvite(TypedDict):
    """Shown this once; `expiresAt` is ISO 8601."""

    code: str
    expiresAt: str


class ShownUser(TypedDict):
    """`createdAt` is ISO 8601; `credentials` counts their passkeys."""

    id: str
    name: str
    role: UserRole
    disabled: bool
    createdAt: str
    credentials: int


class ShownUsers(TypedDict):
    users: list[ShownUser]


class OneUser(TypedDict):
    user: ShownUser


@operation(summary="List your passkeys", input=Nothing, http=Http("GET", "/api/credentials"))
def list_credentials(caller: Caller, given: Nothing) -> OwnCredentials:
    """Your own, oldest first. Raises `NotAllowed`, `UnknownUser`."""
    account = _own(caller)
    shown = [shown_credential(one) for one in account.credentials]
    return {"credentials": shown, "recoveryCodes": len(account.recovery)}


@operation(
    summary="Remove a passkey of yours",
    input=CredentialId,
    http=Http("DELETE", "/api/credentials/{id}"),
    mutates=True,
)
def remove_credential(caller: Caller, given: CredentialId) -> Done:
    """The sessions that it opened end. Raises `NotAllowed`, `UnknownCredential`, `LastOwner`, `WouldLockOut`."""
    known = from_base64(given.id)
    if not known:
        raise UnknownCredential()
    credential_id = to_base64url(known)
    _accounts(caller).change(_user(caller), lambda account: _governed(caller, account.removing(credential_id)))
    return {"ok": True}


@operation(
    summary="Make new recovery codes",
    input=Nothing,
    http=Http("POST", "/api/recovery-codes", status=201),
    mutates=True,
)
def make_recovery_codes(caller: Caller, given: Nothing) -> RecoveryCodes:
    """Ten; each signs you in once, and older ones are void. Raises `NotAllowed`, `UnknownUser`."""
    codes = [recovery.new_code(caller.random) for _ in range(recovery.CODES)]
    user = _user(caller)
    puts = [put_code(caller.principal.tenant, code, recovery.stored(code, user, caller.random)) for code in codes]
    _accounts(caller).change(user, lambda account: Edit(account.recoverable(code.selector for code in codes), puts))
    return {"codes": [code.text for code in codes]}


@operation(summary="Invite somebody", input=NewInvite, http=Http("POST", "/api/invites", status=201), mutates=True)
def create_invite(caller: Caller, given: NewInvite) -> MadeInvite:
    """It lets one person in within 7 days, while whoever made it has their role. Raises `NotAllowed`."""
    _check_rank(caller, given.role)
    code = to_base64url(caller.random(CODE_BYTES))
    expires = int(caller.now()) + INVITE_LIFE_S
    invites = Invites(caller.store, caller.principal.tenant, new_id=caller.new_id)
    invites.add(code, Invite(role=given.role, by=Actor.of(caller.principal)), expires=expires)
    return {"code": code, "expiresAt": iso(expires)}


@operation(summary="List users", input=Nothing, http=Http("GET", "/api/users"))
def list_users(caller: Caller, given: Nothing) -> ShownUsers:
    """Oldest first."""
    found = [stored.account for stored in _accounts(caller).all()]
    return {"users": [_shown(account) for account in sorted(found, key=lambda one: one.created_at)]}


@operation(summary="Read a user", input=UserId, http=Http("GET", "/api/users/{id}"))
def read_user(caller: Caller, given: UserId) -> OneUser:
    """Oneself, or for an owner anybody. Raises `NotAllowed`, `UnknownUser`."""
    if given.id != caller.principal.user and caller.principal.role != "owner":
        raise NotAllowed("Only an owner may read others.")
    return {"user": _shown(_found(caller, given.id))}


@operation(summary="Change a user", input=UserChange, http=Http("PATCH", "/api/users/{id}"), mutates=True)
def change_user(caller: Caller, given: UserChange) -> OneUser:
    """A new role, or being disabled, ends their sessions, and revokes tokens that may do more; the
    devices of who is disabled get no more pushes. Raises `NotAllowed`, `UnknownUser`, `LastOwner`, `WouldLockOut`.
    """

    def edit(account: Account) -> Edit:
        role = given.role or account.role
        _check_rank(caller, account.role)
        _check_rank(caller, role)
        disabled = account.disabled if given.disabled is None else given.disabled
        named = account if given.name is None else account.model_copy(update={"name": given.name.strip()})
        return _governed(caller, named.becoming(role=role, disabled=disabled))

    _check_id(given.id)
    account = _accounts(caller).change(given.id, edit)
    _revoke_beyond(caller, account)
    if account.disabled:
        Subscriptions(caller.store, caller.principal.tenant).drop_all(account.id)
    return {"user": _shown(account)}


def _revoke_beyond(caller: Caller, account: Account) -> None:
    """Tokens that act for the user never have more rights than they do."""
    tokens = Tokens(caller.store, now=caller.now, new_id=caller.new_id)
    for listed in tokens.all(caller.principal.tenant):
        token = listed.token
        if token.user == account.id and (account.disabled or RANKS.get(token.role, len(RANKS)) > RANKS[account.role]):
            with suppress(UnknownToken):
                tokens.revoke(caller.principal.tenant, token.id)


def _governed(caller: Caller, account: Account) -> Edit:
    """When an owner goes, somebody has to stay who can change the policy that is in force."""
    tenant = caller.principal.tenant
    policies = Policies(caller.store, tenant)
    document = policies.current()

    def stays(other: Account) -> bool:
        return document is None or governs(document.policy, signed_in_owner(other.id, tenant))

    return Edit(account, stays=stays, given=[policies.unchanged(document)])


def _accounts(caller: Caller) -> Accounts:
    return Accounts(caller.store, caller.principal.tenant, new_id=caller.new_id)


def _user(caller: Caller) -> str:
    """Passkeys and codes are managed by the person who signed in, not by what acts for them."""
    if caller.principal.kind != "user":
        raise NotAllowed("Sign in to manage your own passkeys and codes.")
    return caller.principal.user


def _own(caller: Caller) -> Account:
    return _found(caller, _user(caller))


def _found(caller: Caller, user: str) -> Account:
    _check_id(user)
    stored = _accounts(caller).find(user)
    if stored is None:
        raise UnknownUser()
    return stored.account


def _check_id(user: str) -> None:
    """An id comes from a request: what no key can hold is no id of ours."""
    if not 0 < len(user) <= 64:
        raise UnknownUser()


def _check_rank(caller: Caller, role: UserRole) -> None:
    """Whomever the policy lets look after users: nobody gives, or takes away, more than they have."""
    if RANKS[role] > RANKS.get(caller.principal.role, -1):
        raise NotAllowed(f"The role {role} is above your own.")


def _shown(account: Account) -> ShownUser:
    return {
        "id": account.id,
        "name": account.name,
        "role": account.role,
        "disabled": account.disabled,
        "createdAt": iso(account.created_at),
        "credentials": len(account.credentials),
    }
