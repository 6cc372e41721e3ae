"""Sessions on the store: who signed in, found by one read.

identity  session#<sha256 of the secret>  it  user, role, instants; found before any tenant is known; expires by itself

The account lists its sessions, and ends them in the write that changes its role (accounts.py).
"""

from collections.abc import Callable
from contextlib import suppress

from deckhand.domain.access_token import fingerprint
from deckhand.domain.account import NOTE_USE_AFTER_S, Account, OpenSession, UserRole, session_expiry
from deckhand.domain.errors import StorageError
from deckhand.domain.model import Model
from deckhand.domain.principal import Principal
from deckhand.storage.accounts import session_key
from deckhand.storage.port import ABSENT, Item, ItemStore, Put, VersionIs


class Session(Model):
    user: str
    tenant: str
    role: UserRole
    created_at: float
    used_at: float


class Sessions:
    """Blocking; raises storage errors."""

    def __init__(self, store: ItemStore, *, now: Callable[[], float], new_id: Callable[[], str]) -> None:
        self._store, self._now, self._new_id = store, now, new_id

    def principal(self, secret: str) -> Principal | None:
        """Who holds this cookie; None for an unknown, ended or expired one. One read, and at most once an hour a
        write that notes the use.
        """
        item = self._store.get(session_key(fingerprint(secret)))
        if item is None:
            return None
        session = Session.model_validate_json(item.body)
        if self._now() - session.used_at >= NOTE_USE_AFTER_S:
            self._note_use(item, session)
        return Principal(kind="user", id=session.user, user=session.user, role=session.role, tenant=session.tenant)

    def opening(self, tenant: str, account: Account, open_session: OpenSession) -> Put:
        """To be written with the account that lists it."""
        now = open_session.created_at
        session = Session(user=account.id, tenant=tenant, role=account.role, created_at=now, used_at=now)
        return Put(self._item(open_session.hash, session, 1), ABSENT)

    def _note_use(self, item: Item, session: Session) -> None:
        """A session that ended meanwhile stays so; a use that cannot be noted is noted by the next request."""
        session_hash = item.pk.rpartition("#")[2]
        used = session.model_copy(update={"used_at": self._now()})
        put = Put(self._item(session_hash, used, item.version + 1), VersionIs(item.version))
        with suppress(StorageError):
            self._store.write([put], token=self._new_id())

    def _item(self, session_hash: str, session: Session, version: int) -> Item:
        key = session_key(session_hash)
        expires = session_expiry(created_at=session.created_at, used_at=session.used_at)
        return Item(key.table, key.pk, key.sk, session.to_json(), version, expires)
