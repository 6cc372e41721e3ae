"""`Idempotency-Key`: the key is claimed in the transaction that starts a turn (or queues a message), and kept for
24 hours.
"""

import hashlib
from dataclasses import dataclass

from deckhand.domain.errors import IdempotencyMismatch, ValidationFailed
from deckhand.domain.model import Model
from deckhand.domain.principal import Principal
from deckhand.storage.port import ABSENT, Item, Key, Put
from deckhand.turns.context import TurnContext

KEY_LIFE_S = 24 * 3600
MAX_KEY_CHARS = 200


class Claimed(Model):
    """What a key stands for: a turn and its first event, or a queued message."""

    body_hash: str
    conversation: str
    turn_id: str | None = None
    first_event_id: int = 0
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A key as one principal sent it, with the hash of the body beside it."""

    key: Key
    body_hash: str

    def put(self, claimed: Claimed, now: float) -> Put:
        item = Item(self.key.table, self.key.pk, self.key.sk, claimed.to_json(), expires=int(now) + KEY_LIFE_S)
        return Put(item, ABSENT)


def claim(principal: Principal, given: str, body: bytes) -> Claim:
    """Raises `ValidationFailed` for a key that is empty or over 200 characters."""
    if not 0 < len(given) <= MAX_KEY_CHARS:
        fault = {"path": "Idempotency-Key", "message": f"must have 1 to {MAX_KEY_CHARS} characters"}
        raise ValidationFailed(errors=[fault])
    name = hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()
    key = Key("turns", f"{principal.tenant}#key#{principal.name}", name)
    return Claim(key, hashlib.sha256(body).hexdigest())


def claimed(context: TurnContext, wanted: Claim) -> Claimed | None:
    """What the key stands for already. Raises `IdempotencyMismatch` when it came with another body."""
    item = context.store.get(wanted.key)
    if item is None:
        return None
    found = Claimed.model_validate_json(item.body)
    if found.body_hash != wanted.body_hash:
        raise IdempotencyMismatch()
    return found
