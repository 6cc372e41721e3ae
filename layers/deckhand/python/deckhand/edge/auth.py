"""Who is calling. Fails closed: without any credential that exists nobody is answered.

A bearer token is looked at first, and a wrong one is not rescued by a cookie beside it. At most one read a request.
"""

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deckhand.domain.access_token import MAX_SECRET_CHARS
from deckhand.domain.errors import NotConfigured, OriginNotAllowed, Unauthenticated
from deckhand.domain.principal import AGENT, Principal
from deckhand.edge.request import Request
from deckhand.storage.tokens import Tokens

OPERATOR = Principal(kind="service", id="operator", user="operator", role="operator")
COOKIES = ("__Host-deckhand", "deckhand")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
SPACES = " \t"


@dataclass(frozen=True, slots=True)
class Sessions:
    """How a session cookie is looked up: its secret in, who signed in out. `origins` are those that may change
    something with it; on https only the cookie that no other host can set counts.
    """

    find: Callable[[str], Principal | None]
    origins: Sequence[str]

    @property
    def cookie(self) -> str:
        return COOKIES[0] if self.origins and self.origins[0].startswith("https:") else COOKIES[1]


class Authenticator:
    """Finds the principal of a request. `agent_token` and `admin_token` come from the environment."""

    def __init__(
        self,
        agent_token: str | None,
        admin_token: str | None = None,
        *,
        tokens: Tokens | None = None,
        sessions: Sessions | None = None,
    ) -> None:
        self._agent_token, self._admin_token = agent_token, admin_token
        self._tokens, self._sessions = tokens, sessions

    def principal(self, request: Request) -> Principal:
        """Raises `NotConfigured`, `Unauthenticated`, `OriginNotAllowed`, storage errors."""
        given = request.headers.get("authorization")
        found = self._signed_in(request) if given is None else self._bearer(_bearer(given))
        if found is None:
            raise Unauthenticated() if self._configured() else NotConfigured()
        return found

    def operator(self, request: Request) -> Principal:
        """Whoever runs the deployment, by a token of its own. Without that token nobody is."""
        given = _bearer(request.headers.get("authorization", ""))
        if not self._admin_token or not same(given, self._admin_token):
            raise Unauthenticated()
        return OPERATOR

    def _bearer(self, given: str) -> Principal | None:
        if self._agent_token and same(given, self._agent_token):
            return AGENT
        if self._tokens is None or not 0 < len(given) <= MAX_SECRET_CHARS:
            return None
        token = self._tokens.find(given)
        if token is None:
            return None
        self._tokens.note_use(token)
        return token.principal()

    def _signed_in(self, request: Request) -> Principal | None:
        if self._sessions is None or not (secret := session_secret(request, self._sessions.cookie)):
            return None
        found = self._sessions.find(secret)
        if found is not None and request.method not in SAFE_METHODS:
            check_origin(request, self._sessions.origins)
        return found

    def _configured(self) -> bool:
        return bool(self._agent_token) or (self._tokens is not None and self._tokens.anyone())


def check_origin(request: Request, origins: Sequence[str]) -> None:
    """What changes something with a cookie must come from a page of ours. Raises `OriginNotAllowed`."""
    if request.headers.get("origin") not in origins:
        raise OriginNotAllowed()


def session_secret(request: Request, name: str) -> str | None:
    """The session's secret in the cookies of a request; None without one, or when it cannot be one.

    Told apart by `;` and the first `=` alone (RFC 6265, 5.4): the standard library's parser gives up at a neighbour
    that it does not like, such as another page's with JSON in it, and what stands behind is lost. Only spaces and tabs
    are no part of a name: browsers keep other hosts from setting a cookie of our name, but not one that begins with
    another kind of space.
    """
    for cookie in request.headers.get("cookie", "").split(";"):
        key, _, value = cookie.partition("=")
        if key.strip(SPACES) == name:
            secret = value.strip(SPACES).strip('"')
            return secret if 0 < len(secret) <= MAX_SECRET_CHARS else None
    return None


def same(given: str, expected: str) -> bool:
    """Compares secrets in a time that does not tell how much of them agrees."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())


def _bearer(header: str) -> str:
    scheme, _, given = header.partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""
