"""A day's allowance: what is left, what is reserved, what is settled."""

from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain.allowance import (
    ANSWER_TOKENS,
    LONGEST_ANSWER,
    Allowance,
    DayUsage,
    Left,
    Payment,
    Reserved,
    Spent,
    day_of,
    days_before,
    estimated_tokens,
    most_tokens,
    resets_at,
)
from deckhand.domain.price import Price

NOW = 1_776_643_200.0  # 2026-04-20T00:00:00Z
LATER = int(NOW) + 600
THOUSAND = Allowance(tokens=1_000)


def reserved(usage: DayUsage, name: str, tokens: int, allowance: Allowance = THOUSAND, now: float = NOW) -> DayUsage:
    made = usage.reserving(name, Reserved(tokens=tokens, expires=LATER), allowance, now)
    assert made is not None
    return made


def test_what_is_reserved_is_not_left_for_others() -> None:
    usage = reserved(DayUsage(spent=Spent(input=100, output=50)), "a", 800)
    assert usage.left(THOUSAND, NOW).fields() == {"tokens": 50}
    assert usage.reserving("b", Reserved(tokens=51, expires=LATER), THOUSAND, NOW) is None
    assert reserved(usage, "b", 50).left(THOUSAND, NOW).is_nothing


def test_settling_gives_back_what_was_not_used() -> None:
    usage = reserved(DayUsage(), "a", 800).settling([Payment(Spent(input=10, output=5), "a", LATER)], NOW)
    assert usage == DayUsage(spent=Spent(input=10, output=5))


def test_a_reservation_of_a_process_that_died_goes_by_its_expiry() -> None:
    usage = reserved(DayUsage(), "a", 1_000)
    assert usage.left(THOUSAND, LATER - 1).is_nothing
    assert usage.left(THOUSAND, LATER).fields() == {"tokens": 1_000}
    assert set(reserved(usage, "b", 1_000, now=LATER).reserved) == {"b"}, "and is swept by the next change"


def test_a_payment_that_was_written_already_is_not_made_twice() -> None:
    payment = Payment(Spent(input=10), "a", LATER)
    once = reserved(DayUsage(), "a", 800).settling([payment], NOW)
    assert once.settling([payment], NOW) == once


def test_a_payment_that_comes_after_its_reservation_went_counts_all_the_same() -> None:
    swept = reserved(reserved(DayUsage(), "a", 800), "b", 100, now=LATER)
    assert swept.settling([Payment(Spent(input=10), "a", LATER)], LATER).spent == Spent(input=10)


def test_of_two_payments_the_one_that_was_written_already_does_not_stop_the_other() -> None:
    first, second = Payment(Spent(input=10), "a", LATER), Payment(Spent(input=5), "b", LATER)
    usage = reserved(reserved(DayUsage(), "a", 100).settling([first], NOW), "b", 100)
    assert usage.settling([first, second], NOW) == DayUsage(spent=Spent(input=15))


def test_money_is_limited_apart_from_tokens() -> None:
    allowance = Allowance(tokens=1_000, cost=Decimal("0.30"))
    usage = DayUsage(spent=Spent(cost=Decimal("0.10")))
    assert usage.reserving("a", Reserved(tokens=1, cost=Decimal("0.21"), expires=LATER), allowance, NOW) is None
    usage = usage.reserving("a", Reserved(tokens=1, cost=Decimal("0.20"), expires=LATER), allowance, NOW) or usage
    assert usage.left(allowance, NOW).fields() == {"tokens": 999, "costUsd": 0.0}
    assert usage.left(allowance, NOW).is_nothing


def test_with_no_money_left_a_call_without_a_price_is_refused_too() -> None:
    usage = DayUsage(spent=Spent(cost=Decimal(1)))
    assert usage.reserving("a", Reserved(tokens=1, expires=LATER), Allowance(cost=Decimal(1)), NOW) is None


def test_without_an_allowance_nothing_is_refused() -> None:
    usage = DayUsage(spent=Spent(input=10**12, cost=Decimal(10**6)))
    assert usage.reserving("a", Reserved(tokens=10**12, expires=LATER), Allowance(), NOW) is not None
    assert (usage.left(Allowance(), NOW).fields(), usage.left(Allowance(), NOW).is_nothing) == ({}, False)


def test_what_is_stored_is_read_back_exactly() -> None:
    usage = DayUsage(
        spent=Spent(input=1, cost=Decimal("0.000000000000001"), unpriced=True, estimated=True),
        reserved={"a": Reserved(tokens=5, cost=Decimal("0.1"), expires=LATER)},
    )
    assert DayUsage.model_validate_json(usage.to_json()) == usage


steps = st.lists(
    st.tuples(st.integers(0, 7), st.integers(1, 400), st.integers(0, 400), st.sampled_from(["settle", "die", "wait"])),
    max_size=60,
)


