"""The registry's operations as the tools of one turn: run as the caller, through the operations' own checks."""

import asyncio
import difflib
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from deckhand.agent import wording
from deckhand.agent.chat import ToolCall
from deckhand.agent.gate import ARGUMENT, SCHEMA, Gate
from deckhand.agent.toolbox import ToolNote, ToolResult
from deckhand.domain.errors import DeckhandError, InvalidJson, NotAllowed
from deckhand.domain.json_text import dumps, loads
from deckhand.operations.caller import Caller
from deckhand.operations.execution import note_refusal, perform
from deckhand.operations.permission import card_of, may_need_confirmation, offered, permission
from deckhand.operations.registry import REGISTRY, Operation
from deckhand.operations.schema import http_only, tool_schema

Told = TypeVar("Told")
MAX_RESULT_CHARS = 48_000
MAX_PROPOSED_BYTES = 60_000
"""A proposal with its arguments, others in their place, and a result is one item."""
NO_YES = frozenset({"unknown_proposal", "confirmation_mismatch", "not_confirmed"})
"""What a model is told that claims a yes which nobody gave to this call."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A call that can be used: its arguments as sent and as validated, and the yes that it claims to have."""

    operation: Operation
    arguments: Mapping[str, Any]
    given: BaseModel
    confirmation: str | None


class OperationTools:
    """A toolbox over operations. Blocking operations run in threads. Without a `gate` nobody can be asked, so what
    needs a yes is refused.
    """

    def __init__(self, operations: Sequence[Operation], caller: Caller, gate: Gate | None = None) -> None:
        self._operations = {operation.name: operation for operation in operations}
        self._caller, self._gate = caller, gate
        self._agreed: set[str] = set()
        self._spending: dict[str, str] = {}

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
                    "parameters": self._parameters(operation),
                },
            }
            for operation in self._operations.values()
        ]

    def _parameters(self, operation: Operation) -> dict[str, Any]:
        schema = tool_schema(operation.input)
        if self._gate is not None and self._gate.spends and may_need_confirmation(self._caller, operation):
            schema["properties"] = {**schema["properties"], ARGUMENT: SCHEMA}
        return schema

    def note(self, call: ToolCall) -> ToolNote:
        operation = self._operations.get(call.name)
        if operation is None:
            # Nobody knows what it would do, so it counts as a change.
            return ToolNote(mutates=True)
        with suppress(InvalidJson):
            return ToolNote(operation.mutates, card_of(operation, _arguments(operation, call)), operation.label)
        return ToolNote(operation.mutates, None, operation.label)

    async def hold(self, call: ToolCall, *, behind: bool) -> ToolResult | None:
        # Ids are the gateway's, and may come again in another step.
        self._agreed.discard(call.id)
        self._spending.pop(call.id, None)
        wanted = self._wanted(call) if call.name in self._operations else None
        if not isinstance(wanted, _Wanted):
            # Running it tells what is wrong with it.
            return None
        return await asyncio.to_thread(lambda: told(call.name, lambda: self._held(call, wanted, behind=behind)))

    def _held(self, call: ToolCall, wanted: _Wanted, *, behind: bool) -> ToolResult | None:
        operation, looking = wanted.operation, self._caller.looking()
        decision = permission(looking, operation, wanted.given)
        if decision.verdict == "deny" or not operation.mutates:
            return None
        not_run = failure("not_run", wording.NOT_RUN_BEHIND) if behind else None
        if decision.verdict == "allow":
            return not_run
        if self._gate is None:
            return failure("needs_confirmation", wording.NOBODY_TO_ASK)
        if wanted.confirmation is not None:
            self._spending[call.id] = wanted.confirmation
            return not_run
        card = card_of(operation, wanted.given)
        if self._gate.granted(operation, card):
            self._agreed.add(call.id)
            return not_run
        arguments = dumps(dict(wanted.arguments))
        if len(arguments.encode()) > MAX_PROPOSED_BYTES:
            return failure("too_large", wording.TOO_LARGE_TO_PROPOSE)
        proposal = self._gate.propose(
            operation,
            call_id=call.id,
            arguments=arguments,
            card=card,
            destructive=operation.destructive
            or (operation.destroys is not None and operation.destroys(looking, wanted.given)),
            target=operation.target(looking, wanted.given) if operation.target is not None else None,
            policies=decision.policies,
        )
        return ToolResult("", proposal=proposal)

    async def run(self, call: ToolCall) -> ToolResult:
        if call.name not in self._operations:
            return await asyncio.to_thread(lambda: self._out_of_reach(call))
        wanted = self._wanted(call)
        if isinstance(wanted, ToolResult):
            return wanted
        return await asyncio.to_thread(self._run, call, wanted)

    def _run(self, call: ToolCall, wanted: _Wanted) -> ToolResult:
        operation, gate = wanted.operation, self._gate
        if gate is not None and (id := self._spending.pop(call.id, None)) is not None:
            return told(operation.name, lambda: self._spent(gate, id, call, wanted))
        caller = replace(self._calling(call), confirmed=call.id in self._agreed)
        self._agreed.discard(call.id)

        def act() -> Any:
            if gate is not None and operation.mutates:
                gate.check()
            return perform(caller, operation, wanted.given)

        return carried_out(operation, act, wanted.given)

    def _spent(self, gate: Gate, id: str, call: ToolCall, wanted: _Wanted) -> ToolResult:
        arguments = dumps(dict(wanted.arguments))
        result = gate.spend(id, wanted.operation, arguments)
        if result.failed and (code := loads(result.content).get("code")) in NO_YES:
            note_refusal(self._calling(call), wanted.operation, arguments, code=code)
        return result

    def _calling(self, call: ToolCall) -> Caller:
        return replace(self._caller, origin=self._caller.origin.model_copy(update={"call_id": call.id}))

    def _out_of_reach(self, call: ToolCall) -> ToolResult:
        """What was not offered is refused as anywhere; a try to change something by it is in the audit."""
        known = REGISTRY.find(call.name)
        forbidden = known is not None and known.agent and not offered(self._caller, [known])

        def refuse() -> ToolResult:
            if known is not None and known.mutates:
                code = NotAllowed.code if forbidden else "unknown_tool"
                note_refusal(self._calling(call), known, call.arguments, code=code)
            if forbidden:
                raise NotAllowed()
            return failure("unknown_tool", self._unknown(call.name))

        return told(call.name, refuse)

    def _wanted(self, call: ToolCall) -> _Wanted | ToolResult:
        """Of a tool that is offered."""
        operation = self._operations[call.name]
        try:
            arguments = _arguments(operation, call)
            confirmation = None
            if ARGUMENT in arguments and ARGUMENT not in operation.input.model_fields:
                confirmation = str(arguments.pop(ARGUMENT) or "") or None
            return _Wanted(operation, arguments, operation.input.model_validate(arguments), confirmation)
        except InvalidJson as unreadable:
            return failure("invalid_arguments", f"The arguments cannot be used: {unreadable} Send the call again.")
        except ValidationError as invalid:
            return failure("invalid_arguments", faults(invalid))

    def _unknown(self, name: str) -> str:
        close = difflib.get_close_matches(name, self._operations, n=3, cutoff=0.5)
        known = close or list(self._operations)
        return f"There is no tool {name!r}. {'Close matches' if close else 'The tools are'}: {', '.join(known)}."


