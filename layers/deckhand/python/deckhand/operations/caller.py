"""On whose behalf an operation runs, and what it may use. Operations know nothing of HTTP or models."""

from collections.abc import Callable
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from deckhand.domain.principal import Channel, Principal
from deckhand.storage.cards import Cards
from deckhand.storage.conversations import Conversations, Owner
from deckhand.storage.port import ItemStore
from deckhand.storage.turns import Turns


@dataclass(frozen=True, slots=True)
class Caller:
    """`now` gives epoch seconds; `zone` is the user's; every store is bound to the principal's tenant."""

    principal: Principal
    channel: Channel
    store: ItemStore
    now: Callable[[], float]
    new_id: Callable[[], str]
    zone: ZoneInfo

    @property
    def owner(self) -> Owner:
        return Owner(self.principal.tenant, self.principal.user)

    @property
    def cards(self) -> Cards:
        return Cards(self.store, self.principal.tenant)

    @property
    def conversations(self) -> Conversations:
        return Conversations(self.store)

    @property
    def turns(self) -> Turns:
        return Turns(self.store)
