"""A deployment in this process: its chat and conversation routes and its queue worker, on a SQLite file."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from deckhand import bootstrap
from deckhand.agent.gateway import HttpGateway
from deckhand.bootstrap import Parts
from deckhand.edge.app import App
from deckhand.edge.live import EventLoopThread
from deckhand.settings import read_settings
from deckhand.storage.sqlite import SqliteStore
from tests.answers import check_answer, check_event


@dataclass(frozen=True)
class Frame:
    """One server-sent event."""

    name: str
    data: dict[str, Any]
    id: int | None = None


@dataclass
class Stream:
    """A streamed answer that is read as the test wants it."""

    chunks: Iterator[bytes]
    rest: str = ""
    waiting: list[Frame] = field(default_factory=list)

    def __iter__(self) -> Iterator[Frame]:
        return self

    def __next__(self) -> Frame:
        while not self.waiting:
            self.rest += next(self.chunks).decode()
            *whole, self.rest = self.rest.split("\n\n")
            self.waiting += [frame for frame in map(parsed, whole) if frame is not None]
        frame = self.waiting.pop(0)
        check_event(frame.name, frame.data)
        return frame

    def until(self, name: str) -> Frame:
        return next(frame for frame in self if frame.name == name)

    def names(self) -> list[str]:
        return [frame.name for frame in self]


def parsed(text: str) -> Frame | None:
    """None for a comment."""
    fields = dict(line.split(": ", 1) for line in text.split("\n") if not line.startswith(":"))
    if "event" not in fields:
        return None
    return Frame(fields["event"], json.loads(fields["data"]), int(fields["id"]) if "id" in fields else None)


class FrontDoor:
    """`gateway`, when given, stands in for the one that is asked over HTTP."""

    def __init__(self, folder: Path, url: str = "http://gateway.invalid/v1", gateway: Any = None) -> None:
        environment = {
            "AGENT_API_TOKEN": "agent",
            "CHAT_ENDPOINT_URL": url,
            "CHAT_MODEL": "m",
            "CHAT_PROMPT_CACHE": "0",
            "DECKHAND_SQLITE": str(folder / "deckhand.sqlite3"),
            "DECKHAND_REPORTS": str(folder / "reports"),
        }
        self.parts = Parts(read_settings(environment))
        if gateway is not None:
            self.parts.__dict__["gateway"] = gateway
        self._thread = EventLoopThread()
        with patch.object(bootstrap, "EventLoopThread", return_value=self._thread):
            self._chat: App = self.parts.chat_app()
            self.worker = self.parts.job_worker()
        self._conversations: App = self.parts.conversations_app()

    def close(self) -> None:
        """Ends the connections to the gateway and the thread that runs turns."""

        async def end() -> None:
            if isinstance(self.parts.gateway, HttpGateway):
                await self.parts.gateway.aclose()

        self._thread.submit(end()).result(60)
        loop = self._thread._loop
        assert loop is not None
        loop.call_soon_threadsafe(loop.stop)
        while loop.is_running():
            time.sleep(0.001)
        loop.close()
        if isinstance(self.parts.store, SqliteStore):
            self.parts.store.close()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and body: JSON, None where there is none, or a `Stream`."""
        url, _, query = path.partition("?")
        event = {
            "httpMethod": method,
            "path": url,
            "headers": {"Authorization": "Bearer agent", **{name.replace("_", "-"): v for name, v in headers.items()}},
            "queryStringParameters": dict(part.split("=") for part in query.split("&")) if query else None,
            "body": body if body is None or isinstance(body, str) else json.dumps(body),
            "requestContext": {"requestId": "r"},
        }
        chat = url.startswith("/api/chat") and url != "/api/chat/history"
        answer = (self._chat if chat else self._conversations)(event, None)
        given = answer.get("body")
        check_answer(method, url, answer["statusCode"], given)
        if not given or isinstance(given, str):
            return answer["statusCode"], json.loads(given) if given else None
        return answer["statusCode"], Stream(iter(given))

    def conversation(self) -> str:
        _, body = self.ask("POST", "/api/conversations", {})
        made: str = body["conversation"]["id"]
        return made

    def chat(self, conversation: str, text: str, *, stream: bool = False, key: str | None = None, **more: Any) -> Any:
        body = {"conversationId": conversation, "messages": [{"role": "user", "content": text}], **more}
        headers = {} if key is None else {"Idempotency_Key": key}
        return self.ask("POST", "/api/chat", {**body, **({"stream": True} if stream else {})}, **headers)

    def messages(self, conversation: str) -> list[dict[str, Any]]:
        _, body = self.ask("GET", f"/api/conversations/{conversation}")
        found: list[dict[str, Any]] = body["conversation"]["messages"]
        return found
