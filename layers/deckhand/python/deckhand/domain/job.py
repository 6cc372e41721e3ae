"""Work that is done behind a request: what a job is."""

from typing import Literal

from deckhand.domain.model import Model
from deckhand.domain.principal import Principal


class Actor(Model):
    """A principal as it travels."""

    kind: Literal["user", "token", "service", "schedule"]
    id: str
    user: str
    role: str
    tenant: str

    @classmethod
    def of(cls, principal: Principal) -> "Actor":
        return cls(
            kind=principal.kind, id=principal.id, user=principal.user, role=principal.role, tenant=principal.tenant
        )

    def principal(self) -> Principal:
        return Principal(self.kind, self.id, self.user, self.role, self.tenant)


class Job(Model):
    """`title`: make a title for the conversation. `queued_turn`: answer the messages that queued in it. `drop_rows`:
    remove a generation of a card's rows that nobody sees any more. All may be done twice without harm.
    """

    kind: Literal["title", "queued_turn", "drop_rows"]
    actor: Actor
    conversation: str = ""
    card: str = ""
    generation: str = ""
