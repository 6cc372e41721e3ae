"""A deployment in this process that is asked by its direct form of chat."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from deckhand import bootstrap
from deckhand.agent.chat import Answer, StepRequest, TextDelta
from deckhand.agent.gateway import HttpGateway
from deckhand.bootstrap import Parts
from deckhand.domain.conversation import Header
from deckhand.edge.app import App
from deckhand.edge.direct import SERVICE
from deckhand.edge.live import EventLoopThread
from deckhand.settings import read_settings
from deckhand.turns.chat import TurnWish
from deckhand.turns.start import NewTurn, owner_of

PATIENCE_S = 30
TOKEN = {"X-Chat-Token": "secret"}


class Gateway:
    """Answers with the number of messages it got; `gate` holds it up, `failure` is raised instead."""

    def __init__(self) -> None:
        self.requests: list[StepRequest] = []
        self.failure: Exception | None = None
        self.gate: threading.Event | None = None
        self.model: str | None = "served"

    async def stream(self, request: StepRequest) -> AsyncIterator[TextDelta | Answer]:
        self.requests.append(request)
        if self.gate is not None:
            await asyncio.to_thread(self.gate.wait, 10)
        if self.failure is not None:
            raise self.failure
        text = f"{len(request.messages)} messages"
        yield TextDelta(text)
        yield Answer(text=text, finish="stop", model=self.model)


class Direct:
    """A deployment and its gateway: a scripted one in this process, unless `real` says that the one of the settings
    is to be asked over HTTP. Several on one folder are processes that share a store.
    """

    def __init__(self, folder: Path, *, real: bool = False, **settings: str) -> None:
        environment = {
            "AGENT_API_TOKEN": "agent",
            "CHAT_ENDPOINT_URL": "http://gateway.invalid/v1",
            "DECKHAND_SQLITE": str(folder / "deckhand.sqlite3"),
            "DECKHAND_REPORTS": str(folder / "reports"),
            "CHAT_API_TOKEN": "secret",
            **settings,
        }
        self.parts = Parts(read_settings(environment))
        self.gateway = Gateway()
        if not real:
            self.parts.__dict__["gateway"] = self.gateway
        self._thread = EventLoopThread()
        with patch.object(bootstrap, "EventLoopThread", return_value=self._thread):
            self.app: App = self.parts.chat_app()

    def close(self) -> None:
        """Waits for the turns, closes the connections to a real gateway, and ends the thread that ran them."""
        loop = self._thread._loop
        if loop is not None:
            self._thread.submit(self._finish()).result(PATIENCE_S)
            loop.call_soon_threadsafe(loop.stop)
            wait_until(lambda: not loop.is_running())
            loop.close()

    async def _finish(self) -> None:
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
        gateway = self.parts.gateway
        if isinstance(gateway, HttpGateway):
            await gateway.aclose()

    def post(self, body: Any, headers: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        raw = body if isinstance(body, str) else json.dumps(body)
        event = {
            "httpMethod": "POST",
            "path": "/api/chat",
            "headers": TOKEN if headers is None else headers,
            "body": raw,
            "requestContext": {"requestId": "r"},
        }
        answer = self.app(event, None)
        return answer["statusCode"], json.loads(answer["body"])

    def sessions(self) -> list[Header]:
        """The service's stored conversations, newest activity first."""
        return [stored.header for stored in self.parts.turns.conversations.headers(owner_of(SERVICE))]

    def start_and_die(self, session: str) -> None:
        """A chat of the session that was begun and is not going on: its lease runs."""
        self.post({"message": "before", "sessionId": session})
        [header] = self.sessions()
        chats = self.parts.chats
        assert chats is not None
        chats.start(NewTurn(SERVICE, header.id, ["begun"]), TurnWish(messages=[("user", "begun")]))

    def hold(self, session: str) -> Callable[[], None]:
        """A chat that is in flight until what is returned is called."""
        gate = self.gateway.gate = threading.Event()
        before = len(self.gateway.requests)
        thread = threading.Thread(target=self.post, args=({"message": "hold", "sessionId": session},))
        thread.start()
        wait_until(lambda: len(self.gateway.requests) > before)
        self.gateway.gate = None

        def let_go() -> None:
            gate.set()
            thread.join()

        return let_go


def wait_until(state: Callable[[], bool]) -> None:
    for _ in range(PATIENCE_S * 200):
        if state():
            return
        threading.Event().wait(0.005)
    raise AssertionError("the state never came")
