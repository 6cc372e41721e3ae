"""A user with everything that lets them in: passkeys, sessions, recovery codes. Pure; each edit gives a new account."""

from collections.abc import Iterable
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from deckhand.domain.errors import DuplicateId, SignInFailed, TooManyCredentials, UnknownCredential
from deckhand.domain.model import Model
from deckhand.domain.times import iso

OWNER_ID = "owner"
"""The first owner's id; what acts for the deployment's owner from the environment names it too."""
MAX_NAME = 80
MAX_CREDENTIALS = 20
MAX_SESSIONS = 30
"""A user's oldest session ends where another would be one too many: all of a user's items fit in one transaction."""
SESSION_LIFE_S = 30 * 24 * 3600
SESSION_IDLE_S = 7 * 24 * 3600
NOTE_USE_AFTER_S = 3600

UserRole = Literal["owner", "editor", "viewer"]


class Credential(Model):
    """A passkey. `id` and `public_key` (COSE) are unpadded base64url; instants are epoch seconds."""

    id: str
    public_key: str
    counter: int
    nickname: str | None = None
    created_at: float
    used_at: float | None = None


class OpenSession(Model):
    """`hash` is of the cookie's secret; `credential` is what opened it, None for a recovery code."""

    hash: str
    credential: str | None = None
    created_at: float


class Account(Model):
    """`recovery` holds the public parts of the codes that are left."""

    id: str
    name: str
    role: UserRole
    created_at: float
    disabled: bool = False
    credentials: tuple[Credential, ...] = ()
    sessions: tuple[OpenSession, ...] = ()
    recovery: tuple[str, ...] = ()

    @property
    def rules(self) -> bool:
        """Whether this is an owner who can come in: one such must always be left."""
        return self.role == "owner" and not self.disabled and bool(self.credentials)

    def credential(self, credential_id: str) -> Credential:
        """Raises `UnknownCredential`."""
        for credential in self.credentials:
            if credential.id == credential_id:
                return credential
        raise UnknownCredential()

    def adding(self, credential: Credential) -> "Account":
        """Raises `DuplicateId` for one that is there, `TooManyCredentials`."""
        if any(one.id == credential.id for one in self.credentials):
            raise DuplicateId()
        if len(self.credentials) >= MAX_CREDENTIALS:
            raise TooManyCredentials()
        return self.model_copy(update={"credentials": (*self.credentials, credential)})

    def removing(self, credential_id: str) -> "Account":
        """Without the credential and the sessions that it opened. Raises `UnknownCredential`."""
        gone = self.credential(credential_id)
        return self.model_copy(
            update={
                "credentials": tuple(one for one in self.credentials if one is not gone),
                "sessions": tuple(one for one in self.sessions if one.credential != credential_id),
            }
        )

    def using(self, credential_id: str, *, counter: int, now: float) -> "Account":
        used = self.credential(credential_id).model_copy(update={"counter": counter, "used_at": now})
        return self.model_copy(
            update={"credentials": tuple(used if one.id == credential_id else one for one in self.credentials)}
        )

    def opening(self, session: OpenSession) -> "Account":
        """Raises `SignInFailed` for who is disabled."""
        if self.disabled:
            raise SignInFailed()
        live = [one for one in self.sessions if one.created_at + SESSION_LIFE_S > session.created_at]
        return self.model_copy(update={"sessions": (*live, session)[-MAX_SESSIONS:]})

    def closing(self, session_hash: str) -> "Account":
        return self.model_copy(update={"sessions": tuple(one for one in self.sessions if one.hash != session_hash)})

    def spending(self, selector: str) -> "Account":
        return self.model_copy(update={"recovery": tuple(one for one in self.recovery if one != selector)})

    def recoverable(self, selectors: Iterable[str]) -> "Account":
        """By these codes, and by none that were there before."""
        return self.model_copy(update={"recovery": tuple(selectors)})

    def becoming(self, *, role: UserRole, disabled: bool) -> "Account":
        """Sessions carry the role, so they end where it changes."""
        same = role == self.role and not disabled
        return self.model_copy(
            update={"role": role, "disabled": disabled, "sessions": self.sessions if same else ()},
        )


class ShownCredential(TypedDict):
    """`id` is unpadded base64url; instants are ISO 8601."""

    id: str
    nickname: str | None
    createdAt: str
    lastUsedAt: NotRequired[str]


def shown_credential(credential: Credential) -> ShownCredential:
    """As its user sees it: never the key."""
    shown: ShownCredential = {
        "id": credential.id,
        "nickname": credential.nickname,
        "createdAt": iso(credential.created_at),
    }
    return shown if credential.used_at is None else {**shown, "lastUsedAt": iso(credential.used_at)}


def counter_rises(stored: int, new: int) -> bool:
    """A signature counter that is in use must rise; synced passkeys leave it at 0 for ever (bug case 66)."""
    return new > stored or stored == new == 0


def session_expiry(*, created_at: float, used_at: float) -> int:
    """Epoch second at which a session ends: 30 days old, or 7 days idle."""
    return int(min(created_at + SESSION_LIFE_S, used_at + SESSION_IDLE_S))
