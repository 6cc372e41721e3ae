"""A standing yes: one person's, for one tool, on one card, until a time. Never wider than the policy: what that denies
stays denied.
"""

from deckhand.domain.model import Model

MAX_DAYS = 90
MAX_GRANTS = 100


class Grant(Model):
    """`card` None only where the operation is about no card. Instants are epoch seconds."""

    id: str
    operation: str
    card: str | None = None
    created_at: float
    until: float
    granted_by: str

    def covers(self, operation: str, card: str | None, now: float) -> bool:
        return self.operation == operation and self.card == card and now < self.until
