"""What a reminder says on a phone: one notification for all that is due in a minute, as JSON that is also valid in
the declarative form (Push API, "declarative push message"), so that it shows with and without a service worker.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from deckhand.domain.open_plan import Left
from deckhand.domain.reminder_blanks import filled

PAYLOAD_BYTES = 3_993
"""The most that a push service must take is 4,096 bytes encrypted (RFC 8291, section 4): 86 of them are the header,
17 the delimiter and the tag (bug case 62)."""
DECLARATIVE = 8030
GENERIC_TITLE = "Deckhand"
GENERIC_BODY = "You have a reminder."
MAX_NAMED = 10


@dataclass(frozen=True, slots=True)
class Notice:
    """One reminder that is due. `reminder` is `card#item`; of a `private` one nothing is shown."""

    reminder: str
    title: str
    body: str
    private: bool
    opens: str = ""
    intent: str = ""

    @classmethod
    def of(
        cls, reminder: str, item: Mapping[str, Any], privacy: str | None = None, left: Left | None = None
    ) -> "Notice":
        """From a card's reminder item. `privacy` is the person's own choice, which goes before the card's; `left` is
        what its plan has left to do.
        """
        action = item.get("action") or {}
        return cls(
            reminder=reminder,
            title=filled(item["title"], left or Left()) or GENERIC_TITLE,
            body=filled(item["body"], left or Left()),
            private=(privacy or item.get("privacy", "private")) != "public",
            opens=action.get("card") or reminder.partition("#")[0],
            intent=action.get("intent") or "",
        )


def topic(user: str, reminders: Sequence[str]) -> str:
    """Names what is reminded of, in 32 url-safe characters that tell nobody else: a push service keeps only the
    newest message of a topic, and a device only the newest notification (RFC 8030, section 5.4).
    """
    digest = hashlib.sha256("\n".join([user, *sorted(reminders)]).encode()).digest()
    return base64.urlsafe_b64encode(digest[:24]).decode()


def message(notices: Sequence[Notice], *, tag: str, due: str, late: bool, origin: str = "") -> dict[str, Any]:
    """`due` is the instant in ISO 8601; `origin` is the web app's, where it has one."""
    title, body = _single(notices[0]) if len(notices) == 1 else _several(notices)
    return {
        "web_push": DECLARATIVE,
        "notification": {
            "title": f"Late: {title}" if late else title,
            "body": body,
            "navigate": origin + _address(notices),
            "tag": tag,
            "data": {"due": due, "late": late, "reminders": [one.reminder for one in notices[:MAX_NAMED]]},
        },
    }


def payload(content: Mapping[str, Any], *, limit: int = PAYLOAD_BYTES) -> bytes:
    """The message as UTF-8, at most `limit` bytes: its texts are cut on a character, the body first."""
    note = {**content["notification"]}
    for name in ("body", "title"):
        text = note[name]
        if len(_encoded(content, note)) > limit:
            note[name] = _longest(text, lambda cut, name=name: len(_encoded(content, {**note, name: cut})) <= limit)
    return _encoded(content, note)


def shorter(content: Mapping[str, Any]) -> bytes:
    """The message in at most half the bytes, for a push service that found it too large; the title stays."""
    bare = {**content, "notification": {**content["notification"], "data": {}}}
    without_body = {**bare, "notification": {**bare["notification"], "body": ""}}
    return payload(bare, limit=max(len(payload(content)) // 2, len(payload(without_body))))


def _single(notice: Notice) -> tuple[str, str]:
    return (GENERIC_TITLE, GENERIC_BODY) if notice.private else (notice.title, notice.body)


def _several(notices: Sequence[Notice]) -> tuple[str, str]:
    shown = [one.title for one in notices if not one.private]
    hidden = len(notices) - len(shown)
    if not shown:
        return f"{len(notices)} reminders", "Open Deckhand to see them."
    return f"{len(notices)} reminders", " · ".join([*shown, *([f"{hidden} more"] if hidden else [])])


def _address(notices: Sequence[Notice]) -> str:
    cards = {(one.opens, one.intent) for one in notices}
    if len(cards) > 1:
        return "/"
    ((card, intent),) = cards
    return f"/?card={quote(card, safe='')}" + (f"&action={quote(intent, safe='')}" if intent else "")


def _encoded(content: Mapping[str, Any], note: Mapping[str, Any]) -> bytes:
    return json.dumps({**content, "notification": note}, ensure_ascii=False, separators=(",", ":")).encode()


def _longest(text: str, fits: Any) -> str:
    """The longest beginning that fits, by halving; with an ellipsis where there is room for one."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(text[:middle] + "…") else (low, middle - 1)
    return text[:low] + "…" if fits(text[:low] + "…") else ""
