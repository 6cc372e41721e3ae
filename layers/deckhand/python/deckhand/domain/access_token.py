"""Bearer tokens: what one may do, and which may be made by whom. Of the secret only a hash is ever kept."""

import hashlib
from collections.abc import Iterable

from deckhand.domain.errors import NotAllowed
from deckhand.domain.model import Model
from deckhand.domain.principal import Principal, Role
from deckhand.domain.times import epoch

PREFIX = "dk_"
SECRET_BYTES = 32
MAX_SECRET_CHARS = 200
RANKS: dict[Role, int] = {"viewer": 0, "agent": 1, "editor": 2, "owner": 3}
"""Who may hand out which roles: none above the own one. The operator is no role of a person or a token."""


class AccessToken(Model):
    """`user` is whom it acts for. `operations` and `cards` narrow it, None where they do not. Instants are ISO 8601;
    `expires_at` None: it does not end by itself.
    """

    id: str
    name: str
    role: Role
    user: str
    tenant: str
    created_at: str
    operations: frozenset[str] | None = None
    cards: frozenset[str] | None = None
    expires_at: str | None = None

    def principal(self) -> Principal:
        until = None if self.expires_at is None else epoch(self.expires_at)
        return Principal("token", self.id, self.user, self.role, self.tenant, self.operations, self.cards, until)


def fingerprint(secret: str) -> str:
    """What is stored of a random secret. It has 256 bits of its own, so it needs no salt and no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def check_grant(giver: Principal, *, role: Role, operations: Iterable[str] | None, cards: Iterable[str] | None) -> None:
    """A token never has more than who makes it. Raises `NotAllowed`."""
    if giver.role not in ("owner", "editor", "viewer") or giver.kind not in ("user", "token"):
        raise NotAllowed("Only people, and tokens with a person's role, may make tokens.")
    if RANKS.get(role, len(RANKS)) > RANKS[giver.role]:
        raise NotAllowed(f"A token with the role {role} would have more rights than you.")
    for mine, wanted, what in ((giver.operations, operations, "operations"), (giver.cards, cards, "cards")):
        if mine is not None and (wanted is None or not mine.issuperset(wanted)):
            raise NotAllowed(f"Your own token is limited to some {what}; one that it makes must be, too.")
