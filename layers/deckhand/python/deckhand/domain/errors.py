"""The one error tree.

    DeckhandError
    ├── InvalidRequest            the caller sent something that cannot be used
    │   ├── InvalidJson, BodyTooLarge, InvalidMessages, InvalidMessage, ValidationFailed
    │   ├── InvalidManifest (InvalidManifestId, InvalidManifestField), RowTooLarge
    │   ├── BadPath, NoMatch, Ambiguous, WrongType, InvalidData, InvalidOrder, UnknownKey, ProtectedField,
    │   │   UnknownZone, InvalidSubscription
    ├── NotAllowed                Unauthenticated, NotConfigured, OriginNotAllowed, SignInFailed, AgentSwitchedOff,
    │                             NotWriteable, OutsideDateWindow, ReportNotVerified
    ├── NotFound                  MethodNotAllowed, UnknownConversation, UnknownManifest,
    │                             UnknownRow, UnknownDocument, UnknownNotification, UnknownToken, UnknownProposal,
    │                             UnknownGrant, UnknownUser, UnknownCredential, UnknownSubscription, NoTurnRunning
    ├── Conflict                  TurnRunning, ChatInFlight, TooManyChats, IdempotencyMismatch,
    │                             DuplicateId, StaleVersion, NotAList, OrderMismatch, TooManyTokens, TooManyGrants,
    │                             LastOwner, TooManyCredentials, WouldLockOut, AlreadyDecided, AlreadyApplied,
    │                             ProposalExpired, TargetChanged
    ├── GatewayError              what the model's endpoint did: GatewayFailed, GatewayUnreadable, GatewayTimeout,
    │                             AllowanceUsedUp (DailyAllowanceUsedUp), ContextFull, ChatNotConfigured
    ├── TurnLost                  the process that ran the turn is gone
    ├── RateLimited               too many requests; says when to come again
    ├── AnswerTooLarge            read it in parts
    ├── ChatDisabled, ProviderFailed   the direct form of chat
    ├── PushNotConfigured, PushUnfinished, UnknownHost   pushes to devices
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


class InvalidMessage(InvalidRequest):
    """The direct form's body."""

    code = "invalid_message"


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


class InvalidManifestField(InvalidManifest):
    """Category, notifications, cadence, ingest, schedule and the like."""

    code = "invalid"


class InvalidOrder(InvalidRequest):
    """Empty, or something named twice."""

    code = "invalid_order"


class InvalidData(InvalidRequest):
    code = "invalid_data"
    sentence = "data must be the value itself, not a text that holds it."


class WrongType(InvalidRequest):
    code = "wrong_type"
    sentence = "The value is not of the type that is needed there."


class NoMatch(InvalidRequest):
    code = "no_match"
    sentence = "The path leads nowhere."


class Ambiguous(InvalidRequest):
    code = "ambiguous"
    sentence = "The path fits more than one place."


class UnknownKey(InvalidRequest):
    code = "unknown_key"
    sentence = "Only meta and description can be patched."


class ProtectedField(InvalidRequest):
    code = "protected_field"
    sentence = "This field cannot be changed."


class RowTooLarge(InvalidRequest):
    code = "row_too_large"
    sentence = "A row may have at most 390,000 bytes."


class UnknownZone(InvalidRequest):
    code = "unknown_zone"
    sentence = "There is no time zone of that name; IANA names such as Europe/Helsinki are known."


class BadPath(InvalidRequest):
    code = "bad_path"
    sentence = "The path cannot be read."


class InvalidSubscription(InvalidRequest):
    """A push subscription's endpoint or keys."""

    code = "invalid_subscription"
    sentence = "This subscription cannot be used."


class NotAllowed(DeckhandError):
    code = "forbidden"
    sentence = "This is not allowed."


class NotWriteable(NotAllowed):
    code = "not_writeable"
    sentence = "This card does not take entries: meta.writeable.fromWebapp is not true."


class OutsideDateWindow(NotAllowed):
    code = "outside_date_window"
    sentence = "This card does not take entries for that date."


class ReportNotVerified(NotAllowed):
    code = "report_not_verified"
    sentence = "This report is a scan that no person has checked yet, so its text is not given out."


class Unauthenticated(NotAllowed):
    code = "unauthenticated"
    sentence = "Sign in or send a valid token."


class NotConfigured(NotAllowed):
    code = "not_configured"
    sentence = "This deployment has no token and no user yet, so it answers nobody."


class OriginNotAllowed(NotAllowed):
    code = "origin_not_allowed"
    sentence = "This page may not change anything here."


class SignInFailed(NotAllowed):
    """Whatever was wrong: it is the same answer for all."""

    code = "sign_in_failed"
    sentence = "This did not work. Try again, or with another passkey."


class AgentSwitchedOff(NotAllowed):
    code = "agent_switched_off"
    sentence = "The assistant is switched off here. Everything else keeps working."


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


