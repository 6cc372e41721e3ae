"""The part of a transcript that is sent to the model."""

from collections.abc import Iterable

from deckhand.domain.conversation import Exchange, Message

REPLAYED_TURNS = 3


def newest_that_fit(newest_first: Iterable[Message], budget_chars: int) -> list[Message]:
    """The newest messages whose contents fit the budget, oldest first. The newest one always goes, whole."""
    chosen: list[Message] = []
    left = budget_chars
    for message in newest_first:
        left -= len(message.content)
        if chosen and left < 0:
            break
        chosen.append(message)
    return chosen[::-1]


def replayed(newest_first: Iterable[Exchange]) -> list[Exchange]:
    """The exchanges of the last three turns that called a tool, oldest first. Takes no more than it needs."""
    turns: set[str] = set()
    chosen: list[Exchange] = []
    for exchange in newest_first:
        turns.add(exchange.turn_id)
        if len(turns) > REPLAYED_TURNS:
            break
        chosen.append(exchange)
    return chosen[::-1]
