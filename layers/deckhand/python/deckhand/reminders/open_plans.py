"""Reminders of the kind `schedule_due` ask the plan of the card that they name: what is left to do?"""

from collections.abc import Mapping
from datetime import date
from typing import Any

from deckhand.domain.errors import UnknownManifest
from deckhand.domain.open_plan import Left, left, steps_of
from deckhand.storage.cards import Cards


class OpenPlans:
    """Blocking."""

    def __init__(self, cards: Cards) -> None:
        self._cards = cards

    def left(self, trigger: Mapping[str, Any], day: date) -> Left | None:
        """What is left to do on the date, the person's; None when the trigger asks no plan. Raises storage errors."""
        if trigger["type"] != "schedule_due":
            return None
        try:
            card, data = self._cards.steady(trigger["card"], self._cards.data)
        except UnknownManifest:
            return Left()
        return left(steps_of(card.manifest, data, day), trigger["time_of_day"], day)
