"""Whose rights have ended: tokens that were revoked, roles that users have no more. What is not there holds.

    deck  <tenant>#ended  token#<id> | user#<id>#<role>  {}; a token's goes by itself

Proposals, queued messages and turns remember who they act for; before they act this is asked.
"""

from collections.abc import Callable
from typing import get_args

from deckhand.domain.account import Account, UserRole
from deckhand.domain.errors import NotAllowed
from deckhand.domain.principal import Principal
from deckhand.storage.port import ABSENT, Check, Delete, Item, ItemStore, Key, Op, Put

TOKEN_KEPT_S = 90 * 24 * 3600
"""Nothing that was begun for a token waits for so long."""


class Endings:
    """Blocking; raises storage errors. `now` gives epoch seconds."""

    def __init__(self, store: ItemStore, *, now: Callable[[], float]) -> None:
        self._store, self._now = store, now

    def check(self, principal: Principal) -> None:
        """At most one read. Raises `NotAllowed`."""
        if self.over(principal):
            raise NotAllowed("Whoever this is done for may not do it any more.")

    def over(self, principal: Principal) -> bool:
        return self.is_past(principal) or any(
            self._store.get(check.key) is not None for check in self.checks(principal)
        )

    def is_past(self, principal: Principal) -> bool:
        """Whether its time is over. No read; the rest is in `checks`."""
        return principal.until is not None and self._now() >= principal.until

    def checks(self, *principals: Principal) -> list[Check]:
        """As conditions of another write, which fails where the rights of any have ended. Times are not in it."""
        keys = {_key(principal.tenant, name) for principal in principals if (name := _name(principal))}
        return [Check(key, ABSENT) for key in sorted(keys, key=lambda key: key.sk)]


def token_ended(tenant: str, id: str, now: float) -> Put:
    """To be written with the removal of the token."""
    key = _key(tenant, f"token#{id}")
    return Put(Item(key.table, key.pk, key.sk, "{}", expires=int(now) + TOKEN_KEPT_S))


def roles_ended(tenant: str, account: Account) -> list[Op]:
    """To be written with an account whose role or access changed."""
    held = None if account.disabled else account.role
    keys: dict[UserRole, Key] = {role: _key(tenant, f"user#{account.id}#{role}") for role in get_args(UserRole)}
    return [Delete(key) if role == held else Put(Item(key.table, key.pk, key.sk, "{}")) for role, key in keys.items()]


def _name(principal: Principal) -> str | None:
    if principal.kind == "user":
        return f"user#{principal.id}#{principal.role}"
    return f"token#{principal.id}" if principal.kind == "token" else None


def _key(tenant: str, name: str) -> Key:
    return Key("deck", f"{tenant}#ended", name)
