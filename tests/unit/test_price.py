"""Prices of models, and costs to the last digit."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain.price import Price, Prices, read_prices

counts = st.integers(0, 2**53 - 1)
prices = st.decimals(0, 999, places=9)


def test_a_cost_is_exact() -> None:
    price = Price(input=Decimal("0.15"), output=Decimal("0.6"), cached_input=Decimal("0.075"))
    assert price.cost(input=3, output=1, cached=1) == Decimal("0.000001125")


@given(st.lists(st.integers(0, 10**9), max_size=20), prices)
def test_the_sum_of_costs_is_the_cost_of_the_sum(tokens: list[int], usd: Decimal) -> None:
    price = Price(input=usd, output=Decimal(0))
    each = sum((price.cost(input=one, output=0) for one in tokens), Decimal(0))
    assert each == price.cost(input=sum(tokens), output=0)


@given(counts, prices)
def test_no_count_of_tokens_is_rounded(tokens: int, usd: Decimal) -> None:
    cost = Price(input=usd, output=Decimal(0)).cost(input=tokens, output=0)
    numerator, denominator = usd.as_integer_ratio()
    assert cost.as_integer_ratio()[0] * denominator * 10**6 == tokens * numerator * cost.as_integer_ratio()[1]


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), prices, prices, prices)
def test_no_mix_of_cached_and_written_tokens_is_dearer_than_the_bound(
    fresh: int, cached: int, written: int, usd: Decimal, cached_usd: Decimal, write_usd: Decimal
) -> None:
    price = Price(input=usd, output=usd, cached_input=min(usd, cached_usd), cache_write=write_usd)
    cost = price.cost(input=fresh, output=7, cached=cached, written=written)
    assert cost <= price.at_most(input=fresh + cached + written, output=7)


def test_cached_and_written_tokens_cost_what_others_do_unless_they_have_a_price() -> None:
    price = Price(input=Decimal(2), output=Decimal(0))
    assert price.cost(input=0, output=0, cached=500_000, written=500_000) == 2


def table(**models: str) -> Prices:
    return Prices({name: Price(input=Decimal(usd), output=Decimal(0)) for name, usd in models.items()})


def test_an_exact_name_goes_before_patterns_and_patterns_in_their_order() -> None:
    prices = Prices(
        {name: Price(input=Decimal(n), output=Decimal(0)) for n, name in enumerate(["gpt-*", "gpt-4o*", "gpt-4o-mini"])}
    )
    found = [prices.find(name) for name in ("gpt-4o-mini", "gpt-4o", "gpt-3", "other")]
    assert [None if price is None else int(price.input) for price in found] == [2, 0, 0, None]


def test_the_gateways_own_name_goes_before_the_one_that_was_asked_for() -> None:
    prices = table(served="1", asked="2")
    found = [prices.find(*names) for names in (("served", "asked"), ("new", "asked"), (None, "asked"), (None, ""))]
    assert [None if price is None else int(price.input) for price in found] == [1, 2, 2, None]


def test_prices_are_read_as_they_are_written() -> None:
    dear = '{"input": 0.1, "output": 1e-7, "cachedInput": "0.05", "cacheWrite": 3}'
    prices = read_prices(f'{{"a": {dear}, "free*": {{"input": 0, "output": 0}}}}')
    assert prices.find("a") == Price(
        input=Decimal("0.1"), output=Decimal("0.0000001"), cached_input=Decimal("0.05"), cache_write=Decimal(3)
    )
    assert prices.find("free-1") == Price(input=Decimal(0), output=Decimal(0))


@pytest.mark.parametrize(
    "entry",
    [
        '{"input": 1}',
        '{"input": -1, "output": 1}',
        '{"input": NaN, "output": 1}',
        '{"input": Infinity, "output": 1}',
        '{"input": "NaN", "output": 1}',
        '{"input": 1e400, "output": 1}',
        '{"input": "much", "output": 1}',
        '{"input": true, "output": 1}',
        '{"input": 1, "output": 1, "cached": 1}',
        '{"input": 0.0000000001, "output": 1}',
        "1",
        "null",
        "[]",
    ],
)
def test_a_price_that_is_none_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match=r"dear|no price"):
        read_prices(f'{{"fine": {{"input": 1, "output": 1}}, "dear": {entry}}}')


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "1", '"x"', "[" * 100_000, '{"a": {"input": 1, "output": 1}, "a": {"input": 2, "output": 1}}'],
)
def test_a_table_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be a JSON object|table|a stands twice"):
        read_prices(text)
