"""What a chat-completions request tells the demo: where the conversation stands. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

CONFIRMATION = "confirmationId"
YES = frozenset({"y", "yes", "yes please", "do it", "yes do it"})
NO = frozenset({"n", "no", "no thanks", "dont", "do not", "no dont"})


@dataclass(frozen=True)
class ToolUse:
    """A tool call to make, and what is said before it."""

    name: str
    arguments: Mapping[str, Any]
    saying: str = ""


@dataclass(frozen=True)
class Exchange:
    """A call made since the user last spoke, with what the tool answered (None where that is no JSON). `edited` are the
    arguments that a person had it run with instead of `arguments`.
    """

    name: str
    arguments: Mapping[str, Any]
    result: Any
    edited: Mapping[str, Any] | None = None

    @property
    def done(self) -> bool:
        """Whether the tool says that it did it: whatever says something else, or nothing, is no success."""
        return isinstance(self.result, dict) and (self.result.get("ok") is True or self.result.get("status") == "done")

    @property
    def waits(self) -> str | None:
        """The id under which it waits for a yes."""
        if isinstance(self.result, dict) and self.result.get("status") == "awaiting_confirmation":
            return str(self.result.get(CONFIRMATION) or "") or None
        return None

    @property
    def error(self) -> str | None:
        """The tool's own sentence about what went wrong."""
        if isinstance(self.result, dict) and (self.result.get("error") or self.result.get("ok") is False):
            return str(self.result.get("error") or "it was refused")
        return None

    @property
    def refusal(self) -> str | None:
        """How the person decided against it, or that they did not decide in time."""
        said = self.result.get("status") if isinstance(self.result, dict) else None
        return str(said) if said in ("rejected", "expired") else None

    @property
    def unknown_card(self) -> bool:
        return isinstance(self.result, dict) and self.result.get("code") == "unknown_manifest"


@dataclass(frozen=True)
class Scene:
    """Where the conversation stands: what the user said last, what tools answered since, which tools are offered.

    A plain yes or no to calls that wait leads back to the request that they were made for: `answer` is which it is, and
    `waiting` are the calls to be made again for a yes.
    """

    request: str
    exchanges: tuple[Exchange, ...]
    tools: frozenset[str]
    system: str
    today: date
    answer: Literal["yes", "no"] | None = None
    waiting: tuple[ToolUse, ...] = ()

    def last(self, name: str) -> Exchange | None:
        return next((exchange for exchange in reversed(self.exchanges) if exchange.name == name), None)

    def count(self, name: str) -> int:
        return sum(exchange.name == name for exchange in self.exchanges)


def read_scene(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], clock: date) -> Scene:
    """Reads a request's messages; content may be text or a list of parts."""
    system = "\n".join(_text(message) for message in messages if message.get("role") == "system")
    spoke = [index for index, message in enumerate(messages) if message.get("role") == "user"]
    last = spoke[-1] if spoke else -1
    begin, answer = last, _plain(_text(messages[last])) if spoke else None
    found = _exchanges(messages)
    waiting = max((at for at, exchange in found if exchange.waits), default=None)
    since = [_plain(_text(messages[at])) for at in spoke if waiting is not None and waiting < at < last]
    if answer and waiting is not None and "no" not in since:
        # A yes may have been followed by one more question: what it all was for is said before them.
        begin = next((at for at in reversed(spoke) if at < waiting and not _plain(_text(messages[at]))), begin)
    else:
        answer = None
    here = [exchange for at, exchange in found if at > begin]
    spent = {one.arguments.get(CONFIRMATION) for one in here}
    return Scene(
        request=_text(messages[begin]) if spoke else "",
        exchanges=tuple(one for at, one in enumerate(here) if not one.waits and not _made_again(one, here[at + 1 :])),
        tools=frozenset(tool["function"]["name"] for tool in tools if "function" in tool),
        system=system,
        today=_dated(system) or clock,
        answer=answer,
        waiting=tuple(
            ToolUse(one.name, {**one.arguments, CONFIRMATION: one.waits})
            for one in here
            if one.waits and one.waits not in spent
        ),
    )


def _exchanges(messages: Sequence[Mapping[str, Any]]) -> list[tuple[int, Exchange]]:
    """All calls that were answered, each with the place of its answer."""
    calls: dict[str, Mapping[str, Any]] = {}
    found = []
    for at, message in enumerate(messages):
        calls |= {call["id"]: call["function"] for call in message.get("tool_calls") or ()}
        if message.get("role") == "tool":
            call = calls.get(message.get("tool_call_id", ""), {})
            arguments, result = _json(str(call.get("arguments", ""))), _json(_text(message))
            edited = None
            if isinstance(result, dict) and isinstance(result.get("arguments"), dict) and "result" in result:
                edited, result = result["arguments"], result["result"]
            given = arguments if isinstance(arguments, dict) else {}
            found.append((at, Exchange(str(call.get("name", "")), given, result, edited)))
    return found


def _made_again(exchange: Exchange, later: Sequence[Exchange]) -> bool:
    """With its confirmation: the two are one."""
    return any(
        CONFIRMATION in one.arguments
        and one.name == exchange.name
        and one.arguments == {**exchange.arguments, CONFIRMATION: one.arguments[CONFIRMATION]}
        for one in later
    )


def _plain(text: str) -> Literal["yes", "no"] | None:
    words = " ".join(re.sub(r"[^a-z ]", "", text.lower().replace(",", " ")).split())
    if words in YES:
        return "yes"
    return "no" if words in NO else None


def rows_of(result: Any) -> list[Any]:
    """The rows of a card as a tool tells them: a list, or rows with their ids."""
    if not isinstance(result, dict):
        return []
    rows = result.get("data", result.get("rows"))
    if isinstance(rows, dict):
        rows = rows.get("rows")
    return [row["value"] if isinstance(row, dict) and "value" in row else row for row in rows or []]


def _dated(text: str) -> date | None:
    found = re.search(r"Today is [^\n]*?(\d{4}-\d{2}-\d{2})", text)
    try:
        return date.fromisoformat(found[1]) if found else None
    except ValueError:
        return None


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
