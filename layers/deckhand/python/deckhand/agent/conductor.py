"""The conductor over HTTP: it knows whether the pod that serves the model runs, and can start it. A `Wakeable`.

Two routes, both with `Authorization: Bearer <token>`, both JSON:

    GET  /pods/{pod}        200 {"state": "stopped" | "starting" | "running",
                                 "endpoint": full URL of chat completions, or null,
                                 "readySince": ISO 8601 instant with its offset, or null while the model loads}
    POST /pods/{pod}/start  any 2xx: the start is on its way; asking for one that is already on its way is fine

Other fields are ignored. Redirects are not followed: the token goes nowhere else. Nothing is ever asked twice.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from deckhand.agent.wake import PodStatus, WakeFailed

if TYPE_CHECKING:
    from httpx2 import Response

WAIT_S = 5.0
ANSWER_BYTES = 64 * 1024


class _Told(BaseModel):
    state: str
    endpoint: str | None = None
    readySince: str | None = None


class HttpConductor:
    """`token` is asked for at each call, since a secret may change."""

    def __init__(self, url: str, *, token: Callable[[], str | None], pod: str, wait_s: float = WAIT_S) -> None:
        self._url, self._token, self._pod, self._wait_s = url.rstrip("/"), token, pod, wait_s

    @property
    def pod(self) -> str:
        return self._pod

    def status(self) -> PodStatus:
        """See `Wakeable.status`."""
        body = self._ask("GET", "")
        try:
            told = _Told.model_validate_json(body)
        except ValidationError:
            raise WakeFailed("unreadable status") from None
        return PodStatus(told.state, told.endpoint, told.readySince)

    def start(self) -> None:
        """See `Wakeable.start`."""
        self._ask("POST", "/start")

    def _ask(self, method: str, what: str) -> bytes:
        """The body of a 2xx answer. A connection of its own: seconds may have passed since the last one."""
        token = self._token()
        if not token or not token.isascii() or not token.isprintable():
            raise WakeFailed("no conductor token")
        # Part of the openai SDK's own start, which nothing that answers early waits for.
        from httpx2 import Client, HTTPError, InvalidURL, create_ssl_context

        headers = {"authorization": f"Bearer {token}", "accept": "application/json", "cache-control": "no-cache"}
        address = f"{self._url}/pods/{quote(self._pod, safe='')}{what}"
        try:
            with (
                Client(
                    trust_env=False, verify=create_ssl_context(), follow_redirects=False, timeout=self._wait_s
                ) as client,
                client.stream(method, address, headers=headers) as response,
            ):
                if not response.is_success:
                    raise WakeFailed(f"conductor answered {response.status_code}")
                return self._body(response)
        except (HTTPError, InvalidURL, OSError) as error:
            raise WakeFailed(type(error).__name__) from None

    def _body(self, response: "Response") -> bytes:
        """Bounded in bytes, and in time as well when it drips."""
        end, body = time.monotonic() + self._wait_s, bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > ANSWER_BYTES or time.monotonic() > end:
                raise WakeFailed("endless answer")
        return bytes(body)
