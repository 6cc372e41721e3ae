"""Challenges on the store: one an attempt, for five minutes, spent once.

identity  <tenant>#challenge#<challenge>  it  what it was given out for
"""

from collections.abc import Callable
from typing import Literal

from deckhand.domain.account import UserRole
from deckhand.domain.base64url import to_base64url
from deckhand.domain.errors import ConditionFailed
from deckhand.domain.job import Actor
from deckhand.domain.model import Model
from deckhand.storage.accounts import IT
from deckhand.storage.port import EXISTS, Delete, Item, ItemStore, Key, Put
from deckhand.storage.repeat import write_surely

CHALLENGE_BYTES = 32
CHALLENGE_LIFE_S = 5 * 60


class SignIn(Model):
    """For whoever has a passkey."""

    kind: Literal["sign-in"] = "sign-in"


class Enrolment(Model):
    """For a new passkey of `user`, who gets `role` when they are new. `invite` is what is spent by it, and
    `by` who made that; None for a second device.
    """

    kind: Literal["enrolment"] = "enrolment"
    user: str
    role: UserRole | None = None
    name: str | None = None
    invite: str | None = None
    by: Actor | None = None


class Challenges:
    """Blocking; raises storage errors."""

    def __init__(self, store: ItemStore, tenant: str, *, now: Callable[[], float], new_id: Callable[[], str]) -> None:
        self._store, self._tenant, self._now, self._new_id = store, tenant, now, new_id

    def give_out(self, challenge: bytes, purpose: SignIn | Enrolment) -> None:
        key = self._key(challenge)
        expires = int(self._now()) + CHALLENGE_LIFE_S
        item = Item(key.table, key.pk, key.sk, purpose.to_json(), expires=expires)
        self._store.write([Put(item)], token=self._new_id())

    def spend_sign_in(self, challenge: bytes) -> bool:
        """Whether it was given out for a sign-in, and this call is the one that spent it."""
        body = self._spend(challenge)
        return body is not None and body == SignIn().to_json()

    def spend_enrolment(self, challenge: bytes) -> Enrolment | None:
        body = self._spend(challenge)
        return None if body is None or body == SignIn().to_json() else Enrolment.model_validate_json(body)

    def _spend(self, challenge: bytes) -> str | None:
        """What it was given out for; None when it is unknown, expired or spent. Of several at once one gets it."""
        key = self._key(challenge)
        item = self._store.get(key)
        if item is None:
            return None
        try:
            write_surely(self._store, [Delete(key, EXISTS)], token=self._new_id())
        except ConditionFailed:
            return None
        return item.body

    def _key(self, challenge: bytes) -> Key:
        return Key("identity", f"{self._tenant}#challenge#{to_base64url(challenge)}", IT)
