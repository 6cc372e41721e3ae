"""Requests that come at once are all counted."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from deckhand.domain.errors import RateLimited
from deckhand.domain.principal import Principal
from deckhand.storage.rates import Rates
from tests.stores import Shelf, new_token

RACERS, LIMIT = 16, 10


@pytest.mark.parametrize("shelf", ["sqlite-file", "ministack"], indirect=True)
def test_of_sixteen_requests_at_once_exactly_the_limit_is_let_through(shelf: Shelf) -> None:
    caller = Principal(kind="user", id="ann", user="ann", role="owner", tenant=shelf.pk)
    start = threading.Barrier(RACERS)

    def request(_: int) -> bool:
        rates = Rates(shelf.store, now=shelf.clock, new_id=new_token)
        start.wait(timeout=30)
        try:
            rates.take(caller, LIMIT)
        except RateLimited:
            return False
        return True

    with ThreadPoolExecutor(RACERS) as pool:
        assert sum(pool.map(request, range(RACERS))) == LIMIT
