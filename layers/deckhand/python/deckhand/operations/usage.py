"""What the caller used of the model, and what is left of their day."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from deckhand.domain.allowance import DayUsage, LeftToday, day_of, days_before, resets_at
from deckhand.operations.arguments import Nothing
from deckhand.operations.caller import Caller
from deckhand.operations.registry import Http, operation
from deckhand.storage.usage import UsageBook

DAYS = 31


class UsedDay(TypedDict):
    """`day` such as 2026-04-20. Cached and written tokens are part of the input. No `costUsd` where a price is unknown;
    `estimated`: the gateway did not report some of it.
    """

    day: str
    inputTokens: int
    outputTokens: int
    cachedTokens: int
    cacheWriteTokens: int
    costUsd: NotRequired[float]
    estimated: NotRequired[Literal[True]]


class UsedDays(TypedDict):
    """`left` is of today; `resetsAt` is the instant, in ISO 8601, at which the next day begins."""

    days: list[UsedDay]
    left: LeftToday
    resetsAt: str


@operation(summary="Read what was used of the model", input=Nothing, http=Http("GET", "/api/usage"))
def read_usage(caller: Caller, _: Nothing) -> UsedDays:
    """The caller's last 31 days in the deployment's zone, newest first, those without use left out."""
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


def _shown(day: str, usage: DayUsage) -> UsedDay:
    spent = usage.spent
    shown: UsedDay = {
        "day": day,
        "inputTokens": spent.input,
        "outputTokens": spent.output,
        "cachedTokens": spent.cached,
        "cacheWriteTokens": spent.written,
    }
    if not spent.unpriced:
        shown["costUsd"] = float(spent.cost)
    if spent.estimated:
        shown["estimated"] = True
    return shown
