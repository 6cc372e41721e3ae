"""Letting a user in: a session of their account, and the secret for its cookie."""

from collections.abc import Callable
from dataclasses import dataclass

from deckhand.domain.access_token import fingerprint
from deckhand.domain.account import Account, Credential, OpenSession
from deckhand.domain.base64url import to_base64url
from deckhand.domain.errors import SignInFailed, UnknownUser
from deckhand.storage.accounts import Accounts, Edit
from deckhand.storage.port import Put
from deckhand.storage.sessions import Sessions

SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Opened:
    """Who came in; `secret` is the cookie's, None where a session was open already. `credential` is a new passkey."""

    account: Account
    secret: str | None
    credential: Credential | None = None


@dataclass(frozen=True, slots=True)
class SessionOpening:
    """`random` gives that many bytes."""

    tenant: str
    accounts: Accounts
    sessions: Sessions
    now: Callable[[], float]
    random: Callable[[int], bytes]

    def new(self, credential_id: str | None) -> tuple[str, OpenSession]:
        """A secret and the session that it opens, once that is written."""
        secret = to_base64url(self.random(SECRET_BYTES))
        return secret, OpenSession(hash=fingerprint(secret), credential=credential_id, created_at=self.now())

    def put(self, account: Account, session: OpenSession) -> Put:
        """To be written with the account that lists it."""
        return self.sessions.opening(self.tenant, account, session)

    def open(self, user: str, edit: Callable[[Account], Edit], credential_id: str | None) -> Opened:
        """Writes the edited account and its new session together. Raises `SignInFailed`, what `edit` raises, and
        `ConditionFailed` by what it writes beside the account.
        """
        secret, session = self.new(credential_id)

        def opened(account: Account) -> Edit:
            edited = edit(enabled(account))
            listed = edited.account.opening(session)
            return Edit(listed, [*edited.also, self.put(listed, session)])

        try:
            return Opened(self.accounts.change(user, opened), secret)
        except UnknownUser:
            raise SignInFailed() from None

    def close(self, user: str, secret: str) -> None:
        """Ends this session only."""
        try:
            self.accounts.change(user, lambda account: Edit(account.closing(fingerprint(secret))))
        except UnknownUser:
            return


def enabled(account: Account) -> Account:
    if account.disabled:
        raise SignInFailed()
    return account