class UnknownRow(NotFound):
    code = "unknown_row"
    sentence = "There is no such row."


class UnknownDocument(NotFound):
    code = "unknown_document"
    sentence = "There is no such document."


class UnknownNotification(NotFound):
    code = "unknown_notification"
    sentence = "There is no such reminder on this card."


class UnknownToken(NotFound):
    code = "unknown_token"
    sentence = "There is no such token."


class UnknownUser(NotFound):
    code = "unknown_user"
    sentence = "There is no such user."


class UnknownCredential(NotFound):
    code = "unknown_credential"
    sentence = "There is no such passkey."


class UnknownSubscription(NotFound):
    code = "unknown_subscription"
    sentence = "This device is not subscribed."


class UnknownProposal(NotFound):
    code = "unknown_proposal"
    sentence = "There is no such proposal, or it is not yours."


class UnknownGrant(NotFound):
    code = "unknown_grant"
    sentence = "There is no such standing yes."


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


class ChatInFlight(Conflict):
    """The direct form's word for a turn that is running."""

    code = "chat_in_flight"
    sentence = "a chat is already in flight"


class TooManyChats(Conflict):
    code = "too_many_chats"
    sentence = "too many chats in flight"


class IdempotencyMismatch(Conflict):
    code = "idempotency_mismatch"
    sentence = "This Idempotency-Key was used with another body."


class WouldLockOut(Conflict):
    code = "would_lock_out"
    sentence = "After this no owner who can sign in could read and write the policy any more. Tokens do not count."


class StaleVersion(Conflict):
    """`version` is the present one."""

    code = "stale_version"
    sentence = "The card changed since you read it."


class TargetChanged(Conflict):
    code = "target_changed"
    sentence = (
        "What this would change is no longer what the person agreed to change, so nothing was done. "
        "Look at it again, and ask anew if it is still wanted."
    )


class OrderMismatch(Conflict):
    code = "order_mismatch"
    sentence = "The order must name everything that is there, each once."


class DuplicateId(Conflict):
    code = "duplicate_id"
    sentence = "This id is taken."


class TooManyTokens(Conflict):
    code = "too_many_tokens"
    sentence = "There are 200 tokens already. Revoke some first."


class LastOwner(Conflict):
    code = "last_owner"
    sentence = "Somebody must be left who can sign in as an owner."


class TooManyCredentials(Conflict):
    code = "too_many_credentials"
    sentence = "A user has at most 20 passkeys. Remove one first."


class TooManyGrants(Conflict):
    code = "too_many_grants"
    sentence = "There are 100 standing yeses already. Revoke some first."


class AlreadyDecided(Conflict):
    """`outcome` is what became of it."""

    code = "already_decided"
    sentence = "This was decided before."


class ProposalExpired(Conflict):
    code = "expired"
    sentence = "This was not decided in time. Ask again to get a new proposal."


class AlreadyApplied(Conflict):
    """The operation was done before, by a process that did not come to say so, or may not be done any more."""

    code = "already_applied"
    sentence = "This was done before."


class NotAList(Conflict):
    code = "not_a_list"
    sentence = "The card's data is not a list of rows."


class RateLimited(DeckhandError):
    """`retry_after` are the seconds to wait, at least 1."""

    code = "rate_limited"
    sentence = "Too many requests; try again shortly."

    def __init__(self, retry_after: int) -> None:
        super().__init__(retryAfter=retry_after)
        self.retry_after = retry_after


class AnswerTooLarge(DeckhandError):
    code = "answer_too_large"
    sentence = "The answer would be over 6 MB. Read it in parts: a card by rows, a conversation with limit."


class ChatDisabled(DeckhandError):
    code = "chat_disabled"
    sentence = "The direct chat is switched off: no token is configured for it."


class ProviderFailed(DeckhandError):
    """All that a direct caller learns of a gateway's failure."""

    code = "provider_failed"
    sentence = "The AI service failed."


class PushNotConfigured(DeckhandError):
    code = "push_not_configured"
    sentence = "Pushes are not set up: this deployment has no key for them."


class PushUnfinished(DeckhandError):
    """Some devices may take it later. `wait` is how many seconds a push service asked for."""

    code = "push_unfinished"
    sentence = "Not every device has the push yet."

    def __init__(self, *, wait: float) -> None:
        super().__init__()
        self.wait = wait


class UnknownHost(DeckhandError):
    """A name that leads nowhere, perhaps only now."""

    code = "unknown_host"
    sentence = "There is no such host."


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


class DailyAllowanceUsedUp(AllowanceUsedUp):
    """By our own count, before the gateway was asked: `left` is `{tokens?, costUsd?}`, `resetsAt` an instant."""

    sentence = "Too little of today's AI allowance is left for another answer. Everything else keeps working."


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
