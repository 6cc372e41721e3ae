"""Assembles a gateway's answer from its bytes. Pure: the same bytes give the same answer however they were split.

Server-sent events, or one JSON object from gateways that ignore `stream: true` (bug case 16); which of the two is told
by the first byte, since content types are often wrong.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from deckhand.agent.call_assembly import CallAssembly
from deckhand.agent.chat import Answer, TextDelta, Usage
from deckhand.agent.deltas import add_opaque, call_fragments, reasoning_texts, visible_texts
from deckhand.agent.frames import Frames, LineTooLong
from deckhand.agent.refusals import TryFailed, cut, failure_in_stream, unreadable
from deckhand.agent.surrogates import SurrogateJoiner, whole
from deckhand.agent.text_calls import looks_like_call
from deckhand.agent.thinking import ThinkingSplitter, without_bare_thinking
from deckhand.agent.usage import read_usage

__all__ = ["AnswerStream", "looks_like_call"]

MAX_JSON_BYTES = 32 * 1024 * 1024
_CUT = {"max_tokens", "max_output_tokens", "max_completion_tokens", "model_length"}


class MessageAssembly:
    """One message from chunks, or from a whole `chat.completion` object: that is one big chunk."""

    def __init__(self) -> None:
        self.finish: str | None = None
        self._usage: Usage | None = None
        self._model: str | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._extra: dict[str, Any] = {}
        self._calls = CallAssembly()
        self._thinking = ThinkingSplitter()
        self._characters = SurrogateJoiner()
        self._streamed = False

    def feed(self, chunk: Mapping[str, Any]) -> Iterator[TextDelta]:
        """The visible text of the chunk. Raises `TryFailed` for an error object (bug case 12)."""
        choices = chunk.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        choice: Mapping[str, Any] = first if isinstance(first, Mapping) else {}
        if error := chunk.get("error") or choice.get("error") or (chunk.get("type") == "error" and chunk):
            raise TryFailed(failure_in_stream(error), cause="error in stream")
        self._model = _word(chunk.get("model")) or self._model
        self._usage = read_usage(chunk.get("usage")) or read_usage(choice.get("usage")) or self._usage
        yield from self._take(self._message(choice))
        self.finish = _finish(choice.get("finish_reason")) or self.finish
        if self.finish == "error":
            raise cut()

    def rest(self) -> Iterator[TextDelta]:
        """Visible text that was held back, at the end."""
        yield from self._show(self._thinking.feed(self._characters.rest()))
        yield from self._show(self._thinking.rest())

    def answer(self, new_id: Callable[[], str]) -> Answer:
        """The whole message; call it after `rest`."""
        text, reasoning = "".join(self._text), whole("".join(self._reasoning))
        if not self._thinking.tagged:
            text, unmarked = without_bare_thinking(text)
            reasoning += unmarked
        calls = self._calls.calls(new_id)
        return Answer(text, reasoning, calls, self.finish, self._usage, self._model, self._extra)

    def _message(self, choice: Mapping[str, Any]) -> Mapping[str, Any]:
        """The delta; a whole message only where no deltas came before it, since it would say all of it again."""
        delta, message = choice.get("delta"), choice.get("message")
        if isinstance(delta, Mapping):
            self._streamed = True
            return delta
        return message if isinstance(message, Mapping) and not self._streamed else {}

    def _take(self, delta: Mapping[str, Any]) -> Iterator[TextDelta]:
        self._reasoning += reasoning_texts(delta)
        add_opaque(self._extra, delta)
        for text in visible_texts(delta):
            yield from self._show(self._thinking.feed(self._characters.feed(text)))
        for fragment in call_fragments(delta):
            self._calls.feed(fragment)

    def _show(self, pieces: Iterator[tuple[str, str]]) -> Iterator[TextDelta]:
        for visible, reasoning in pieces:
            if reasoning:
                self._reasoning.append(reasoning)
            if visible:
                self._text.append(visible)
                yield TextDelta(visible)


class AnswerStream:
    """Feed it the body's bytes, then `end` it; `done` says that nothing more is to be waited for. `event_stream` is
    what the content type promised.
    """

    def __init__(self, *, new_id: Callable[[], str], event_stream: bool) -> None:
        self._new_id, self._event_stream = new_id, event_stream
        self._message = MessageAssembly()
        self._frames = Frames()
        self._form: str = "unknown"
        self._json = bytearray()
        self.done = False
        self.events = 0

    @property
    def finished(self) -> bool:
        """Whether the model said that it is finished, so that only counts may follow."""
        return self._message.finish is not None

    def feed(self, chunk: bytes) -> Iterator[TextDelta]:
        """Visible text, at once. Raises `TryFailed`."""
        if self._form == "unknown":
            self._json += chunk
            chunk = self._told_apart()
        if self._form == "json":
            self._json += chunk
            if len(self._json) > MAX_JSON_BYTES:
                raise unreadable()
        elif self._form == "events":
            try:
                for data in self._frames.feed(chunk):
                    yield from self._event(data, last=False)
            except LineTooLong:
                raise unreadable() from None

    def end(self) -> Iterator[TextDelta]:
        """The body is over (or `done`). Raises `TryFailed` when the answer is not whole (bug case 14)."""
        if self._form == "events":
            for data in self._frames.rest():
                yield from self._event(data, last=True)
        elif self._form == "json":
            yield from self._whole_json()
        if not self.events and not self.done:
            raise cut() if self._event_stream else unreadable()
        yield from self._message.rest()

    def answer(self) -> Answer:
        """The whole answer; call it after `end`. Raises `TryFailed` for a stream that said nothing at all."""
        answer = self._message.answer(self._new_id)
        said_something = answer.text or answer.reasoning or answer.calls
        if answer.finish is None and not (said_something and (self.done or self._form == "json")):
            raise cut()
        return answer

    def _told_apart(self) -> bytes:
        """Decides on the form by the first byte that is not blank; gives what was held back."""
        held = bytes(self._json).removeprefix(b"\xef\xbb\xbf")
        first = held.lstrip()[:1]
        if not first:
            return b""
        self._json.clear()
        self._form = "json" if first in b"{[" else "events"
        return held

    def _event(self, data: str, *, last: bool) -> Iterator[TextDelta]:
        if self.done:
            return
        if data.strip() == "[DONE]":
            self.done = True
            return
        for chunk in _objects(data, last=last, understood=self.events > 0):
            self.events += 1
            yield from self._message.feed(chunk)

    def _whole_json(self) -> Iterator[TextDelta]:
        try:
            body = json.loads(self._json)
        except (ValueError, RecursionError):
            raise unreadable() from None
        if not isinstance(body, dict) or not (body.get("error") or body.get("choices")):
            raise unreadable()
        self.events += 1
        yield from self._message.feed(body)


def _objects(data: str, *, last: bool, understood: bool) -> Iterator[Mapping[str, Any]]:
    """The objects of one data text; several lines may hold one object or one each. Anything else in JSON is skipped."""
    for text in (data,) if _is_json(data) else data.split("\n"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise cut() if last or understood else unreadable() from None
        if isinstance(value, Mapping):
            yield value


def _is_json(text: str) -> bool:
    if "\n" not in text:
        return True
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _finish(value: Any) -> str | None:
    """The gateway's word; what proxies pass on of other APIs for an answer that was cut is `length`."""
    word = _word(value)
    return "length" if word is not None and word.lower() in _CUT else word
