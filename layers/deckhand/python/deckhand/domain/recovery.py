"""Recovery codes: 24 letters and digits, of which the first 8 find the code and the others prove it.

Only the proof's scrypt hash is stored, with a salt of its own. Parameters: RFC 7914 section 2, 16 MB and some 50 ms.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass

from deckhand.domain.model import Model

CODES = 10
SELECTOR_CHARS, CHARS, GROUP = 8, 24, 4
CODE_BYTES = 15
SALT_BYTES = 16
COST = 2**14
LOOKALIKES = str.maketrans({"0": "O", "1": "I", "8": "B"})


class StoredCode(Model):
    """`salt` and `hash` are hexadecimal."""

    user: str
    salt: str
    hash: str


@dataclass(frozen=True, slots=True)
class Code:
    selector: str
    proof: str

    @property
    def text(self) -> str:
        """As a person writes it down: six groups of four."""
        whole = self.selector + self.proof
        return "-".join(whole[start : start + GROUP] for start in range(0, CHARS, GROUP))


NOBODYS = StoredCode(user="", salt="00" * SALT_BYTES, hash="00" * 64)
"""Compared where there is no code, so that the time does not tell."""


def new_code(random: Callable[[int], bytes]) -> Code:
    return _parted(base64.b32encode(random(CODE_BYTES)).decode())


def read_code(text: str) -> Code | None:
    """From what a person typed: blanks, dashes and case do not matter, 0, 1 and 8 are taken for O, I and B."""
    bare = "".join(text.split()).replace("-", "").upper().translate(LOOKALIKES)
    is_code = len(bare) == CHARS and bare.isascii() and all(c.isalpha() or c in "234567" for c in bare)
    return _parted(bare) if is_code else None


def stored(code: Code, user: str, random: Callable[[int], bytes]) -> StoredCode:
    salt = random(SALT_BYTES)
    return StoredCode(user=user, salt=salt.hex(), hash=_hash(code.proof, salt).hex())


def proves(code: Code, kept: StoredCode) -> bool:
    return hmac.compare_digest(_hash(code.proof, bytes.fromhex(kept.salt)), bytes.fromhex(kept.hash))


def _parted(whole: str) -> Code:
    return Code(whole[:SELECTOR_CHARS], whole[SELECTOR_CHARS:])


def _hash(proof: str, salt: bytes) -> bytes:
    return hashlib.scrypt(proof.encode(), salt=salt, n=COST, r=8, p=1)