@given(steps)
def test_whatever_happens_what_is_settled_never_passes_the_allowance(
    steps: list[tuple[int, int, int, str]],
) -> None:
    """Eight turns side by side, each of which uses at most what it reserved, or dies."""
    usage, now, held = DayUsage(), NOW, dict[int, tuple[str, Reserved]]()
    for number, (turn, tokens, used, what) in enumerate(steps):
        if what == "wait":
            now += 100
        if turn in held:
            name, reservation = held.pop(turn)
            if what == "settle" and now < reservation.expires:
                spent = Spent(input=min(used, reservation.tokens))
                usage = usage.settling([Payment(spent, name, reservation.expires)], now)
        else:
            name, wanted = str(number), Reserved(tokens=tokens, expires=int(now) + 250)
            if (made := usage.reserving(name, wanted, THOUSAND, now)) is not None:
                usage, held[turn] = made, (name, wanted)
        assert usage.spent.total <= 1_000
    assert usage.left(THOUSAND, now + 1_000).tokens == 1_000 - usage.spent.total


@pytest.mark.parametrize(
    ("instant", "zone", "day", "reset"),
    [
        (NOW, "UTC", "2026-04-20", "2026-04-21T00:00:00.000Z"),
        (NOW - 1, "UTC", "2026-04-19", "2026-04-20T00:00:00.000Z"),
        (NOW, "Europe/Helsinki", "2026-04-20", "2026-04-20T21:00:00.000Z"),
        (NOW, "America/New_York", "2026-04-19", "2026-04-20T04:00:00.000Z"),
        (1_774_742_400, "Europe/Helsinki", "2026-03-29", "2026-03-29T21:00:00.000Z"),
    ],
)
def test_a_day_is_the_callers_own(instant: float, zone: str, day: str, reset: str) -> None:
    assert (day_of(instant, ZoneInfo(zone)), resets_at(instant, ZoneInfo(zone))) == (day, reset)


@given(st.integers(0, 4_000_000_000), st.sampled_from(["UTC", "Asia/Beirut", "Pacific/Apia", "America/Sao_Paulo"]))
def test_a_reset_is_the_first_instant_of_another_day(instant: int, name: str) -> None:
    zone = ZoneInfo(name)
    day, reset = day_of(instant, zone), datetime.fromisoformat(resets_at(instant, zone)).timestamp()
    assert day_of(reset - 0.001, zone) == day
    assert day_of(reset, zone) > day


def test_days_are_counted_back_over_months() -> None:
    assert days_before("2026-03-01", 31) == "2026-01-29"


@given(st.text())
def test_an_estimate_is_never_below_a_third_of_the_text(text: str) -> None:
    assert len(text) / 3 <= estimated_tokens(text) <= len(text)


def test_other_scripts_than_latin_take_a_token_a_character() -> None:
    assert estimated_tokens("体重を記録") == 5
    assert estimated_tokens("log my weight") == 5


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("", 0),
        ("log my weight", 7),
        ('"2026-04-20",85.5', 14),  # a digit, a token
        ("体重", 6),  # a tokenizer that does not know them spells their bytes
        ("👩‍👩‍👧", 18),
        ("𐌰" * 1_000, 4_000),
        ("\ud800", 1),
    ],
)
def test_what_is_reserved_for_a_text_is_what_the_worst_tokenizer_makes_of_it(text: str, most: int) -> None:
    assert most_tokens(text) == most


@given(st.text())
def test_what_is_reserved_for_a_text_is_never_below_its_estimate(text: str) -> None:
    assert estimated_tokens(text) <= most_tokens(text)
    assert most_tokens(text) <= len(text.encode("utf-8", "replace"))


money = st.one_of(st.none(), st.decimals(0, 10**12, places=6))
prices = st.decimals(0, 999, places=4)


@given(st.one_of(st.none(), st.integers(0, 10**6)), money, st.integers(0, 10**6), prices, prices)
def test_the_longest_answer_fits_what_is_left_beside_its_prompt(
    tokens: int | None, cost: Decimal | None, prompt: int, input: Decimal, output: Decimal
) -> None:
    left, price = Left(tokens, cost), Price(input=input, output=output)
    answer = left.answer(prompt, price)
    assert answer == 0 or ANSWER_TOKENS <= answer <= LONGEST_ANSWER
    if answer:
        assert tokens is None or prompt + answer <= tokens
        assert cost is None or price.at_most(input=prompt, output=answer) <= cost
        one_more = price.at_most(input=prompt, output=answer + 1)
        assert answer == LONGEST_ANSWER or prompt + answer == tokens or (cost is not None and one_more > cost)


def test_money_limits_no_answer_whose_price_is_not_known() -> None:
    assert Left(None, Decimal("0.000001")).answer(10**6, None) == LONGEST_ANSWER
