"""What a gateway's refusal means: which error of ours it is, and whether asking again may help.

The words are taken from what servers answer; each server words the same thing in its own way (bug cases 16, 18, 22).
Nothing of the upstream text leaves this module.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deckhand.agent.chat import Filtered
from deckhand.domain.errors import AllowanceUsedUp, ContextFull, GatewayError, GatewayFailed, GatewayUnreadable

_USED_UP = re.compile(
    r"budget has been exceeded|exceeded ?budget|budget[_ ]exceeded|insufficient[_ ](?:quota|balance|credits?|funds)"
    r"|quota[_ ]exceeded|exceeded your current quota|billing_hard_limit|credit balance is too low"
    r"|(?:monthly|spending|spend|usage) limit (?:reached|exceeded)|out of credits"
)
_CONTEXT_FULL = re.compile(
    r"context_length_exceeded|exceed_context_size|context[_ ](?:length|size|window)|maximum context|context is full"
    r"|(?:input|prompt)(?: is)? too (?:long|large)|(?:input|prompt) length .{0,40}exceeds"
    r"|(?:input|prompt) (?:contains|has) .{0,30}tokens.{0,20}too (?:large|many|long)|too many (?:input |prompt )?tokens"
    r"|exceeds? .{0,30}(?:max(?:imum)?|allowed) .{0,30}(?:input|context|prompt).{0,20}(?:tokens|length)"
    r"|reduce the length of the (?:messages|prompt|input)|request too large|input token count .{0,40}exceeds"
)
_FILTERED = re.compile(
    r"content_filter|content_policy_violation|responsibleaipolicyviolation|content management policy"
)
_ABOUT_A_FORM = {400, 422, 500}
_KNOWN_CAUSES = {401, 403, 404}


@dataclass(frozen=True, slots=True)
class Refusal:
    """`again`: the same request may be sent again later. `complaint` is the lower-cased text when it may be about a
    form of the request, else empty.
    """

    error: GatewayError
    again: bool = False
    complaint: str = ""


class TryFailed(Exception):
    """One try at an answer failed. `retry_after` is in seconds, as the server asked; `silent` when not one byte of the
    body came; `cause` is a word for the log: a status or the kind of trouble.
    """

    def __init__(self, refusal: Refusal, *, cause: str, retry_after: float | None = None, silent: bool = False) -> None:
        super().__init__(cause)
        self.refusal, self.cause, self.retry_after, self.silent = refusal, cause, retry_after, silent


def cut(cause: str = "cut") -> TryFailed:
    """The answer ended before it was whole (bug case 14)."""
    return TryFailed(Refusal(GatewayFailed(), again=True), cause=cause)


def unreadable() -> TryFailed:
    """A 200 that is no chat answer (bug case 16)."""
    return TryFailed(Refusal(GatewayUnreadable()), cause="unreadable")


def refusal_of(status: int, body: bytes) -> Refusal:
    """What an HTTP answer other than 2xx means."""
    if status < 400:
        # A redirect is not followed: the address is used as it is, and the key goes nowhere else.
        return Refusal(GatewayUnreadable())
    text = body.decode("utf-8", "replace")
    if looks_like_html(text):
        return Refusal(GatewayFailed(), again=status >= 500)
    words = _words(text)
    if status == 429:
        return Refusal(AllowanceUsedUp()) if _USED_UP.search(words) else Refusal(GatewayFailed(), again=True)
    if status == 413 or (status not in _KNOWN_CAUSES and _CONTEXT_FULL.search(words)):
        return Refusal(ContextFull())
    if status in (400, 403, 422) and _FILTERED.search(words):
        return Refusal(Filtered())
    return Refusal(GatewayFailed(), again=status >= 500, complaint=words if status in _ABOUT_A_FORM else "")


def failure_in_stream(error: Any) -> Refusal:
    """What an error object inside a 200 answer means: a failure that may pass, unless it says otherwise (bug case
    12).
    """
    words = _words(json.dumps(error, ensure_ascii=False))
    if _CONTEXT_FULL.search(words):
        return Refusal(ContextFull())
    if _FILTERED.search(words):
        return Refusal(Filtered())
    if _USED_UP.search(words):
        return Refusal(AllowanceUsedUp())
    return Refusal(GatewayFailed(), again=_code(error) not in (400, 401, 403, 404, 422))


def looks_like_html(text: str) -> bool:
    return re.match(r"\s*<(?:!doctype|html|head|body|title|h1|center|\?xml)", text, re.IGNORECASE) is not None


def _code(error: Any) -> int | None:
    code = str(error.get("code", error.get("status")) if isinstance(error, Mapping) else None)
    return int(code) if code.isdecimal() and code.isascii() else None


def _words(text: str) -> str:
    return text[:20_000].lower()
