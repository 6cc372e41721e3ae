"""A new passkey: of the first owner, of somebody who was invited, or on one more device of a user."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from deckhand.domain.access_token import fingerprint
from deckhand.domain.account import OWNER_ID, Account, Credential
from deckhand.domain.errors import ConditionFailed, DuplicateId, SignInFailed, UnknownUser
from deckhand.domain.principal import Principal
from deckhand.edge.passkeys import Answer, Passkeys, challenge_of
from deckhand.edge.session_opening import Opened, SessionOpening, enabled
from deckhand.storage.accounts import Accounts, Edit
from deckhand.storage.challenges import CHALLENGE_BYTES, Challenges, Enrolment
from deckhand.storage.endings import Endings
from deckhand.storage.invites import Invites
from deckhand.storage.port import Op


@dataclass(frozen=True, slots=True)
class Enrolments:
    """`first_code` gives the code of the settings that lets the first owner in, None without one. `endings` tells whose
    invites hold no more.
    """

    passkeys: Passkeys
    accounts: Accounts
    challenges: Challenges
    invites: Invites
    endings: Endings
    opening: SessionOpening
    first_code: Callable[[], str | None]
    new_id: Callable[[], str]

    def options(self, *, invite: str | None, name: str | None, signed_in: Principal | None) -> dict[str, Any]:
        """What to hand to `navigator.credentials.create`. Raises `SignInFailed`."""
        enrolment = self._invited(invite, name) if invite is not None else _second_device(signed_in, name)
        known = self.accounts.find(enrolment.user)
        if known is None and enrolment.role is None:
            raise SignInFailed()
        challenge = self.opening.random(CHALLENGE_BYTES)
        self.challenges.give_out(challenge, enrolment)
        return self.passkeys.creation_options(
            user=enrolment.user,
            name=known.account.name if known else _name(enrolment),
            challenge=challenge,
            exclude=known.account.credentials if known else (),
        )

    def enrol(self, answer: Answer, *, name: str | None, signed_in: Principal | None) -> Opened:
        """Keeps the new passkey; whoever came by an invite is signed in. Raises `SignInFailed`,
        `TooManyCredentials`.
        """
        challenge = challenge_of(answer)
        enrolment = self.challenges.spend_enrolment(challenge)
        if enrolment is None or (enrolment.role is None and not _is(signed_in, enrolment.user)):
            raise SignInFailed()
        if enrolment.by is not None and self.endings.is_past(enrolment.by.principal()):
            raise SignInFailed()
        enrolment = enrolment.model_copy(update={"name": name or enrolment.name})
        # What somebody new gives is their own name; a device's name is given by whoever adds one.
        nickname = enrolment.name if enrolment.role is None else None
        fresh = self.passkeys.created(answer, challenge=challenge, nickname=nickname, now=self.opening.now())
        try:
            return self._keep(enrolment, fresh)
        except (ConditionFailed, DuplicateId, UnknownUser):
            raise SignInFailed() from None

    def _keep(self, enrolment: Enrolment, fresh: Credential) -> Opened:
        def adding(account: Account) -> Edit:
            return Edit(enabled(account).adding(fresh), also)

        also: list[Op] = [] if enrolment.invite is None else [self.invites.spending(enrolment.invite)]
        if enrolment.by is not None:
            also += self.endings.checks(enrolment.by.principal())
        if enrolment.role is None:
            return Opened(self.accounts.change(enrolment.user, adding), None, fresh)
        if enrolment.invite is not None and self.accounts.find(enrolment.user) is not None:
            return replace(self.opening.open(enrolment.user, adding, fresh.id), credential=fresh)
        secret, session = self.opening.new(fresh.id)
        account = Account(
            id=enrolment.user,
            name=_name(enrolment),
            role=enrolment.role,
            created_at=self.opening.now(),
            credentials=(fresh,),
            sessions=(session,),
        )
        self.accounts.add(account, [*also, self.opening.put(account, session)])
        return Opened(account, secret, fresh)

    def _invited(self, code: str, name: str | None) -> Enrolment:
        """By the code of the settings while there is no owner, or by an invite."""
        if self._is_first(code) and self.accounts.find(OWNER_ID) is None:
            return Enrolment(user=OWNER_ID, role="owner", name=name)
        found = self.invites.find(code)
        if found is None or (found.by is not None and self.endings.over(found.by.principal())):
            raise SignInFailed()
        user = found.user or self.new_id()
        return Enrolment(user=user, role=found.role, name=name, invite=fingerprint(code), by=found.by)

    def _is_first(self, given: str) -> bool:
        code = self.first_code()
        return code is not None and hmac.compare_digest(given.encode("utf-8", "surrogatepass"), code.encode())


def _second_device(signed_in: Principal | None, name: str | None) -> Enrolment:
    if signed_in is None or signed_in.kind != "user":
        raise SignInFailed()
    return Enrolment(user=signed_in.user, name=name)


def _is(principal: Principal | None, user: str) -> bool:
    return principal is not None and principal.kind == "user" and principal.user == user


def _name(enrolment: Enrolment) -> str:
    return enrolment.name or str(enrolment.role).title()
