"""The registry's operations as the tools of one turn: run as the caller, through the operations' own checks."""

import asyncio
import difflib
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from deckhand.agent.chat import ToolCall
from deckhand.agent.toolbox import ToolNote, ToolResult
from deckhand.domain.errors import DeckhandError, InvalidJson, NotAllowed
from deckhand.domain.json_text import dumps, loads
from deckhand.operations.caller import Caller
from deckhand.operations.permission import permission
from deckhand.operations.registry import Operation
from deckhand.operations.schema import http_only, tool_schema

MAX_RESULT_CHARS = 48_000

logger = logging.getLogger(__name__)


class OperationTools:
    """A toolbox over operations. Blocking operations run in threads."""

    def __init__(self, operations: Sequence[Operation], caller: Caller) -> None:
        self._operations = {operation.name: operation for operation in operations}
        self._caller = caller

    def definitions(self) -> list[dict[str, Any]]:
        return self._definitions

    @cached_property
    def _definitions(self) -> list[dict[str, Any]]:
        """Made once a turn: every step asks for them, on the thread that carries the stream."""
        return [
            {
                "type": "function",
                "function": {
                    "name": operation.name,
                    "description": operation.description,
                    "parameters": tool_schema(operation.input),
                },
            }
            for operation in self._operations.values()
        ]

    def note(self, call: ToolCall) -> ToolNote:
        operation = self._operations.get(call.name)
        if operation is None:
            # Nobody knows what it would do, so it counts as a change.
            return ToolNote(mutates=True)
        with suppress(InvalidJson):
            return ToolNote(operation.mutates, _card(operation, _arguments(operation, call)), operation.label)
        return ToolNote(operation.mutates, None, operation.label)

    async def run(self, call: ToolCall) -> ToolResult:
        operation = self._operations.get(call.name)
        if operation is None:
            return _failed("unknown_tool", self._unknown(call.name))
        try:
            arguments = _arguments(operation, call)
            given = operation.input.model_validate(arguments)
        except InvalidJson as unreadable:
            return _failed("invalid_arguments", f"The arguments cannot be used: {unreadable} Send the call again.")
        except ValidationError as invalid:
            return _failed("invalid_arguments", _faults(invalid))
        try:
            result = await asyncio.to_thread(self._permitted, operation, given)
        except DeckhandError as error:
            return ToolResult(bounded(dumps(error.as_body())), failed=True)
        except Exception:
            # A fault of one tool is told to the model and ends no turn.
            logger.exception("tool failed", extra={"tool": call.name})
            return ToolResult(dumps(DeckhandError().as_body()), failed=True)
        card = _card(operation, arguments)
        changes = ({"id": card, "change": operation.change},) if card and operation.change else ()
        return ToolResult(bounded(dumps(result)), changes=changes)

    def _permitted(self, operation: Operation, given: Any) -> Any:
        """Through the operation's own policy, as over HTTP. Raises `NotAllowed` and what the operation raises."""
        if permission(self._caller, operation, given).verdict == "deny":
            raise NotAllowed()
        return operation.run(self._caller, given)

    def _unknown(self, name: str) -> str:
        close = difflib.get_close_matches(name, self._operations, n=3, cutoff=0.5)
        known = close or list(self._operations)
        return f"There is no tool {name!r}. {'Close matches' if close else 'The tools are'}: {', '.join(known)}."


def bounded(text: str, limit: int = MAX_RESULT_CHARS) -> str:
    """One cap for all tools (bug case 28): the first part as a JSON object that says how much is shown and how to
    narrow.
    """
    if len(text) <= limit:
        return text
    shown = text[: limit - 600]
    while True:
        left = len(text) - len(shown)
        note = (
            f"The result was too long; {left} characters were left out. Read a part of it: rows by a path instead of "
            "the whole card, one card instead of all."
        )
        result = dumps(
            {"truncated": True, "shownChars": len(shown), "totalChars": len(text), "note": note, "part": shown}
        )
        if len(result) <= limit:
            return result
        # Quotes and backslashes grow when a JSON text is put into a string.
        shown = shown[: int(len(shown) * 0.9)]


def rescued(operation: Operation, arguments: dict[str, Any]) -> dict[str, Any]:
    """Objects that the model sent as JSON texts are taken for what they are, where the operation wants an object
    (or whole data), and null for an argument that may be left out counts as left out.

    A text where any value may stand, such as a row of a card of texts, is left alone: there the text is the value.
    """
    result = dict(arguments)
    for name, field in operation.input.model_fields.items():
        value = result.get(name)
        if value is None and not field.is_required():
            result.pop(name, None)
        elif isinstance(value, str) and (field.annotation == dict[str, Any] or name in operation.rescue):
            result[name] = _decoded(value)
    nested = result.get("patch")
    if isinstance(nested, dict) and isinstance(nested.get("meta"), str):
        result["patch"] = {**nested, "meta": _decoded(nested["meta"])}
    return result


def _decoded(text: str) -> Any:
    """The object or list in the text; the text itself when it holds neither."""
    try:
        value = loads(text)
    except InvalidJson:
        return text
    return value if isinstance(value, dict | list) else text


def _arguments(operation: Operation, call: ToolCall) -> dict[str, Any]:
    """Empty and null arguments are `{}` (bug case 5). Raises `InvalidJson` for anything else that is no object."""
    text = call.arguments.strip()
    value = {} if text in ("", "null") else loads(text)
    if not isinstance(value, dict):
        raise InvalidJson("They are not a JSON object.")
    if clash := sorted(set(value) & http_only(operation.input)):
        raise InvalidJson(f"There is no argument {clash[0]}.")
    return rescued(operation, value)


def _card(operation: Operation, arguments: Mapping[str, Any]) -> str | None:
    if operation.card is None:
        return None
    value: Any = arguments
    for name in operation.card.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) and value else None


def _faults(invalid: ValidationError) -> str:
    """One line a field."""
    lines = [
        f"{'.'.join(str(part) for part in e['loc']) or 'arguments'}: {e['msg']}"
        for e in invalid.errors(include_url=False, include_input=False, include_context=False)
    ]
    return "\n".join(lines)


def _failed(code: str, sentence: str) -> ToolResult:
    return ToolResult(bounded(dumps({"error": sentence, "code": code})), failed=True)
