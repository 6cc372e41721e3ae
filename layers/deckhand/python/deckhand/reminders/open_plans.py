"""Reminders of the kind `schedule_due` ask the plan of the card that they name: is anything left to do?"""

from datetime import date

from deckhand.domain.errors import UnknownManifest
from deckhand.domain.open_plan import is_open, plans_of
from deckhand.domain.reminders import Reminder
from deckhand.storage.cards import Cards


class OpenPlans:
    """Blocking."""

    def __init__(self, cards: Cards) -> None:
        self._cards = cards

    def asks(self, reminder: Reminder, slot: str) -> bool:
        """Whether the reminder has something to say at `slot` (local time). Raises storage errors."""
        trigger, day = reminder.trigger, date.fromisoformat(slot[:10])
        if trigger["type"] != "schedule_due":
            return True
        try:
            card, data = self._cards.steady(trigger["card"], self._cards.data)
        except UnknownManifest:
            return False
        return is_open(plans_of(card.manifest, data, day), trigger["time_of_day"], day)
