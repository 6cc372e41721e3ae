"""May the caller do this? Asked before an operation runs, wherever it is run from."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from deckhand.domain.access import Access, Decision
from deckhand.domain.conversation import MAX_CONVERSATIONS
from deckhand.operations.caller import Caller
from deckhand.operations.registry import Operation
from deckhand.storage.cards import Card
from deckhand.storage.conversations import StoredHeader


def permission(caller: Caller, operation: Operation, given: Any, *, confirmed: bool = False) -> Decision:
    """`given` is the validated input. Whether this very call destroys anything is looked up only where it matters.

    Raises what reading the data raises.
    """
    access = replace(
        _access(caller, operation),
        card=card_of(operation, given),
        conversation=conversation_of(operation, given),
        confirmed=confirmed,
    )
    decision = caller.policy.decide(access)
    if operation.destructive or operation.destroys is None:
        return decision
    harsh = caller.policy.decide(replace(access, destructive=True))
    if harsh.verdict == decision.verdict:
        return decision
    return harsh if operation.destroys(caller, given) else decision


def may_need_confirmation(caller: Caller, operation: Operation) -> bool:
    """Whether calls of it may have to wait for a person's yes."""
    harsh = operation.destructive or operation.destroys is not None
    access = replace(_access(caller, operation), destructive=harsh)
    return operation.mutates and caller.policy.decide(access).verdict == "confirm"


def offered(caller: Caller, operations: Iterable[Operation]) -> list[Operation]:
    """Those that the caller might be allowed to call, if only with a person's yes, or for some cards."""
    return [operation for operation in operations if _offers(caller, operation)]


def _offers(caller: Caller, operation: Operation) -> bool:
    access = _access(caller, operation)
    if operation.card is not None:
        return caller.policy.offers(access)
    return caller.policy.decide(access).verdict != "deny"


def may_read(caller: Caller, operation: str) -> bool:
    """Whether a reading operation that is about no card, by name, would be allowed."""
    return caller.policy.decide(_reading(caller, operation)).verdict == "allow"


def visible_cards(caller: Caller, operation: str) -> list[Card]:
    """The cards that the caller may see by an operation that shows many, in the deck's order."""
    sees = caller.policy.sees(_reading(caller, operation), "card")
    return [card for card in caller.cards.all() if sees(card.id)]


def visible_conversations(caller: Caller, operation: str) -> list[StoredHeader]:
    """The caller's conversations that they may see by an operation that shows many, newest activity first."""
    sees = caller.policy.sees(_reading(caller, operation), "conversation")
    headers = caller.conversations.headers(caller.owner)[:MAX_CONVERSATIONS]
    return [stored for stored in headers if sees(stored.header.id)]


def card_of(operation: Operation, given: Any) -> str | None:
    """The id of the card that a call is about."""
    return _field_of(operation.card, given)


def conversation_of(operation: Operation, given: Any) -> str | None:
    """The id of the conversation that a call is about."""
    return _field_of(operation.conversation, given)


def _field_of(path: str | None, given: Any) -> str | None:
    if path is None:
        return None
    value = given
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value if isinstance(value, str) and value else None


def _reading(caller: Caller, operation: str) -> Access:
    return Access(caller.principal, operation, caller.channel, mutates=False, destructive=False)


def _access(caller: Caller, operation: Operation) -> Access:
    return Access(
        principal=caller.principal,
        operation=operation.name,
        channel=caller.channel,
        mutates=operation.mutates,
        destructive=operation.destructive,
    )
