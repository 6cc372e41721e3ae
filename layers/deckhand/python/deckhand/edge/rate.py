"""Requests a minute of each principal, wherever a request was authenticated: one place for all routes."""

from typing import Protocol

from aws_lambda_powertools import Logger

from deckhand.domain.errors import StorageError
from deckhand.domain.principal import Principal

logger = Logger(child=True)


class Windows(Protocol):
    def take(self, principal: Principal, limit: int) -> None: ...


class RateLimit:
    """`limit` requests a minute; 0 switches it off, and nothing is stored then."""

    def __init__(self, windows: Windows, limit: int) -> None:
        self._windows, self._limit = windows, limit

    def admit(self, principal: Principal) -> Principal:
        """The principal, counted. Raises `RateLimited`.

        A store that fails lets the request through: the limit protects cost, not secrets, and must lock nobody out.
        """
        if self._limit:
            try:
                self._windows.take(principal, self._limit)
            except StorageError:
                logger.warning("request not counted", exc_info=True)
        return principal
