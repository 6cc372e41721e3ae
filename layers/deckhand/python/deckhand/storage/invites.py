"""Invites on the store: codes that let somebody in once. Only their hashes are stored.

identity  <tenant>#invite#<sha256 of the code>  it  role, who made it, and for whom when that is fixed
"""

from collections.abc import Callable

from deckhand.domain.access_token import fingerprint
from deckhand.domain.account import UserRole
from deckhand.domain.job import Actor
from deckhand.domain.model import Model
from deckhand.storage.accounts import IT
from deckhand.storage.port import ABSENT, EXISTS, Delete, Item, ItemStore, Key, Put

INVITE_LIFE_S = 7 * 24 * 3600
CODE_BYTES = 24


class Invite(Model):
    """`user` is None for somebody new. `by` made it, and it holds while they may; None: whoever has the store."""

    role: UserRole
    user: str | None = None
    by: Actor | None = None


class Invites:
    """Blocking; raises storage errors."""

    def __init__(self, store: ItemStore, tenant: str, *, new_id: Callable[[], str]) -> None:
        self._store, self._tenant, self._new_id = store, tenant, new_id

    def add(self, code: str, invite: Invite, *, expires: int) -> None:
        key = self._key(fingerprint(code))
        item = Item(key.table, key.pk, key.sk, invite.to_json(), expires=expires)
        self._store.write([Put(item, ABSENT)], token=self._new_id())

    def find(self, code: str) -> Invite | None:
        item = self._store.get(self._key(fingerprint(code)))
        return None if item is None else Invite.model_validate_json(item.body)

    def spending(self, invite_hash: str) -> Delete:
        """To be written with the account that it lets in; fails when it is spent."""
        return Delete(self._key(invite_hash), EXISTS)

    def _key(self, invite_hash: str) -> Key:
        return Key("identity", f"{self._tenant}#invite#{invite_hash}", IT)
