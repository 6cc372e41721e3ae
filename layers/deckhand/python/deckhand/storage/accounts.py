"""Users on the store: one item each, which everything about them is changed with.

identity  <tenant>#users                <user>      account: passkeys, open sessions, recovery codes that are left
identity  <tenant>#credential#<hash>    it          whose passkey this is; no id is taken twice
identity  session#<hash>                it          see sessions.py
identity  <tenant>#recovery#<selector>  it          a recovery code

A change is one transaction on the condition that the account is as it was read, so that what it removes (sessions,
codes, a role) is gone when it is done, whatever happens at the same time. A user who comes or goes leaves a marker for
the index of reminders in it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deckhand.domain.access_token import fingerprint
from deckhand.domain.account import Account
from deckhand.domain.errors import ConditionFailed, LastOwner, StorageUnavailable, UnknownUser, WouldLockOut
from deckhand.domain.recovery import Code, StoredCode
from deckhand.storage.due import Marked, mark
from deckhand.storage.endings import roles_ended
from deckhand.storage.port import ABSENT, Check, Delete, Item, ItemStore, Key, Op, Put, VersionIs
from deckhand.storage.repeat import write_surely
from deckhand.storage.tokens import somebody_is_known

IT = "it"
TRIES = 8


@dataclass(frozen=True, slots=True)
class StoredAccount:
    account: Account
    version: int


@dataclass(frozen=True, slots=True)
class Edit:
    """What a change makes of an account, and what else is written with it. Where it ends an owner's access, one of
    whom `stays` holds has to stay, and `given` what that hangs on; the change is made again when it is not so any more.
    """

    account: Account
    also: Sequence[Op] = field(default=())
    stays: Callable[[Account], bool] = lambda _: True
    given: Sequence[Check] = field(default=())


class Accounts:
    """Blocking; raises storage errors."""

    def __init__(self, store: ItemStore, tenant: str, *, new_id: Callable[[], str]) -> None:
        self._store, self._tenant, self._new_id = store, tenant, new_id

    def find(self, user: str) -> StoredAccount | None:
        item = self._store.get(self._key(user))
        return None if item is None else _stored(item)

    def all(self) -> list[StoredAccount]:
        return [_stored(item) for item in self._store.query("identity", self._users).items]

    def holder(self, credential_id: str) -> StoredAccount | None:
        """Whose passkey this is."""
        item = self._store.get(credential_key(self._tenant, credential_id))
        return None if item is None else self.find(item.body)

    def recovery_code(self, selector: str) -> StoredCode | None:
        item = self._store.get(recovery_key(self._tenant, selector))
        return None if item is None else StoredCode.model_validate_json(item.body)

    def unchanged(self, user: str, found: StoredAccount | None) -> Check:
        """As a condition of another write: the account is still as it was read."""
        return Check(self._key(user), ABSENT if found is None else VersionIs(found.version))

    def add(self, account: Account, also: Sequence[Op]) -> None:
        """Raises `ConditionFailed` when the user, or one of the passkeys, is there already, or by an op of `also`."""
        self._write(None, Edit(account, [*also, somebody_is_known()]))

    def change(self, user: str, edit: Callable[[Account], Edit]) -> Account:
        """Made again when the account changed meanwhile. Raises `UnknownUser`, `LastOwner`, `WouldLockOut`, what
        `edit` raises, and `ConditionFailed` by an op of `also`, or when a new passkey is taken.
        """
        for _ in range(TRIES):
            before = self.find(user)
            if before is None:
                raise UnknownUser()
            edited = edit(before.account)
            try:
                self._write(before, edited)
            except _Moved:
                continue
            return edited.account
        raise StorageUnavailable()

    def _write(self, before: StoredAccount | None, edit: Edit) -> None:
        account = edit.account
        was = None if before is None else before.account
        version = 0 if before is None else before.version
        key = self._key(account.id)
        item = Item(key.table, key.pk, key.sk, account.to_json(), version + 1)
        ops: list[Op] = [Put(item, ABSENT if before is None else VersionIs(version))]
        if was is not None and was.rules and not account.rules:
            ops += [self._another_owner(account.id, edit.stays), *edit.given]
        moving = len(ops) if before is not None else 0
        ops += [*self._sides(was, account), *edit.also]
        if was is not None and (was.role, was.disabled) != (account.role, account.disabled):
            ops += roles_ended(self._tenant, account)
        if was is None or was.disabled != account.disabled:
            ops.append(mark(self._tenant, Marked.ACCOUNT, account.id, self._new_id(), away=account.disabled))
        try:
            write_surely(self._store, ops, token=self._new_id())
        except ConditionFailed as failed:
            if failed.index < moving:
                raise _Moved() from failed
            raise

    def _another_owner(self, user: str, stays: Callable[[Account], bool]) -> Check:
        """Holds only while another owner who can come in stays as they are. Raises `LastOwner` without one, and
        `WouldLockOut` when there are only others.
        """
        others = [one for one in self.all() if one.account.id != user and one.account.rules]
        for other in others:
            if stays(other.account):
                return self.unchanged(other.account.id, other)
        raise WouldLockOut() if others else LastOwner()

    def _sides(self, was: Account | None, now: Account) -> list[Op]:
        """The items beside the account that follow from what changed in it."""
        old_ids = {one.id for one in was.credentials} if was else set()
        new_ids = {one.id for one in now.credentials}
        gone = {one.hash for one in was.sessions} - {one.hash for one in now.sessions} if was else set()
        spent = set(was.recovery) - set(now.recovery) if was else set()
        return [
            *(self._claim(one, now.id) for one in sorted(new_ids - old_ids)),
            *(Delete(credential_key(self._tenant, one)) for one in sorted(old_ids - new_ids)),
            *(Delete(session_key(one)) for one in sorted(gone)),
            *(Delete(recovery_key(self._tenant, one)) for one in sorted(spent)),
        ]

    def _claim(self, credential_id: str, user: str) -> Put:
        key = credential_key(self._tenant, credential_id)
        return Put(Item(key.table, key.pk, key.sk, user), ABSENT)

    @property
    def _users(self) -> str:
        return f"{self._tenant}#users"

    def _key(self, user: str) -> Key:
        return Key("identity", self._users, user)


class _Moved(Exception):
    """The account is not as it was read."""


def credential_key(tenant: str, credential_id: str) -> Key:
    """By a hash, as ids may be longer than keys."""
    return Key("identity", f"{tenant}#credential#{fingerprint(credential_id)}", IT)


def session_key(session_hash: str) -> Key:
    return Key("identity", f"session#{session_hash}", IT)


def recovery_key(tenant: str, selector: str) -> Key:
    return Key("identity", f"{tenant}#recovery#{selector}", IT)


def put_code(tenant: str, code: Code, kept: StoredCode) -> Put:
    """To be written with the account that lists it."""
    key = recovery_key(tenant, code.selector)
    return Put(Item(key.table, key.pk, key.sk, kept.to_json()), ABSENT)


def _stored(item: Item) -> StoredAccount:
    return StoredAccount(Account.model_validate_json(item.body), item.version)
