"""What models cost. Money is decimal throughout and exact: nothing is rounded on the way to a sum."""

import json
from collections.abc import Mapping
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from deckhand.domain.model import Model

# Tokens of up to 16 digits times 12 digits fit the 28 that Decimal keeps.
UsdPerMillion = Annotated[Decimal, Field(ge=0, max_digits=12, decimal_places=9)]


class Price(Model):
    """USD per million tokens. Without a price of its own a cached or a written token of the input costs what any
    other does.
    """

    input: UsdPerMillion
    output: UsdPerMillion
    cached_input: UsdPerMillion | None = None
    cache_write: UsdPerMillion | None = None

    def cost(self, *, input: int, output: int, cached: int = 0, written: int = 0) -> Decimal:
        """USD of so many tokens; `input` are those that are neither cached nor written."""
        cached_price = self.input if self.cached_input is None else self.cached_input
        write_price = self.input if self.cache_write is None else self.cache_write
        millionths = input * self.input + cached * cached_price + written * write_price + output * self.output
        return millionths.scaleb(-6)

    def at_most(self, *, input: int, output: int) -> Decimal:
        """USD when every token of the input is of the dearest kind."""
        kinds = ({"input": input}, {"input": 0, "cached": input}, {"input": 0, "written": input})
        return max(self.cost(output=output, **kind) for kind in kinds)

    def longest(self, money: Decimal, *, within: int) -> int:
        """How many tokens of output so much USD pays for, `within` at most."""
        if money < 0:
            return 0
        # What costs nothing ends here.
        return within if self.cost(input=0, output=within) <= money else int(money.scaleb(6) // self.output)


class Prices:
    """Prices by the name of a model, or by a pattern with `*`, `?` and `[…]`. An exact name goes before patterns, and
    these in their order.
    """

    def __init__(self, table: Mapping[str, Price] | None = None) -> None:
        self._table = dict(table or {})

    def find(self, *names: str | None) -> Price | None:
        """The price of the first name that has one."""
        for name in filter(None, names):
            if (exact := self._table.get(name)) is not None:
                return exact
            for pattern, price in self._table.items():
                if fnmatchcase(name, pattern):
                    return price
        return None


def read_prices(text: str) -> Prices:
    """From JSON: `{"<model>": {"input": 0.15, "output": 0.6, "cachedInput": 0.075, "cacheWrite": 0.3}}`. Raises
    `ValueError` that names the models at fault.
    """
    try:
        # As they are written: a float would be another number.
        given = json.loads(text, parse_float=Decimal, parse_constant=_no_number, object_pairs_hook=_unique)
        return Prices(TypeAdapter(dict[str, Price]).validate_python(given))
    except ValidationError as invalid:
        faults = [f"{'.'.join(map(str, e['loc'])) or 'table'}: {e['msg']}" for e in invalid.errors()]
        raise ValueError("; ".join(faults)) from None
    except (json.JSONDecodeError, RecursionError):
        raise ValueError("must be a JSON object") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no price")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{', '.join(twice)} stands twice")
    return dict(pairs)
