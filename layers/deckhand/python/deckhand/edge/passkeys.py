"""Passkeys: what a browser is asked, and whether its answer holds. The only file that imports `webauthn`, which takes
its time, on first use.

Origins and the relying party come from settings, never from a request (bug case 67). Rules:
https://www.w3.org/TR/webauthn-3/#sctn-rp-operations
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from deckhand.domain.account import Credential
from deckhand.domain.base64url import from_base64, to_base64url
from deckhand.domain.errors import SignInFailed

NAME = "Deckhand"
TIMEOUT_MS = 5 * 60 * 1000
BINARY = ("clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle")

logger = logging.getLogger(__name__)

Answer = Mapping[str, Any]
"""A `PublicKeyCredential` as JSON."""


@dataclass(frozen=True, slots=True)
class Passkeys:
    """`origins`: pages that may use them; the host of the first is the relying party."""

    origins: Sequence[str]

    @property
    def rp_id(self) -> str:
        return urlsplit(self.origins[0]).hostname or ""

    def creation_options(
        self, *, user: str, name: str, challenge: bytes, exclude: Sequence[Credential]
    ) -> dict[str, Any]:
        """For `navigator.credentials.create`."""
        from webauthn import generate_registration_options, options_to_json
        from webauthn.helpers.structs import (
            AuthenticatorSelectionCriteria,
            PublicKeyCredentialDescriptor,
            ResidentKeyRequirement,
            UserVerificationRequirement,
        )

        options = generate_registration_options(
            rp_id=self.rp_id,
            rp_name=NAME,
            user_id=user.encode(),
            user_name=name,
            challenge=challenge,
            timeout=TIMEOUT_MS,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED, user_verification=UserVerificationRequirement.REQUIRED
            ),
            exclude_credentials=[PublicKeyCredentialDescriptor(from_base64(one.id) or b"") for one in exclude],
        )
        made: dict[str, Any] = json.loads(options_to_json(options))
        return made

    def request_options(self, challenge: bytes) -> dict[str, Any]:
        """For `navigator.credentials.get`; it names no passkey, so the browser offers all that it has."""
        from webauthn import generate_authentication_options, options_to_json
        from webauthn.helpers.structs import UserVerificationRequirement

        options = generate_authentication_options(
            rp_id=self.rp_id,
            challenge=challenge,
            timeout=TIMEOUT_MS,
            user_verification=UserVerificationRequirement.REQUIRED,
        )
        made: dict[str, Any] = json.loads(options_to_json(options))
        return made

    def created(self, answer: Answer, *, challenge: bytes, nickname: str | None, now: float) -> Credential:
        """The new passkey. Raises `SignInFailed`."""
        from webauthn import verify_registration_response

        try:
            verified = verify_registration_response(
                credential=_plain(answer),
                expected_challenge=challenge,
                expected_rp_id=self.rp_id,
                expected_origin=list(self.origins),
                require_user_verification=True,
            )
        except Exception as error:
            raise _refusal(error) from None
        return Credential(
            id=to_base64url(verified.credential_id),
            public_key=to_base64url(verified.credential_public_key),
            counter=verified.sign_count,
            nickname=nickname,
            created_at=now,
        )

    def used(self, answer: Answer, *, challenge: bytes, credential: Credential, user: str) -> int:
        """The signature counter of a passkey that proved itself. Raises `SignInFailed`."""
        from webauthn import verify_authentication_response

        try:
            plain = _plain(answer)
            if from_base64(str(plain["response"].get("userHandle") or "")) != user.encode():
                raise ValueError("somebody else's passkey")
            verified = verify_authentication_response(
                credential=plain,
                expected_challenge=challenge,
                expected_rp_id=self.rp_id,
                expected_origin=list(self.origins),
                credential_public_key=from_base64(credential.public_key) or b"",
                credential_current_sign_count=credential.counter,
                require_user_verification=True,
            )
        except Exception as error:
            raise _refusal(error) from None
        return verified.new_sign_count


def challenge_of(answer: Answer) -> bytes:
    """Which challenge it says that it answers. Raises `SignInFailed`."""
    try:
        data = json.loads(from_base64(answer["response"]["clientDataJSON"]) or b"")
        challenge = from_base64(data["challenge"])
        # From a page inside another one's frame, whose origin alone looks right.
        if not challenge or data.get("crossOrigin", False) is not False:
            raise ValueError("no challenge, or a frame's")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise _refusal(error) from None
    return challenge


def id_of(answer: Answer) -> str:
    """The passkey's id in the one form that is kept. Raises `SignInFailed`."""
    given = answer.get("rawId")
    found = from_base64(given) if isinstance(given, str) else None
    if not found:
        raise SignInFailed()
    return to_base64url(found)


def _plain(answer: Answer) -> dict[str, Any]:
    """The same answer with everything binary in unpadded base64url, which is all that the library reads rightly."""
    response = {
        name: _one_form(value) if name in BINARY and isinstance(value, str) else value
        for name, value in answer["response"].items()
    }
    named = {name: _one_form(answer[name]) for name in ("id", "rawId")}
    return {"type": answer["type"], **named, "response": response}


def _one_form(text: str) -> str:
    found = from_base64(text)
    if found is None:
        raise ValueError("not base64")
    return to_base64url(found)


def _refusal(error: Exception) -> SignInFailed:
    """Whatever hostile bytes make the library raise is a refusal; why stays in the log, without what was sent."""
    logger.info("A passkey was refused: %s", type(error).__name__)
    return SignInFailed()
