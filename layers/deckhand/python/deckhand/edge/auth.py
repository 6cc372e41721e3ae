"""Who is calling. Fails closed: without any configured credential nobody is answered."""

import hmac

from deckhand.domain.errors import NotConfigured, Unauthenticated
from deckhand.domain.principal import Principal
from deckhand.edge.request import Request

AGENT = Principal(kind="token", id="agent", user="owner", role="agent")
OPERATOR = Principal(kind="service", id="operator", user="operator", role="operator")


class Authenticator:
    """Finds the principal of a request. Identity adds further credentials here; handlers don't change."""

    def __init__(self, agent_token: str | None, admin_token: str | None = None) -> None:
        self._agent_token, self._admin_token = agent_token, admin_token

    def principal(self, request: Request) -> Principal:
        """Raises `NotConfigured`, `Unauthenticated`."""
        if not self._agent_token:
            raise NotConfigured()
        if _bears(request, self._agent_token):
            return AGENT
        raise Unauthenticated()

    def operator(self, request: Request) -> Principal:
        """Whoever runs the deployment, by a token of its own. Without that token nobody is."""
        if not self._admin_token or not _bears(request, self._admin_token):
            raise Unauthenticated()
        return OPERATOR


def _bears(request: Request, token: str) -> bool:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and _same(given.strip(), token)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())
