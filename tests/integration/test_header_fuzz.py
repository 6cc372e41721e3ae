"""Ten thousand credentials that are nearly right, through every door: each is refused, and none breaks anything."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from deckhand.domain.access_token import fingerprint
from deckhand.domain.account import Account, OpenSession
from deckhand.storage.sqlite import SqliteStore
from tests.api import Api
from tests.stores import Clock

NUMBER, SEED = 10_000, 20_261_130
REFUSALS = {401, 403, 503}
AGENT, DIRECT = "agent-token-of-the-environment", "direct-chat-token"
STRANGE = ["\x00", "\r\n", "\ud800", "é", "\u202e", "%00", ";", "=", '"', "\\", ",", " ", "\t", "𝕏", "dk_", "Bearer "]
DOORS = [
    ("GET", "/api/conversations"),
    ("POST", "/api/conversations"),
    ("GET", "/api/chat/status"),
    ("GET", "/api/chat/turns"),
    ("POST", "/api/chat"),
    ("DELETE", "/api/chat/turn/c1"),
    ("POST", "/api/chat/proposals/none.p1/confirm"),
    ("GET", "/api/manifests"),
    ("DELETE", "/api/manifests/weight"),
    ("GET", "/api/tokens"),
    ("POST", "/api/tokens"),
    ("GET", "/api/users"),
    ("GET", "/api/policy"),
    ("GET", "/api/credentials"),
]


@pytest.fixture
def api() -> Iterator[Api]:
    store = SqliteStore(":memory:", now=Clock())
    with closing(Api(store, AGENT_API_TOKEN=AGENT, CHAT_API_TOKEN=DIRECT)) as api:
        yield api
    store.close()


def mutations(dice: random.Random) -> list[Callable[[str], str]]:
    """Ways to spoil a text."""

    def at(text: str) -> int:
        return dice.randrange(len(text) + 1)

    def inserted(text: str) -> str:
        place = at(text)
        return text[:place] + dice.choice(STRANGE) + text[place:]

    def cut(text: str) -> str:
        return text[: at(text)]

    def flipped(text: str) -> str:
        place = dice.randrange(len(text)) if text else 0
        return text[:place] + chr(dice.randrange(1, 0x3FF)) + text[place + 1 :]

    def doubled(text: str) -> str:
        return text + dice.choice(["", " ", ",", ", Bearer "]) + text

    def long(text: str) -> str:
        return text + dice.choice("ax=") * dice.randrange(1, 9_000)

    def swapped(text: str) -> str:
        return text.swapcase()

    def reversed_(text: str) -> str:
        return text[::-1]

    return [inserted, cut, flipped, doubled, long, swapped, reversed_]


def spoilt(text: str, secret: str, dice: random.Random) -> str:
    """A text that does not say the secret any more, wherever the scheme and the blanks around it went."""
    ways = mutations(dice)
    while True:
        result = text
        for _ in range(dice.randrange(1, 4)):
            result = dice.choice(ways)(result)
        said = result.partition(" ")[2].strip() if " " in result else result
        if secret not in (said, result.strip()) and not re.search(rf'\bdeckhand\s*=\s*"*{re.escape(secret)}', result):
            return result


def signed_in(api: Api) -> str:
    """The secret of an owner's session."""
    secret, now = "session-" + "s" * 35, 1_800_000_000.0
    session = OpenSession(hash=fingerprint(secret), created_at=now)
    account = Account(id="owner", name="Olga", role="owner", created_at=now, sessions=(session,))
    api.parts.store.write([api.parts.sessions.opening("main", account, session)], token="session")
    return secret


@pytest.mark.timeout(600)
def test_ten_thousand_spoilt_credentials_open_nothing_and_break_nothing(api: Api) -> None:
    dice, seen = random.Random(SEED), Counter[tuple[str, int]]()  # noqa: S311 - the same every time
    secret = api("POST", "/api/tokens", {"name": "n", "role": "owner"}).body["secret"]
    session = signed_in(api)
    valid: list[tuple[str, str, str]] = [
        ("Authorization", f"Bearer {AGENT}", AGENT),
        ("Authorization", f"Bearer {secret}", secret),
        ("Cookie", f"theme=dark; deckhand={session}; lang=en", session),
        ("Cookie", f"deckhand={session}", session),
        ("X-Chat-Token", DIRECT, DIRECT),
    ]
    for name, text, _ in valid[:-1]:
        assert api("GET", "/api/conversations", token=None, headers={name: text}).status == 200
    for _ in range(NUMBER):
        name, text, known = dice.choice(valid)
        method, path = ("POST", "/api/chat") if name == "X-Chat-Token" else dice.choice(DOORS)
        body: Any = {"message": "hi"} if name == "X-Chat-Token" else {}
        spelled = dice.choice([name, name.lower(), name.upper()])
        value = spoilt(text, known, dice)
        answer = api(method, path, None if method == "GET" else body, token=None, headers={spelled: value})
        assert answer.status in REFUSALS, (name, value[:200], answer.status, answer.content)
        assert known not in str(answer.content)
        seen[name, answer.status] += 1
    assert {name for name, _ in seen} == {"Authorization", "Cookie", "X-Chat-Token"}
    assert not api.gateway.requests, "002-34: no model was asked"
