"""What the caller used of the model, and what is left of their day."""

from typing import Any

from deckhand.domain.allowance import DayUsage, day_of, days_before, resets_at
from deckhand.operations.arguments import Nothing
from deckhand.operations.caller import Caller
from deckhand.operations.registry import Http, operation
from deckhand.storage.usage import UsageBook

DAYS = 31


@operation(summary="Read what was used of the model", input=Nothing, http=Http("GET", "/api/usage"))
def read_usage(caller: Caller, _: Nothing) -> dict[str, Any]:
    """`{days: [{day, inputTokens, outputTokens, cachedTokens, cacheWriteTokens, costUsd?, estimated?}], left: {tokens?,
    costUsd?}, resetsAt}`: the caller's last 31 days in the deployment's zone, newest first, those without use left out.
    Cached and written tokens are part of the input. No `costUsd` where a price is unknown, nothing in `left` without a
    limit.
    """
    now = caller.now()
    today = day_of(now, caller.default_zone)
    book = UsageBook(caller.store, caller.principal, now=caller.now, new_id=caller.new_id)
    days = book.days(after=days_before(today, DAYS))
    left = dict(days).get(today, DayUsage()).left(caller.allowance, now)
    return {
        "days": [_shown(day, usage) for day, usage in days if usage.spent.total],
        "left": left.fields(),
        "resetsAt": resets_at(now, caller.default_zone),
    }


def _shown(day: str, usage: DayUsage) -> dict[str, Any]:
    spent = usage.spent
    return {
        "day": day,
        "inputTokens": spent.input,
        "outputTokens": spent.output,
        "cachedTokens": spent.cached,
        "cacheWriteTokens": spent.written,
        **({} if spent.unpriced else {"costUsd": float(spent.cost)}),
        **({"estimated": True} if spent.estimated else {}),
    }
