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


def replayed(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """The exchanges of the last three turns that called a tool, in order."""
    ordered = sorted(exchanges, key=lambda exchange: (exchange.anchor, exchange.step))
    turns: list[str] = []
    for exchange in reversed(ordered):
        if exchange.turn_id not in turns:
            turns.append(exchange.turn_id)
    kept = set(turns[:REPLAYED_TURNS])
    return [exchange for exchange in ordered if exchange.turn_id in kept]
