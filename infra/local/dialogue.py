"""One person and one conversation: says things, shows what comes back, and asks before what needs a yes."""

import contextlib
from collections.abc import Mapping
from typing import Any

from infra.local.api_client import Api, ApiError, Decision
from infra.local.gate import Gate
from infra.local.question import Read
from infra.local.screen import Screen
from infra.local.terminal_text import printable
from infra.local.watcher import Watcher

MESSAGES_SHOWN = 4
BUSY = "The message was not sent: wait for its end, or stop it with deckhand turns --stop {}."


class Dialogue:
    """`conversation` is made with the first message when it is None. `read` is None where nobody can be asked."""

    def __init__(self, api: Api, conversation: str | None = None, read: Read | None = None) -> None:
        self._api, self._watcher = api, Watcher(api)
        self._gate = Gate(api, self._watcher, read)
        self.conversation = conversation

    @property
    def waits(self) -> bool:
        """Whether what was shown last waits for a yes."""
        return self._gate.waits

    def say(self, text: str) -> Screen:
        """Sends a message and shows the turn, asking what it waits for. Raises ApiError when there is none."""
        # What the terminal sent need not be UTF-8.
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        made = None
        if self.conversation is None:
            made = self.conversation = str(self._api.call("POST", "/api/conversations", {})["conversation"]["id"])
        try:
            screen = self._watcher.show(self.conversation, self._api.turn(self.conversation, text))
        except ApiError as refused:
            if made and refused.status:
                # The turn never was: an empty conversation would push an old one out in the end.
                self.conversation = None
                with contextlib.suppress(ApiError):
                    self._api.call("DELETE", f"/api/conversations/{made}")
            if refused.code == "turn_running" and self.conversation:
                raise ApiError(f"{refused} {BUSY.format(self.conversation)}", refused.code, refused.status) from None
            raise
        return self._gate.settle(self.conversation, screen)

    def waiting(self) -> None:
        """Asks about all that waits in the conversation."""
        conversation = self._open()
        if not (found := self._api.proposals(conversation)):
            print("Nothing waits for a yes.")
        self._gate.ask_again(conversation, found)

    def decide(self, proposal: str, verdict: Decision, more: Mapping[str, Any]) -> Screen:
        """Confirms or rejects one by its id. Raises ApiError."""
        return self._gate.decide(proposal, verdict, more)

    def resume(self) -> None:
        """Shows what was said last, and the turn that answers it now; then asks about what waits."""
        conversation = self._open()
        told = self._watcher.read(conversation)
        print(f"— {printable(told['title'] or 'untitled')} —")
        for message in told["messages"][-MESSAGES_SHOWN:]:
            print(f"{'> ' if message['role'] == 'user' else ''}{printable(message['content'])}")
        if told["messages"] and told["messages"][-1]["role"] == "user":
            self._watcher.show(conversation, self._api.reattach(conversation))
        self._gate.ask_again(conversation, self._api.proposals(conversation))

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

    def _open(self) -> str:
        if self.conversation is None:
            raise ApiError("There is no conversation yet.", "no_conversation")
        return self.conversation
