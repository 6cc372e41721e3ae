"""Who is calling. Fails closed: without any configured credential nobody is answered."""

import hmac

from deckhand.domain.errors import NotConfigured, Unauthenticated
from deckhand.domain.principal import Principal
from deckhand.edge.request import Request

AGENT = Principal(kind="token", id="agent", user="owner", role="agent")


class Authenticator:
    """Finds the principal of a request. Identity adds further credentials here; handlers don't change."""

    def __init__(self, agent_token: str | None) -> None:
        self._agent_token = agent_token

    def principal(self, request: Request) -> Principal:
        """Raises `NotConfigured`, `Unauthenticated`."""
        if not self._agent_token:
            raise NotConfigured()
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(given.strip(), self._agent_token):
            return AGENT
        raise Unauthenticated()


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())