def carried_out(operation: Operation, act: Callable[[], Any], given: BaseModel) -> ToolResult:
    """What the model is told of an operation that ran, or failed."""

    def run() -> ToolResult:
        result = act()
        card = card_of(operation, given)
        changes = ({"id": card, "change": operation.change},) if card and operation.change else ()
        return ToolResult(bounded(dumps(result)), changes=changes)

    return told(operation.name, run)


def told(tool: str, act: Callable[[], Told]) -> Told | ToolResult:
    """What `act` gives; a failure as a result. A fault of one tool is told to the model and ends no turn."""
    try:
        return act()
    except DeckhandError as error:
        return ToolResult(bounded(dumps(error.as_body())), failed=True)
    except Exception:
        logger.exception("tool failed", extra={"tool": tool})
        return ToolResult(dumps(DeckhandError().as_body()), failed=True)


def failure(code: str, sentence: str) -> ToolResult:
    return ToolResult(bounded(dumps({"error": sentence, "code": code})), failed=True)


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


def faults(invalid: ValidationError) -> str:
    """One line a field."""
    lines = [
        f"{'.'.join(str(part) for part in e['loc']) or 'arguments'}: {e['msg']}"
        for e in invalid.errors(include_url=False, include_input=False, include_context=False)
    ]
    return "\n".join(lines)
