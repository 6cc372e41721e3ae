"""The direct form of chat as a program uses it. How a caller in the foreground goes on behind a model that wakes up is
here whole: other clients can be written after it.

What it keeps to: the message and the session stay as they were; the pod is asked until it is ready or the deadline is
over; the claim is consumed before the one `resume` is sent; a newer message, or leaving the foreground, ends it; and
nothing is ever sent a second time because an answer did not come.
"""

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx2

from deckhand.agent.wake import Wakeable, WakeFailed, WakeMode, standing
from infra.local.api_client import ApiError, ConnectionLostError, http_client, refusal
from infra.local.foreground import Foreground

ANSWER_SECONDS = 900.0
"""As long as a turn may take; nothing is said before its end."""
POLL_SECONDS = 1.0
LOST = "The answer was lost. The message may have been taken; it is not sent again."


@dataclass(frozen=True)
class Said:
    """An answer. `pending` is the pod that is on its way: the reply is a notice then, and nobody read the message."""

    reply: str
    pending: str | None = None


class AnswerLostError(ConnectionLostError):
    """The message may have been taken, and its answer is gone."""


class DirectClient:
    """One server and its shared token. Blocking. Every call is one request, whatever happens."""

    def __init__(self, url: str, token: str) -> None:
        """Raises ApiError for an address or a token that cannot be one."""
        self.url = url
        self._http = http_client(url, "X-Chat-Token", "", token, patience=ANSWER_SECONDS)

    def close(self) -> None:
        self._http.close()

    def say(self, message: str, session: str, mode: WakeMode | None = None) -> Said:
        """Raises ApiError for a refusal, AnswerLostError when nobody knows what became of the message."""
        chosen = {} if mode is None else {"wakeMode": mode}
        try:
            answer = self._http.post("/api/chat", json={"message": message, "sessionId": session, **chosen})
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            raise ConnectionLostError(f"Nothing answers at {self.url}.") from None
        except httpx2.RequestError:
            raise AnswerLostError(LOST) from None
        if not answer.is_success:
            raise _refusal(answer)
        try:
            return _said(json.loads(answer.content))
        except (ValueError, KeyError, TypeError):
            raise ApiError(f"What answers at {self.url} is not Deckhand.", "stranger") from None


def _refusal(answer: httpx2.Response) -> ApiError:
    refused = refusal(answer.status_code, answer.content)
    if refused.code == "unauthenticated":
        return ApiError("The token is not accepted (CHAT_API_TOKEN).", refused.code, refused.status)
    return refused


def _said(answer: Any) -> Said:
    if not isinstance(answer, dict):
        raise TypeError
    pending = answer.get("pendingWake")
    return Said(str(answer["reply"]), None if pending is None else str(pending["pod"]))


@dataclass(frozen=True)
class Patience:
    """How long the pod is waited for, in seconds; `left` says whether the person went elsewhere meanwhile."""

    seconds: float
    sleep: Callable[[float], None]
    clock: Callable[[], float]
    wall: Callable[[], float]
    left: Callable[[], bool] = lambda: False


def converse(
    client: DirectClient,
    message: str,
    session: str,
    *,
    claim: Foreground,
    pods: Callable[[str], Wakeable] | None,
    patience: Patience,
    notice: Callable[[Said], None] = lambda _: None,
) -> Said:
    """The reply to one message. `pods` gives the conductor's view of a pod; None: the model is not waited for.

    Raises ApiError: what the server refused, that the deadline is over, or that the continuation was cancelled.
    """
    claim.take()
    try:
        said = client.say(message, session, None if pods is None else "wait")
        if said.pending is None or pods is None:
            return said
        notice(said)
        _wait_until_ready(pods(said.pending), claim, patience)
        if not claim.consume():
            raise _cancelled()
        return _answered(client.say(message, session, "resume"))
    finally:
        claim.consume()


def _wait_until_ready(pod: Wakeable, claim: Foreground, patience: Patience) -> None:
    end = patience.clock() + patience.seconds
    while True:
        # A status that cannot be read may pass, and reading it again costs nothing.
        ready = False
        with contextlib.suppress(WakeFailed):
            ready = standing(pod.status(), now=patience.wall()) == "ready"
        if patience.left() or not claim.is_ours():
            raise _cancelled()
        if ready:
            return
        if patience.clock() >= end:
            raise ApiError("The model did not wake up in time. The message was not answered.", "deadline")
        patience.sleep(POLL_SECONDS)


def _answered(said: Said) -> Said:
    if said.pending is not None:
        raise ApiError("The model fell asleep again. The message was not answered.", "asleep")
    return said


def _cancelled() -> ApiError:
    return ApiError("Cancelled: this message is no longer the one in the foreground. It was not answered.", "cancelled")
