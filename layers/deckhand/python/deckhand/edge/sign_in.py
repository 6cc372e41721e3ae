"""Signing in by a passkey or by a recovery code. Whatever fails fails alike, so that nobody learns which part it
was.
"""

from dataclasses import dataclass
from typing import Any

from deckhand.domain import recovery
from deckhand.domain.account import Account, Credential, counter_rises
from deckhand.domain.errors import SignInFailed, UnknownCredential
from deckhand.edge.passkeys import Answer, Passkeys, challenge_of, id_of
from deckhand.edge.session_opening import Opened, SessionOpening
from deckhand.storage.accounts import Accounts, Edit
from deckhand.storage.attempts import Attempts
from deckhand.storage.challenges import CHALLENGE_BYTES, Challenges, SignIn


@dataclass(frozen=True, slots=True)
class SignIns:
    passkeys: Passkeys
    accounts: Accounts
    challenges: Challenges
    attempts: Attempts
    opening: SessionOpening

    def options(self) -> dict[str, Any]:
        """What to hand to `navigator.credentials.get`."""
        challenge = self.opening.random(CHALLENGE_BYTES)
        self.challenges.give_out(challenge, SignIn())
        return self.passkeys.request_options(challenge)

    def by_passkey(self, answer: Answer) -> Opened:
        """Raises `SignInFailed`, `RateLimited`."""
        challenge, credential_id = challenge_of(answer), id_of(answer)
        given_out = self.challenges.spend_sign_in(challenge)
        known = self.accounts.holder(credential_id)
        if known is None or not given_out:
            raise SignInFailed()
        user = known.account.id
        self.attempts.count(f"account {user}")
        counter = self.passkeys.used(
            answer, challenge=challenge, credential=_credential(known.account, credential_id), user=user
        )

        def used(account: Account) -> Edit:
            # As it is now: another sign-in may have come in between.
            if not counter_rises(_credential(account, credential_id).counter, counter):
                raise SignInFailed()
            return Edit(account.using(credential_id, counter=counter, now=self.opening.now()))

        return self.opening.open(user, used, credential_id)

    def by_recovery_code(self, text: str) -> Opened:
        """The code is spent. Raises `SignInFailed`, `RateLimited`."""
        code = recovery.read_code(text)
        if code is None:
            raise SignInFailed()
        kept = self.accounts.recovery_code(code.selector)
        if kept is not None:
            self.attempts.count(f"account {kept.user}")
        proven = recovery.proves(code, kept or recovery.NOBODYS)
        if kept is None or not proven:
            raise SignInFailed()

        def spent(account: Account) -> Edit:
            if code.selector not in account.recovery:
                raise SignInFailed()
            return Edit(account.spending(code.selector))

        return self.opening.open(kept.user, spent, None)


def _credential(account: Account, credential_id: str) -> Credential:
    try:
        return account.credential(credential_id)
    except UnknownCredential:
        raise SignInFailed() from None
