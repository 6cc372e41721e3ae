"""Whatever is done to users in whatever order: what the store holds beside the accounts is what the accounts say, and
an owner who can come in is always left.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deckhand.domain.access_token import fingerprint
from deckhand.domain.account import Account, Credential, OpenSession
from deckhand.domain.errors import DeckhandError, SignInFailed
from deckhand.domain.recovery import Code, StoredCode
from deckhand.storage.accounts import Accounts, Edit, credential_key, put_code, recovery_key, session_key
from deckhand.storage.port import Key
from deckhand.storage.sessions import Sessions
from deckhand.storage.sqlite import SqliteStore
from tests.stores import Clock, new_token

USERS, CREDENTIALS = ("owner", "ann", "bob"), ("phone", "key", "watch", "desk")
STEP = st.tuples(
    st.sampled_from(["add", "remove", "open", "close", "codes", "spend", "become"]),
    st.sampled_from(USERS),
    st.sampled_from(CREDENTIALS),
    st.sampled_from(["owner", "editor", "viewer"]),
    st.booleans(),
)


@dataclass
class World:
    store: SqliteStore
    clock: Clock
    secrets: list[tuple[str, str]] = field(default_factory=list)
    codes: int = 0

    def __post_init__(self) -> None:
        self.accounts = Accounts(self.store, "main", new_id=new_token)
        self.sessions = Sessions(self.store, now=self.clock, new_id=new_token)
        for user in USERS:
            found = Account(id=user, name=user, role="owner" if user == "owner" else "viewer", created_at=0)
            self.accounts.add(found if user != "owner" else found.adding(fresh("first")), [])

    def take(self, kind: str, user: str, credential: str, role: Any, disabled: bool) -> None:
        edits: dict[str, Callable[[Account], Edit]] = {
            "add": lambda account: Edit(account.adding(fresh(credential))),
            "remove": lambda account: Edit(account.removing(credential)),
            "open": lambda account: self._opened(account, credential),
            "close": lambda account: Edit(account.closing(account.sessions[0].hash if account.sessions else "none")),
            "codes": self._with_codes,
            "spend": lambda account: Edit(account.spending(account.recovery[0] if account.recovery else "none")),
            "become": lambda account: Edit(account.becoming(role=role, disabled=disabled)),
        }
        try:
            self.accounts.change(user, edits[kind])
        except DeckhandError:
            return

    def _opened(self, account: Account, credential: str) -> Edit:
        account.credential(credential)
        secret = new_token()
        session = OpenSession(hash=fingerprint(secret), credential=credential, created_at=self.clock.time)
        edited = account.opening(session)
        self.secrets.append((account.id, secret))
        return Edit(edited, [self.sessions.opening("main", edited, session)])

    def _with_codes(self, account: Account) -> Edit:
        self.codes += 1
        codes = [Code(f"S{self.codes}N{n}", "proof") for n in range(3)]
        puts = [put_code("main", code, StoredCode(user=account.id, salt="00", hash="00")) for code in codes]
        return Edit(account.recoverable(code.selector for code in codes), puts)

    def check(self) -> None:
        accounts = [stored.account for stored in self.accounts.all()]
        assert any(account.rules for account in accounts)
        holders = {one.id: account.id for account in accounts for one in account.credentials}
        assert sum(len(account.credentials) for account in accounts) == len(holders)
        for credential in (*CREDENTIALS, "first"):
            item = self.store.get(credential_key("main", credential))
            assert (item.body if item else None) == holders.get(credential)
        listed = {session.hash: account for account in accounts for session in account.sessions}
        for _, secret in self.secrets:
            found, account = self.sessions.principal(secret), listed.get(fingerprint(secret))
            assert (found is None) == (account is None)
            if found is not None and account is not None:
                assert (found.user, found.role, account.disabled) == (account.id, account.role, False)
            assert (self.store.get(session_key(fingerprint(secret))) is None) == (account is None)
        left = {selector for account in accounts for selector in account.recovery}
        for number in range(1, self.codes + 1):
            for n in range(3):
                key: Key = recovery_key("main", f"S{number}N{n}")
                assert (self.store.get(key) is not None) == (key.pk.rpartition("#")[2] in left)


def fresh(credential: str) -> Credential:
    return Credential(id=credential, public_key="k", counter=0, created_at=0)


@given(st.lists(STEP, max_size=25))
@settings(max_examples=60)
def test_the_store_always_agrees_with_the_accounts(steps: Sequence[tuple[str, str, str, str, bool]]) -> None:
    clock = Clock()
    with closing(SqliteStore(":memory:", now=clock)) as store:
        world = World(store, clock)
        for step in steps:
            world.take(*step)
            world.check()


def test_who_is_disabled_opens_no_session() -> None:
    account = Account(id="ann", name="ann", role="editor", created_at=0, disabled=True).adding(fresh("phone"))
    with pytest.raises(SignInFailed):
        account.opening(OpenSession(hash="h", credential="phone", created_at=1))
