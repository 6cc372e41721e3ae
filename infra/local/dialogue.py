"""One person and one conversation: says things, shows what comes back, stops it."""

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
from infra.local.terminal_text import printable

STOP_AGAIN_SECONDS = 0.2
MESSAGES_SHOWN = 4


class Dialogue:
    """`conversation` is made with the first message when it is None."""

    def __init__(self, api: Api, conversation: str | None = None) -> None:
        self._api = api
        self.conversation = conversation

    def say(self, text: str) -> Screen:
        """Sends a message and shows the turn. Raises ApiError when there is none."""
        # What the terminal sent need not be UTF-8.
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        made = None
        if self.conversation is None:
            made = self.conversation = str(self._api.call("POST", "/api/conversations", {})["conversation"]["id"])
        try:
            return self._show(self.conversation, self._api.turn(self.conversation, text))
        except ApiError as refused:
            if made and refused.status:
                # The turn never was: an empty conversation would push an old one out in the end.
                self.conversation = None
                with contextlib.suppress(ApiError):
                    self._api.call("DELETE", f"/api/conversations/{made}")
            raise

    def resume(self) -> None:
        """Shows what was said last, and the turn that answers it now."""
        if self.conversation is None:
            raise ApiError("There is no conversation yet.", "no_conversation")
        told = self._read(self.conversation)
        print(f"— {printable(told['title'] or 'untitled')} —")
        for message in told["messages"][-MESSAGES_SHOWN:]:
            print(f"{'> ' if message['role'] == 'user' else ''}{printable(message['content'])}")
        if told["messages"] and told["messages"][-1]["role"] == "user":
            self._show(self.conversation, self._api.reattach(self.conversation))

    def show_all(self) -> None:
        for number, found in enumerate(self._all(), start=1):
            here = "*" if found["id"] == self.conversation else " "
            print(f"{number:3}{here} {printable(found['title'] or 'untitled')} ({found['messageCount']} messages)")

    def open(self, number: str) -> None:
        """The conversation at a place of the list."""
        found = self._all()
        if not (number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= len(found)):
            raise ApiError(f"There are {len(found)} conversations; /list shows them.", "no_conversation")
        self.conversation = str(found[int(number) - 1]["id"])
        self.resume()

    def open_newest(self) -> None:
        found = self._all()
        self.conversation = str(found[0]["id"]) if found else None

    def _all(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._api.call("GET", "/api/conversations")["conversations"]
        return found

    def _read(self, conversation: str) -> dict[str, Any]:
        told: dict[str, Any] = self._api.call("GET", f"/api/conversations/{quote(conversation, safe='')}")[
            "conversation"
        ]
        return told

    def _show(self, conversation: str, events: Iterator[Message]) -> Screen:
        screen = Screen(sys.stdout, sys.stderr)
        try:
            with self._stopping(conversation):
                for message in events:
                    screen.show(message)
                if not screen.ended:
                    screen.show(_as_stored(self._read(conversation)["messages"]))
        finally:
            screen.leave()
        return screen

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


def _as_stored(messages: list[dict[str, Any]]) -> Message:
    """The end of a turn that can no longer be replayed, from its conversation."""
    last = messages[-1] if messages else {"role": "user"}
    if last["role"] == "user":
        return Message(None, "error", {"error": "This message got no answer."})
    return Message(None, "reply", {"reply": last["content"]})
