"""A deployment in this process with a scripted model: its chat and conversation routes over events of API Gateway."""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from unittest.mock import patch

from deckhand import bootstrap
from deckhand.bootstrap import Parts
from deckhand.domain.principal import Principal
from deckhand.edge.app import App
from deckhand.edge.live import EventLoopThread
from deckhand.edge.request import Request as EdgeRequest
from deckhand.settings import read_settings
from deckhand.storage.port import ItemStore
from infra.local.events import Request, proxy_event
from tests.answers import check_answer, declared_path
from tests.fakes import PATIENCE_S, FakeGateway, FakeQueue, Script
from tests.front_door import Frame, Stream

MOMENT = datetime(2026, 4, 20, tzinfo=UTC)
ANN = Principal(kind="user", id="ann", user="ann", role="owner")
BOB = Principal(kind="user", id="bob", user="bob", role="owner")
EVE = Principal(kind="user", id="eve", user="eve", role="editor")
VIC = Principal(kind="user", id="vic", user="vic", role="viewer")
PEOPLE = (ANN, BOB, EVE, VIC)


@dataclass(frozen=True)
class Answer:
    """`headers` have lower-case names; `content` is a text, or an iterator when the answer streams."""

    status: int
    headers: Mapping[str, str]
    content: str | Iterable[bytes]

    @property
    def body(self) -> Any:
        assert isinstance(self.content, str)
        return json.loads(self.content)

    @property
    def refusal(self) -> tuple[int, str]:
        """Status and code of an error."""
        assert self.headers["content-type"].startswith("application/json")
        assert isinstance(self.body["error"], str)
        return self.status, self.body["code"]

    @property
    def stream(self) -> Stream:
        assert not isinstance(self.content, str)
        return Stream(iter(self.content))

    @property
    def frames(self) -> list[Frame]:
        return list(self.stream)


async def others() -> None:
    """Waits for all that the loop still does."""
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)


class Api:
    """`gateway` None: none is configured. The bearer tokens `bob`, `eve` (an editor) and `vic` (a viewer) are other
    people's; `ann` is the default.
    """

    def __init__(self, store: ItemStore, *scripts: Script, configured: bool = True, **settings: str) -> None:
        environment = {
            "AGENT_API_TOKEN": "agent",
            "DECKHAND_REPORTS": "/nonexistent",
            # For the quick pace that goes with it; the store is given.
            "DECKHAND_SQLITE": "unused",
            **({"CHAT_ENDPOINT_URL": "http://gateway.invalid/v1"} if configured else {}),
            **settings,
        }
        self.parts = Parts(read_settings(environment), store=store)
        self.gateway = FakeGateway(*scripts)
        self.queue = FakeQueue()
        self.context: Any = None
        """The platform's, of the calls that follow."""
        known: Callable[[EdgeRequest], Principal] = self.parts.authenticate
        self.people = {f"Bearer {person.id}": person for person in PEOPLE}
        self.parts.__dict__.update(
            gateway=self.gateway if configured else None,
            jobs=self.queue,
            authenticate=lambda request: self.people.get(request.headers.get("authorization", "")) or known(request),
        )
        self._thread = EventLoopThread()
        with patch.object(bootstrap, "EventLoopThread", return_value=self._thread):
            self._chat = self.parts.chat_app()
        self._conversations = self.parts.conversations_app()

    # Few tests need these two.

    @cached_property
    def _identity(self) -> App:
        return self.parts.identity_app()

    @cached_property
    def _manifests(self) -> App:
        return self.parts.manifests_app()

    def close(self) -> None:
        """Waits for the turns, ends the thread that runs them, and fails on scripts that were not used."""
        loop = self._thread._loop
        if loop is not None:
            self._thread.submit(others()).result(PATIENCE_S)
            loop.call_soon_threadsafe(loop.stop)
            while loop.is_running():
                time.sleep(0.001)
            loop.close()
        self.gateway.verify()

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        token: str | None = "ann",  # noqa: S107
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """`body` is sent as JSON, `raw` as it is."""
        url, _, query = path.partition("?")
        request = Request(
            method=method,
            path=url,
            resource=url,
            headers=[*([("Authorization", f"Bearer {token}")] if token is not None else []), *(headers or {}).items()],
            query=[(name, value) for name, _, value in (part.partition("=") for part in query.split("&") if part)],
            body=raw if raw is not None else b"" if body is None else json.dumps(body).encode(),
        )
        event = proxy_event(request, request_id="request-1", now=MOMENT)
        answer = self._app(url)(event, self.context)
        found = {name.lower(): values[0] for name, values in answer["multiValueHeaders"].items()}
        check_answer(method, url, answer["statusCode"], answer["body"])
        return Answer(answer["statusCode"], found, answer["body"])

    def _app(self, url: str) -> App:
        path = declared_path(url)
        apps = (self._chat, self._manifests, self._identity)
        return next((app for app in apps if path in app.paths), self._conversations)

    def conversation(self, **given: Any) -> str:
        made: str = self("POST", "/api/conversations", given).body["conversation"]["id"]
        return made

    def chat(
        self, conversation: str | None, *texts: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> Answer:
        body = {"messages": [{"role": "user", "content": text} for text in texts], **more}
        if conversation is not None:
            body["conversationId"] = conversation
        return self("POST", "/api/chat", body, headers=headers)

    def shown(self, conversation: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self("GET", f"/api/conversations/{conversation}").body["conversation"]["messages"]
        return found

    def texts(self, conversation: str) -> list[str]:
        return [message["content"] for message in self.shown(conversation)]


Deploy = Callable[..., Api]
"""Makes a deployment on the test's store; closed at its end."""
