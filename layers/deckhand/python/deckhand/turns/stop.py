"""Stopping a turn from anywhere: a flag in its head that names exactly this turn."""

from deckhand.domain.errors import ConditionFailed, NoTurnRunning, StorageUnavailable
from deckhand.storage.conversations import Owner
from deckhand.turns.context import TurnContext
from deckhand.turns.lost import close_lost
from deckhand.turns.queued import wake_waiting
from deckhand.turns.start import ATTEMPTS


def stop_turn(context: TurnContext, owner: Owner, conversation: str, turn_id: str | None = None) -> str:
    """Asks the running turn to stop and returns its id.

    The flag is written on the head's version, as the finish is: of a stop and a finish that race exactly one wins,
    and a late stop never
    hits the next turn. Raises `UnknownConversation`, `NoTurnRunning`.
    """
    context.conversations.find(owner, conversation)
    for _ in range(ATTEMPTS):
        stored = context.turns.head(owner, conversation)
        now = context.now()
        if stored is not None and stored.head.lost(now):
            close_lost(context, owner, conversation, stored)
            wake_waiting(context, owner, conversation)
            raise NoTurnRunning()
        if stored is None or not stored.head.running(now) or turn_id not in (None, stored.head.turn_id):
            raise NoTurnRunning()
        if stored.head.stop:
            return stored.head.turn_id
        try:
            context.turns.move(owner, conversation, stored.head.asked_to_stop(), after=stored, token=context.new_id())
        except ConditionFailed:
            continue
        return stored.head.turn_id
    raise StorageUnavailable()
