"""What a principal may use of the model in a day, and what they have used. Pure.

A step reserves the most that it is expected to use before the model is asked, and settles for what it did use: what
is settled and what is reserved together never pass the allowance, however many turns run side by side. A reservation
whose process died goes by its expiry.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from typing_extensions import TypedDict

from deckhand.domain.errors import DailyAllowanceUsedUp
from deckhand.domain.model import Model
from deckhand.domain.price import Price
from deckhand.domain.times import iso, local

# No tokenizer is at hand; common ones make fewer tokens of English, JSON and other scripts than this.
LETTERS_A_TOKEN = 3
ANSWER_TOKENS = 4_096
"""With less room than this for its answer a model is not asked: thinking alone takes some thousand."""
LONGEST_ANSWER = 32_768
"""The most that is reserved for an answer, thinking included: what a model writes at 60 tokens a second until the hard
end of a call, and half of that is more than most are made to give.
"""
ZERO = Decimal(0)
_DIGITS = b"0123456789"


def estimated_tokens(text: str) -> int:
    """Rather too many: one for three ASCII characters and one for each other."""
    ascii_count = len(text.encode("ascii", "ignore"))
    return -(-ascii_count // LETTERS_A_TOKEN) + len(text) - ascii_count


def most_tokens(text: str) -> int:
    """What no common tokenizer passes: some give each digit a token, and characters that they do not know one for each
    byte; of other ASCII characters a token has two or more, but in long runs of random ones.
    """
    raw, others = text.encode("utf-8", "replace"), len(text.encode("ascii", "ignore").translate(None, _DIGITS))
    return len(raw) - others // 2


def day_of(now: float, zone: ZoneInfo) -> str:
    """The calendar day of epoch seconds in a zone, such as 2026-04-20."""
    return local(now, zone).date().isoformat()


def days_before(day: str, count: int) -> str:
    return (date.fromisoformat(day) - timedelta(days=count)).isoformat()


def resets_at(now: float, zone: ZoneInfo) -> str:
    """The instant at which the next day begins in the zone."""
    following = local(now, zone).date() + timedelta(days=1)
    return iso(datetime.combine(following, time(), zone).timestamp())


class Spent(Model):
    """Tokens and USD of one or more calls. `cost` sums the calls whose price is known, `unpriced` tells of others;
    `estimated`: the gateway did not report some of it.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0
    cost: Decimal = ZERO
    unpriced: bool = False
    estimated: bool = False

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            input=self.input + other.input,
            output=self.output + other.output,
            cached=self.cached + other.cached,
            written=self.written + other.written,
            cost=self.cost + other.cost,
            unpriced=self.unpriced or other.unpriced,
            estimated=self.estimated or other.estimated,
        )

    @property
    def total(self) -> int:
        return self.input + self.output


class Reserved(Model):
    """What one step in flight may use; it counts until `expires`, in epoch seconds."""

    tokens: int
    cost: Decimal = ZERO
    expires: int


@dataclass(frozen=True, slots=True)
class Payment:
    """What was spent, and the reservation that was made for it, with its `expires`; no `name` where none was."""

    spent: Spent
    name: str | None = None
    expires: int = 0


class LeftToday(TypedDict, total=False):
    """What is not limited is left out."""

    tokens: int
    costUsd: float


@dataclass(frozen=True, slots=True)
class Left:
    """None where nothing is limited."""

    tokens: int | None = None
    cost: Decimal | None = None

    @property
    def is_nothing(self) -> bool:
        return self.tokens == 0 or self.cost == ZERO

    def fields(self) -> LeftToday:
        tokens: LeftToday = {} if self.tokens is None else {"tokens": self.tokens}
        return tokens if self.cost is None else {**tokens, "costUsd": float(self.cost)}

    def answer(self, prompt: int, price: Price | None) -> int:
        """How long the answer to so many tokens may be; 0 where there is no room for one worth asking for."""
        longest = LONGEST_ANSWER if self.tokens is None else min(LONGEST_ANSWER, self.tokens - prompt)
        if self.cost is not None and price is not None:
            longest = price.longest(self.cost - price.at_most(input=prompt, output=0), within=max(0, longest))
        return longest if longest >= ANSWER_TOKENS else 0

    def refusal(self, now: float, zone: ZoneInfo) -> DailyAllowanceUsedUp:
        return DailyAllowanceUsedUp(left=self.fields(), resetsAt=resets_at(now, zone))


@dataclass(frozen=True, slots=True)
class Allowance:
    """Tokens and USD a day; None: no limit."""

    tokens: int | None = None
    cost: Decimal | None = None

    @property
    def is_limited(self) -> bool:
        return self.tokens is not None or self.cost is not None


class DayUsage(Model):
    """What a principal used on one day, and what their steps in flight have reserved, by id."""

    spent: Spent = Spent()
    reserved: Mapping[str, Reserved] = {}

    def left(self, allowance: Allowance, now: float) -> Left:
        live = self._live(now).values()
        tokens, cost = allowance.tokens, allowance.cost
        return Left(
            None if tokens is None else max(0, tokens - self.spent.total - sum(one.tokens for one in live)),
            None if cost is None else max(ZERO, cost - self.spent.cost - sum((one.cost for one in live), ZERO)),
        )

    def reserving(self, name: str, wanted: Reserved, allowance: Allowance, now: float) -> "DayUsage | None":
        """None when that is more than is left."""
        left = self.left(allowance, now)
        if left.tokens is not None and wanted.tokens > left.tokens:
            return None
        if left.cost is not None and (wanted.cost > left.cost or left.is_nothing):
            return None
        return DayUsage(spent=self.spent, reserved={**self._live(now), name: wanted})

    def settling(self, payments: Iterable[Payment], now: float) -> "DayUsage":
        """With what was spent, in place of what was reserved for it.

        A reservation that is gone before its time was settled by this very payment, whose answer did not come; one
        that is past its time goes without.
        """
        spent, reserved = self.spent, self._live(now)
        for payment in payments:
            if payment.name is not None and payment.name not in self.reserved and now < payment.expires:
                continue
            spent += payment.spent
            reserved.pop(payment.name or "", None)
        return DayUsage(spent=spent, reserved=reserved)

    def _live(self, now: float) -> dict[str, Reserved]:
        return {name: one for name, one in self.reserved.items() if now < one.expires}
