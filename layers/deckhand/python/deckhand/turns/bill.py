"""From what a gateway reported to what is counted. Pure."""

from deckhand.agent.chat import Usage
from deckhand.domain.allowance import Spent
from deckhand.domain.price import Price


def bill(usage: Usage, price: Price | None, *, estimated: bool = False) -> Spent:
    """The whole input with its cached and written parts, and what all of it cost.

    Most gateways count those parts among the input, some do not: where they are more than the whole, they cannot be
    part of it.
    """
    parts = usage.cached_tokens + usage.cache_write_tokens
    fresh = usage.input_tokens - parts if parts <= usage.input_tokens else usage.input_tokens
    spent = Spent(
        input=fresh + parts,
        output=usage.output_tokens,
        cached=usage.cached_tokens,
        written=usage.cache_write_tokens,
        unpriced=price is None,
        estimated=estimated,
    )
    if price is None:
        return spent
    cost = price.cost(input=fresh, output=spent.output, cached=spent.cached, written=spent.written)
    return spent.model_copy(update={"cost": cost})
