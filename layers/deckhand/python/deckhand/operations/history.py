"""The legacy single transcript, until every client uses conversations."""

from typing import Any

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from deckhand.domain.conversation import MAX_MESSAGES, MAX_TRANSCRIPT_BYTES
from deckhand.operations.caller import Caller
from deckhand.operations.registry import Http, operation
from deckhand.operations.shapes import Done
from deckhand.storage.history import History


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Messages(BaseModel):
    model_config = ConfigDict(extra="forbid")
    messages: list[dict[str, Any]]


class KeptMessages(TypedDict):
    messages: list[dict[str, Any]]


@operation(summary="Read the single transcript", input=Nothing, http=Http("GET", "/api/chat/history"))
def read_history(caller: Caller, _: Nothing) -> KeptMessages:
    """As they were put, none when there is no transcript."""
    return {"messages": History(caller.store).read(caller.owner)}


@operation(
    summary="Replace the single transcript",
    input=Messages,
    mutates=True,
    http=Http("PUT", "/api/chat/history", limit=MAX_TRANSCRIPT_BYTES),
)
def replace_history(caller: Caller, given: Messages) -> Done:
    """The newest 200 are kept, as they are. Raises `BodyTooLarge` over 512 KB."""
    History(caller.store).replace(caller.owner, given.messages[-MAX_MESSAGES:], generation=caller.new_id())
    return {"ok": True}


@operation(
    summary="Delete the single transcript", input=Nothing, mutates=True, http=Http("DELETE", "/api/chat/history")
)
def delete_history(caller: Caller, _: Nothing) -> Done:
    """Also when there was none."""
    History(caller.store).remove(caller.owner, token=caller.new_id())
    return {"ok": True}
