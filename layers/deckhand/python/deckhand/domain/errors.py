"""The one error tree.

    DeckhandError
    ├── InvalidRequest            the caller sent something that cannot be used
    │   ├── InvalidJson, BodyTooLarge, InvalidMessages, ValidationFailed
    │   ├── InvalidManifest (InvalidManifestId), RowTooLarge, BadPath
    ├── NotAllowed                Unauthenticated, NotConfigured
    ├── NotFound                  MethodNotAllowed, UnknownConversation, UnknownManifest,
    │                             NoTurnRunning
    ├── Conflict                  TurnRunning, IdempotencyMismatch, DuplicateId, NotAList
    ├── GatewayError              what the model's endpoint did: GatewayFailed, GatewayUnreadable, GatewayTimeout,
    │                             AllowanceUsedUp, ContextFull, ChatNotConfigured
    ├── TurnLost                  the process that ran the turn is gone
    └── StorageError              ConditionFailed, ItemTooLarge, StorageUnavailable

Each class has a stable `code`; the sentence is for a person and never holds prompts, keys, paths or upstream text.
HTTP statuses are given in `edge/errors.py` only.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class DeckhandError(Exception):
    """Base of all errors of ours. `details` are fields that help the caller (`turnId`, `errors`)."""

    code: ClassVar[str] = "internal"
    sentence: ClassVar[str] = "Something went wrong on our side."

    def __init__(self, sentence: str | None = None, **details: Any) -> None:
        super().__init__(sentence or self.sentence)
        self.details: Mapping[str, Any] = details

    def as_body(self) -> dict[str, Any]:
        """The JSON object that callers see."""
        return {"error": str(self), "code": self.code, **self.details}


class InvalidRequest(DeckhandError):
    code = "invalid"
    sentence = "The request is not valid."


class InvalidJson(InvalidRequest):
    code = "invalid_json"
    sentence = "The body is not valid JSON."


class BodyTooLarge(InvalidRequest):
    code = "body_too_large"
    sentence = "The body is too large."


class InvalidMessages(InvalidRequest):
    code = "invalid_messages"
    sentence = "The messages cannot be used."


class ValidationFailed(InvalidRequest):
    """`errors` is a list of `{path, message}`."""

    code = "invalid"
    sentence = "Some fields are not valid."


class InvalidManifest(InvalidRequest):
    """The manifest's envelope is wrong; `errors` lists every fault."""

    code = "invalid_manifest"
    sentence = "The manifest cannot be used."


class InvalidManifestId(InvalidManifest):
    code = "invalid_id"


class RowTooLarge(InvalidRequest):
    code = "row_too_large"
    sentence = "A row may have at most 390,000 bytes."


class BadPath(InvalidRequest):
    code = "bad_path"
    sentence = "The path cannot be read."


class NotAllowed(DeckhandError):
    code = "forbidden"
    sentence = "This is not allowed."


class Unauthenticated(NotAllowed):
    code = "unauthenticated"
    sentence = "Sign in or send a valid token."


class NotConfigured(NotAllowed):
    code = "not_configured"
    sentence = "This deployment has no token and no user yet, so it answers nobody."


class NotFound(DeckhandError):
    code = "not_found"
    sentence = "There is nothing here."


class MethodNotAllowed(NotFound):
    code = "method_not_allowed"
    sentence = "This address does not take that method."


class UnknownConversation(NotFound):
    code = "unknown_conversation"
    sentence = "There is no such conversation."


class UnknownManifest(NotFound):
    code = "unknown_manifest"
    sentence = "There is no such card."


class NoTurnRunning(NotFound):
    code = "no_turn_running"
    sentence = "No such turn is running in this conversation."


class Conflict(DeckhandError):
    code = "conflict"
    sentence = "This collides with the present state."


class TurnRunning(Conflict):
    """`turnId` names the turn that is running."""

    code = "turn_running"
    sentence = "A turn is already running in this conversation."


class IdempotencyMismatch(Conflict):
    code = "idempotency_mismatch"
    sentence = "This Idempotency-Key was used with another body."


class DuplicateId(Conflict):
    code = "duplicate_id"
    sentence = "This id is taken."


class NotAList(Conflict):
    code = "not_a_list"
    sentence = "The card's data is not a list of rows."


class GatewayError(DeckhandError):
    code = "gateway_failed"
    sentence = "The AI service did not answer properly. Try again shortly."


class GatewayFailed(GatewayError):
    """Connection trouble, 5xx, refused requests, streams that broke."""


class GatewayUnreadable(GatewayError):
    code = "gateway_unreadable"
    sentence = "The configured address did not answer like a chat service."


class GatewayTimeout(GatewayError):
    code = "gateway_timeout"
    sentence = "The AI service took too long. Ask again, perhaps for less at a time."


class AllowanceUsedUp(GatewayError):
    code = "allowance_used_up"
    sentence = "The AI allowance for this period is used up. Everything else keeps working."


class ContextFull(GatewayError):
    code = "context_full"
    sentence = "This conversation no longer fits the model. Start a new one or ask for less."


class ChatNotConfigured(DeckhandError):
    code = "chat_not_configured"
    sentence = "No AI service is configured, so chat is switched off."


class TurnLost(DeckhandError):
    code = "turn_lost"
    sentence = "The process that worked on this answer is gone. What was written so far is kept."


class StorageError(DeckhandError):
    code = "storage_failed"
    sentence = "The store did not answer. Nothing more was changed."


class ConditionFailed(StorageError):
    """A conditional write was refused.

    `index` is the first op that failed, `item` what is stored there now (None when absent or expired).
    """

    code = "storage_conflict"
    sentence = "The stored item is not as expected."

    def __init__(self, index: int, item: Any = None) -> None:
        super().__init__()
        self.index = index
        self.item = item


class ItemTooLarge(StorageError):
    code = "item_too_large"
    sentence = "This is too large to be stored in one piece."


class StorageUnavailable(StorageError):
    """The engine failed or throttled past the retries; whether the write was applied is unknown."""
