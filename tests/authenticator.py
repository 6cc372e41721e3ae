"""A passkey authenticator in software: ES256, with everything that a real one would not let a test choose."""

import hashlib
import json
import os
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from webauthn.helpers import encode_cbor

from deckhand.domain.base64url import from_base64, to_base64url

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40


@dataclass
class Authenticator:
    """One device with one passkey. `counter` None rises by one a use; a number is sent as it is. `verifies` False is
    a device that asked for no PIN and no finger.
    """

    origin: str
    rp_id: str | None = None
    counter: int | None = 0
    verifies: bool = True
    cross_origin: bool = False
    credential_id: bytes = field(default_factory=lambda: os.urandom(32))
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    user: bytes = b""
    uses: int = 0

    def create(self, options: dict[str, Any]) -> dict[str, Any]:
        """What `navigator.credentials.create` gives for options from the server."""
        self.user = _bytes(options["user"]["id"])
        numbers = self.key.public_key().public_numbers()
        public = {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32, "big"), -3: numbers.y.to_bytes(32, "big")}
        attested = bytes(16) + len(self.credential_id).to_bytes(2, "big") + self.credential_id + encode_cbor(public)
        data = self._data(options["rp"]["id"], ATTESTED) + attested
        return self._answer(
            {
                "clientDataJSON": to_base64url(self._client_data("webauthn.create", options["challenge"])),
                "attestationObject": to_base64url(encode_cbor({"fmt": "none", "attStmt": {}, "authData": data})),
            }
        )

    def get(self, options: dict[str, Any]) -> dict[str, Any]:
        """What `navigator.credentials.get` gives."""
        client = self._client_data("webauthn.get", options["challenge"])
        data = self._data(options["rpId"], 0)
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        return self._answer(
            {
                "clientDataJSON": to_base64url(client),
                "authenticatorData": to_base64url(data),
                "signature": to_base64url(signature),
                "userHandle": to_base64url(self.user),
            }
        )

    @property
    def id(self) -> str:
        return to_base64url(self.credential_id)

    def _answer(self, response: dict[str, str]) -> dict[str, Any]:
        return {"id": self.id, "rawId": self.id, "type": "public-key", "response": response}

    def _client_data(self, kind: str, challenge: str) -> bytes:
        told = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": self.cross_origin}
        return json.dumps(told).encode()

    def _data(self, rp_id: str, flags: int) -> bytes:
        self.uses += 1
        counter = self.uses if self.counter is None else self.counter
        party = hashlib.sha256((self.rp_id or rp_id).encode()).digest()
        return party + bytes([flags | PRESENT | (VERIFIED if self.verifies else 0)]) + counter.to_bytes(4, "big")


def _bytes(text: str) -> bytes:
    found = from_base64(text)
    assert found
    return found
