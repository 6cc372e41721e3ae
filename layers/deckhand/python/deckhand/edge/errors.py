"""The only place that knows HTTP statuses: one for each error code."""

from deckhand.domain.errors import DeckhandError

STATUS: dict[str, int] = {
    "invalid": 422,
    "invalid_json": 400,
    "invalid_messages": 400,
    "invalid_manifest": 400,
    "invalid_id": 422,
    "bad_path": 400,
    "no_match": 404,
    "ambiguous": 409,
    "invalid_order": 400,
    "invalid_data": 400,
    "wrong_type": 422,
    "unknown_key": 400,
    "protected_field": 400,
    "not_writeable": 403,
    "report_not_verified": 403,
    "outside_date_window": 403,
    "unknown_row": 404,
    "unknown_document": 404,
    "unknown_notification": 404,
    "stale_version": 412,
    "order_mismatch": 409,
    "body_too_large": 413,
    "row_too_large": 413,
    "answer_too_large": 413,
    "item_too_large": 413,
    "unauthenticated": 401,
    "forbidden": 403,
    "origin_not_allowed": 403,
    "unknown_token": 404,
    "too_many_tokens": 409,
    "not_found": 404,
    "unknown_conversation": 404,
    "unknown_manifest": 404,
    "no_turn_running": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "turn_running": 409,
    "chat_in_flight": 429,
    "too_many_chats": 429,
    "chat_disabled": 503,
    "provider_failed": 502,
    "invalid_message": 400,
    "idempotency_mismatch": 422,
    "duplicate_id": 409,
    "not_a_list": 409,
    "context_full": 422,
    "allowance_used_up": 429,
    "rate_limited": 429,
    "gateway_failed": 502,
    "gateway_unreadable": 500,
    "gateway_timeout": 504,
    "chat_not_configured": 503,
    "not_configured": 503,
    "storage_failed": 503,
    "storage_conflict": 503,
    "turn_lost": 500,
    "internal": 500,
}


def status_of(code: str) -> int:
    return STATUS.get(code, 500)


def error_status(error: DeckhandError) -> int:
    return status_of(error.code)
