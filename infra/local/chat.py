"""`deckhand chat`: a conversation in the terminal."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from infra.local.api_client import Api, ApiError
from infra.local.sse_client import Message

HELP = "/new starts a conversation, /list shows all, /open N opens one, /quit leaves. Ctrl-C stops an answer."


def find_token(given: str | None, data: Path) -> str:
    """From the command line, the environment, or the laptop stack's folder. Raises ApiError."""
    for value in (given, os.environ.get("DECKHAND_TOKEN"), os.environ.get("AGENT_API_TOKEN")):
        if value:
            return value
    try:
        return (data / "token").read_text(encoding="ascii").strip()
    except OSError:
        raise ApiError("No token: give --token, set DECKHAND_TOKEN, or start the stack once.", "no_token") from None


class Screen:
    """Shows a turn. On a terminal as it happens; elsewhere only the answer, when it is known."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._live = out.isatty()
        self._shown = ""
        self._status = False
        self.failed = False

    def show(self, message: Message) -> None:
        handler = getattr(self, f"_on_{message.event}", None)
        if handler is not None:
            handler(message.data)
            self._out.flush()

    def _on_status(self, data: dict[str, Any]) -> None:
        if self._live:
            self._clear_status()
            what = data.get("label") or data.get("tool") or "thinking"
            card = f" ({data['id']})" if data.get("id") else ""
            self._out.write(f"\x1b[2m{what}{card} …\x1b[0m")
            self._status = True

    def _on_token(self, data: dict[str, Any]) -> None:
        if self._live:
            self._clear_status()
            self._out.write(data["text"])
        self._shown += data["text"]

    def _on_reset(self, _: dict[str, Any]) -> None:
        """What was shown preceded tool calls and was not the answer: a new line begins instead of it."""
        if self._live and self._shown:
            self._clear_status()
            self._out.write("\n")
        self._shown = ""

    def _on_reply(self, data: dict[str, Any]) -> None:
        self._clear_status()
        reply = str(data["reply"])
        if not self._live or not self._shown:
            self._out.write(reply)
        elif reply.startswith(self._shown):
            self._out.write(reply[len(self._shown) :])
        self._out.write("\n")

    def _on_stopped(self, _: dict[str, Any]) -> None:
        self._clear_status()
        self._out.write("\n(stopped)\n" if self._live else f"{self._shown}\n(stopped)\n")

    def _on_error(self, data: dict[str, Any]) -> None:
        self._clear_status()
        self.failed = True
        self._out.write(f"\n{data['error']}\n" if self._shown and self._live else f"{data['error']}\n")

    def _clear_status(self) -> None:
        if self._status:
            self._out.write("\r\x1b[K")
            self._status = False


class Chat:
    """One person at one terminal. `conversation` is made with the first message."""

    def __init__(self, api: Api, conversation: str | None = None) -> None:
        self._api = api
        self.conversation = conversation

    def say(self, text: str) -> bool:
        """Sends a message and shows the turn. False when it failed."""
        if self.conversation is None:
            self.conversation = self._api.call("POST", "/api/conversations", {})["conversation"]["id"]
        return self._show(self._api.turn(self.conversation, text))

    def resume(self) -> None:
        """Shows what the conversation last said, or the turn that runs in it."""
        if self.conversation is None:
            return
        told = self._api.call("GET", f"/api/conversations/{self.conversation}")["conversation"]
        print(f"— {told['title'] or 'untitled'} —")
        running = {turn["conversationId"] for turn in self._api.call("GET", "/api/chat/turns")["turns"]}
        for message in told["messages"][-4:]:
            print(f"{'> ' if message['role'] == 'user' else ''}{message['content']}")
        if self.conversation in running:
            self._show(self._api.reattach(self.conversation))

    def show_all(self) -> None:
        for number, found in enumerate(self._conversations(), start=1):
            print(f"{number:3} {found['title'] or 'untitled'} ({found['messageCount']} messages)")

    def open(self, number: str) -> None:
        found = self._conversations()
        if not number.isdigit() or not 1 <= int(number) <= len(found):
            print(f"There are {len(found)} conversations; /list shows them.")
            return
        self.conversation = found[int(number) - 1]["id"]
        self.resume()

    def newest(self) -> str | None:
        found = self._conversations()
        return found[0]["id"] if found else None

    def _conversations(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._api.call("GET", "/api/conversations")["conversations"]
        return found

    def _show(self, events: Iterator[Message]) -> bool:
        screen = Screen(sys.stdout)
        with self._stopping():
            for message in events:
                screen.show(message)
        return not screen.failed

    @contextlib.contextmanager
    def _stopping(self) -> Iterator[None]:
        """The first Ctrl-C stops the turn and goes on listening for its last words; a second one leaves."""
        pressed = threading.Event()

        def on_interrupt(*_: Any) -> None:
            if pressed.is_set() or self.conversation is None:
                raise KeyboardInterrupt
            pressed.set()
            threading.Thread(target=self._stop, daemon=True).start()

        before = signal.signal(signal.SIGINT, on_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _stop(self) -> None:
        with contextlib.suppress(ApiError):
            other = Api(self._api.url, self._api.token)
            other.stop(str(self.conversation))


def converse(chat: Chat) -> None:
    """Reads lines until the end of input or /quit."""
    if sys.stdin.isatty():
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - line editing and history for input()
        print(HELP)
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if line == "/quit":
            return
        try:
            _obey(chat, line)
        except ApiError as failed:
            print(failed)


def _obey(chat: Chat, line: str) -> None:
    command, _, rest = line.partition(" ")
    if command == "/new":
        chat.conversation = None
    elif command == "/list":
        chat.show_all()
    elif command == "/open":
        chat.open(rest.strip())
    elif command.startswith("/"):
        print(HELP)
    elif line:
        chat.say(line)
