"""A turn as a person sees it, event by event."""

import json
import os
import shutil
from typing import Any, TextIO

from deckhand.agent.wording import is_ours
from infra.local.sse_client import Message
from infra.local.terminal_text import fitting, one_line, printable, rows

ELSEWHERE = "the conversation went on elsewhere (--continue shows it)"
DIM, PLAIN = "\x1b[2m", "\x1b[0m"


class Screen:
    """Shows one turn. On a terminal as it happens; elsewhere `out` gets the answer only, when it is known.

    `ended` is set by the turn's own last word, `failed` and `stopped` say which it was; a reply that broke off, or that
    only tells why there is none, has failed too. `waiting` are the proposals
    that the turn waits for, `still` the ids of those that a decision left open.
    """

    def __init__(self, out: TextIO, errors: TextIO) -> None:
        self._out, self._errors = out, errors
        self._live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._text = ""
        self._status = False
        self.ended = self.failed = self.stopped = False
        self.waiting: list[dict[str, Any]] = []
        self.still: list[str] = []

    def show(self, message: Message) -> None:
        handler = getattr(self, f"_on_{message.event}", None)
        if handler is not None:
            handler(message.data)
            self._out.flush()

    def leave(self) -> None:
        """Ends the line where a turn is left before its end."""
        if not self.ended:
            self._finish()
            self._out.flush()

    def _on_status(self, data: dict[str, Any]) -> None:
        if not self._live or self._text:
            return
        self._clear_status()
        what = str(data.get("label") or data.get("tool") or data.get("phase") or "")
        card = f" ({data['id']})" if data.get("id") else ""
        line = fitting(printable(f"{what}{card} …"), self._size().columns - 1)
        self._out.write(f"{DIM}{line}{PLAIN}")
        self._status = True

    def _on_token(self, data: dict[str, Any]) -> None:
        self._add(self._shown(data.get("text")))

    def _on_reset(self, _: dict[str, Any]) -> None:
        """What was shown preceded tool calls and was not the answer."""
        self._drop()

    def _on_reply(self, data: dict[str, Any]) -> None:
        self.ended = True
        reply = self._shown(data.get("reply"))
        if not reply.startswith(self._text):
            self._drop()
        self._add(reply[len(self._text) :])
        self.waiting = list(data.get("proposals") or [])
        # A notice that stands in an answer's place is none, and neither is one that broke off.
        self.failed = bool(data.get("interrupted") or data.get("filtered")) or is_ours(str(data.get("reply") or ""))
        self._finish()

    def _on_decided(self, data: dict[str, Any]) -> None:
        """A decision after which no turn goes on."""
        self.ended = True
        self._clear_status()
        self.still = list(data.get("open") or [])
        if "result" in data:
            self._add(self._shown(json.dumps(data["result"], ensure_ascii=False)))
            self._finish()
        elif not self.still:
            goes_on = "a newer turn is at work, and the next answer takes this up" if "turnId" in data else ELSEWHERE
            self._note(f"Decided; {goes_on}.")

    def _on_stopped(self, _: dict[str, Any]) -> None:
        self.ended = self.stopped = True
        self._finish()
        self._note("(stopped)")

    def _on_error(self, data: dict[str, Any]) -> None:
        self.ended = self.failed = True
        self._finish()
        self._note(str(data.get("error") or "The turn failed."))

    def _shown(self, text: object) -> str:
        return printable(str(text or "")) if self._live else str(text or "")

    def _add(self, text: str) -> None:
        self._clear_status()
        self._text += text
        if self._live:
            self._out.write(text)

    def _drop(self) -> None:
        """Takes back what is shown; rows that left the screen at the top can't be, so a line says what they were."""
        size, used = self._size(), rows(self._text, self._size().columns)
        if self._live and self._text:
            if used <= size.lines:
                self._out.write("\r" + (f"\x1b[{used - 1}A" if used > 1 else "") + "\x1b[J")
            else:
                self._out.write(f"\n{DIM}(not the answer yet){PLAIN}\n")
        self._text = ""

    def _finish(self) -> None:
        self._clear_status()
        if self._text and not self._live:
            self._out.write(self._text)
        if self._text and not self._text.endswith("\n"):
            self._out.write("\n")
        self._text = ""

    def _note(self, sentence: str) -> None:
        self._out.flush()
        self._errors.write(one_line(sentence) + "\n")
        self._errors.flush()

    def _clear_status(self) -> None:
        if self._status:
            self._out.write("\r\x1b[K")
            self._status = False

    @staticmethod
    def _size() -> os.terminal_size:
        return shutil.get_terminal_size()
