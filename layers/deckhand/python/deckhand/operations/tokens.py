"""Bearer tokens for programs and devices: made, listed, revoked. A secret is shown once, when it is made."""

import secrets
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Literal, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from deckhand.domain.access_token import PREFIX, RANKS, SECRET_BYTES, AccessToken, check_grant
from deckhand.domain.errors import (
    ConditionFailed,
    InvalidRequest,
    NotAllowed,
    StorageUnavailable,
    UnknownToken,
    ValidationFailed,
)
from deckhand.domain.principal import Role
from deckhand.domain.times import epoch, iso
from deckhand.operations.arguments import Arguments, Nothing
from deckhand.operations.caller import Caller
from deckhand.operations.registry import REGISTRY, Http, operation
from deckhand.operations.shapes import Done
from deckhand.policy.groups import CHAT, scope_of
from deckhand.storage.accounts import Accounts
from deckhand.storage.port import Check
from deckhand.storage.tokens import Listed, Tokens

TRIES = 8


class NewToken(Arguments):
    name: str = Field(min_length=1, max_length=80, pattern=r"\S", description="What it is for.")
    role: Literal["owner", "editor", "viewer", "agent"] = Field(description="What it may do; never more than you may.")
    operations: list[str] | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="Only these operations, by name; a tool and the route of the same act are one.",
    )
    cards: list[str] | None = Field(default=None, min_length=1, max_length=100, description="Only these cards, by id.")
    expiresAt: str | None = Field(default=None, max_length=40, description="An instant in ISO 8601, with its zone.")


class TokenId(Arguments):
    id: str


class ShownToken(TypedDict):
    """`user` is whom it acts for. `operations` and `cards` are all that it reaches, left out where it is not narrowed.
    Instants are ISO 8601; `lastUsedAt` is exact to the hour.
    """

    id: str
    name: str
    role: Role
    user: str
    operations: NotRequired[list[str]]
    cards: NotRequired[list[str]]
    createdAt: str
    expiresAt: NotRequired[str]
    lastUsedAt: NotRequired[str]


class ShownTokens(TypedDict):
    tokens: list[ShownToken]


class MadeToken(ShownToken):
    """The `secret` is never shown again."""

    secret: str


@operation(
    summary="Make a token",
    input=NewToken,
    http=Http("POST", "/api/tokens", status=201),
    mutates=True,
)
def create_token(caller: Caller, given: NewToken) -> MadeToken:
    """It acts for the caller's user. Raises `NotAllowed`, `ValidationFailed`, `InvalidRequest`, `TooManyTokens`."""
    if errors := _unknown(given.operations or []):
        raise ValidationFailed(errors=errors)
    mine = caller.principal.operations
    giver = replace(caller.principal, operations=None if mine is None else scope_of(mine))
    check_grant(giver, role=given.role, operations=given.operations, cards=given.cards)
    expires = None if given.expiresAt is None else _later(given.expiresAt, caller.now())
    tokens = _tokens(caller)
    if caller.principal.kind == "token":
        _check_own_end(caller, tokens, expires)
    secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    token = AccessToken(
        id=caller.new_id(),
        name=given.name.strip(),
        role=given.role,
        user=caller.principal.user,
        tenant=caller.principal.tenant,
        created_at=iso(caller.now()),
        operations=None if given.operations is None else frozenset(given.operations),
        cards=None if given.cards is None else frozenset(given.cards),
        expires_at=None if expires is None else iso(expires),
    )
    for _ in range(TRIES):
        with suppress(ConditionFailed):
            tokens.add(token, secret=secret, expires=expires, given=[_standing(caller, given.role)])
            return {**_shown(Listed(token, None)), "secret": secret}
    raise StorageUnavailable()


@operation(summary="List tokens", input=Nothing, http=Http("GET", "/api/tokens"))
def list_tokens(caller: Caller, given: Nothing) -> ShownTokens:
    """Oldest first; an owner's list has all, anybody else's the own ones."""
    found = [one for one in _tokens(caller).all(caller.principal.tenant) if _reaches(caller, one.token)]
    return {"tokens": [_shown(one) for one in sorted(found, key=lambda one: one.token.created_at)]}


@operation(summary="Revoke a token", input=TokenId, http=Http("DELETE", "/api/tokens/{id}"), mutates=True)
def revoke_token(caller: Caller, given: TokenId) -> Done:
    """Raises `UnknownToken`, also for another person's."""
    tokens = _tokens(caller)
    if not _reaches(caller, tokens.named(caller.principal.tenant, given.id)):
        raise UnknownToken()
    tokens.revoke(caller.principal.tenant, given.id)
    return {"ok": True}


def _unknown(operations: list[str]) -> list[dict[str, str]]:
    """A fault for each name that no operation has, with those that it may stand for."""
    known = [CHAT, *(one.name for one in REGISTRY.all())]
    faults = []
    for name in dict.fromkeys(operations):
        if name not in known:
            close = get_close_matches(name[:80], known, n=3, cutoff=0.5)
            hint = f"; close to it: {', '.join(close)}" if close else ""
            faults.append({"path": "operations", "message": f"there is no operation {name[:80]}{hint}"})
    return faults


def _tokens(caller: Caller) -> Tokens:
    return Tokens(caller.store, now=caller.now, new_id=caller.new_id)


def _reaches(caller: Caller, token: AccessToken) -> bool:
    return caller.principal.role == "owner" or token.user == caller.principal.user


def _standing(caller: Caller, role: Role) -> Check:
    """Holds only while the user has the rights that they give: whoever takes them away revokes the tokens that are
    there by then. Raises `NotAllowed`.
    """
    accounts = Accounts(caller.store, caller.principal.tenant, new_id=caller.new_id)
    found = accounts.find(caller.principal.user)
    if found is not None and (found.account.disabled or RANKS[role] > RANKS[found.account.role]):
        raise NotAllowed(f"A token with the role {role} would have more rights than you.")
    return accounts.unchanged(caller.principal.user, found)


def _check_own_end(caller: Caller, tokens: Tokens, expires: int | None) -> None:
    """A token that ends makes none that outlives it."""
    mine = tokens.named(caller.principal.tenant, caller.principal.id).expires_at
    if mine is not None and (expires is None or iso(expires) > mine):
        raise NotAllowed(f"Your own token ends at {mine}; one that it makes must end by then.")


def _later(text: str, now: float) -> int:
    try:
        instant = int(epoch(text))
    except ValueError:
        raise InvalidRequest("expiresAt must be an instant such as 2027-01-31T00:00:00Z.") from None
    if instant <= now:
        raise InvalidRequest("expiresAt lies in the past.")
    return instant


def _shown(one: Listed) -> ShownToken:
    token = one.token
    shown: dict[str, Any] = {"id": token.id, "name": token.name, "role": token.role, "user": token.user}
    if token.operations is not None:
        shown["operations"] = sorted(token.operations)
    if token.cards is not None:
        shown["cards"] = sorted(token.cards)
    shown["createdAt"] = token.created_at
    if token.expires_at is not None:
        shown["expiresAt"] = token.expires_at
    if one.last_used_at is not None:
        shown["lastUsedAt"] = one.last_used_at
    return cast(ShownToken, shown)
