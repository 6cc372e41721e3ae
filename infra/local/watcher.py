"""Follows turns on the screen, and stops them on Ctrl-C."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from infra.local.api_client import Api, ApiError
from infra.local.screen import Screen
from infra.local.sse_client import Message

STOP_AGAIN_SECONDS = 0.2


class Watcher:
    """Shows turns of one server."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def show(self, conversation: str, events: Iterator[Message]) -> Screen:
        """To the end of the turn, whatever is left of it. Raises ApiError."""
        screen = Screen(sys.stdout, sys.stderr)
        try:
            with self._stopping(conversation):
                for message in events:
                    screen.show(message)
                if not screen.ended:
                    screen.show(self._as_stored(conversation))
        finally:
            screen.leave()
        return screen

    def read(self, conversation: str) -> dict[str, Any]:
        told: dict[str, Any] = self._api.call("GET", f"/api/conversations/{quote(conversation, safe='')}")[
            "conversation"
        ]
        return told

    def _as_stored(self, conversation: str) -> Message:
        """The end of a turn that can no longer be replayed."""
        messages = self.read(conversation)["messages"]
        last = messages[-1] if messages else {"role": "user"}
        if last["role"] != "user":
            return Message(None, "reply", {"reply": last["content"], "interrupted": last.get("interrupted", False)})
        if waiting := self._api.proposals(conversation):
            return Message(None, "reply", {"reply": "This needs your yes before it is done.", "proposals": waiting})
        return Message(None, "error", {"error": "This message got no answer."})

    @contextlib.contextmanager
    def _stopping(self, conversation: str) -> Iterator[None]:
        """The first Ctrl-C stops the turn and goes on listening for its last words; a second one leaves."""
        pressed, over = threading.Event(), threading.Event()

        def on_interrupt(*_: Any) -> None:
            if pressed.is_set():
                raise KeyboardInterrupt
            pressed.set()
            threading.Thread(target=self._stop, args=(conversation, over), daemon=True).start()

        before = signal.signal(signal.SIGINT, on_interrupt)
        try:
            yield
        finally:
            over.set()
            signal.signal(signal.SIGINT, before)

    def _stop(self, conversation: str, over: threading.Event) -> None:
        """Until it is accepted: the turn may not have begun yet, or the connection may be down."""
        while not over.is_set():
            with contextlib.suppress(ApiError):
                if self._api.stop(conversation):
                    return
            over.wait(STOP_AGAIN_SECONDS)
