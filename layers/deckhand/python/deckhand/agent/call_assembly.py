"""Tool calls from their streamed fragments, for all the ways in which gateways part and repeat them (bug cases 1 to 5,
10).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deckhand.agent.chat import ToolCall
from deckhand.agent.surrogates import whole

_OWN_FIELDS = ("index", "id", "type", "function")


@dataclass(slots=True)
class _OpenCall:
    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    def is_whole(self) -> bool:
        """Whether nothing can follow: the arguments are a JSON object already."""
        return isinstance(_parsed(self.arguments), dict)


class CallAssembly:
    """Feed it the entries of `delta.tool_calls`; it keeps calls in order of arrival."""

    def __init__(self) -> None:
        self._calls: list[_OpenCall] = []

    def feed(self, fragment: Mapping[str, Any]) -> None:
        function = _mapping(fragment.get("function"))
        call_id, name = _text(fragment.get("id")), _text(function.get("name"))
        arguments = function.get("arguments")
        call = self._find(fragment.get("index"), call_id, name, arguments)
        call.id = call.id or call_id
        if name and not call.arguments:
            # Whole again, grown, or the next piece.
            call.name = name if name.startswith(call.name) else call.name + name
        _add_arguments(call, arguments)
        call.extra.update(
            {key: value for key, value in fragment.items() if key not in _OWN_FIELDS and value is not None}
        )

    def calls(self, new_id: Callable[[], str]) -> tuple[ToolCall, ...]:
        """All calls that have a name. Blank arguments are `{}`; a missing or repeated id is made anew."""
        made: dict[str, ToolCall] = {}
        for call in self._calls:
            if call.name:
                call_id = call.id if call.id and call.id not in made else new_id()
                made[call_id] = ToolCall(call_id, call.name, _sendable(call.arguments), call.extra)
        return tuple(made.values())

    def _find(self, index: Any, call_id: str, name: str, arguments: Any) -> _OpenCall:
        """The open call that the fragment belongs to, or a new one."""
        known = isinstance(index, int)
        same_place = [call for call in self._calls if not known or call.index == index]
        by_id = [call for call in same_place if call_id and call.id == call_id]
        if by_id:
            return by_id[-1]
        if same_place and not _begins(same_place[-1], call_id, name, arguments):
            return same_place[-1]
        call = _OpenCall(index if known else len(self._calls))
        self._calls.append(call)
        return call


def _begins(call: _OpenCall, call_id: str, name: str, arguments: Any) -> bool:
    """Whether a fragment at the place of `call`, whose id is not the call's, begins another call."""
    if not name:
        # Some gateways make up a new id for every fragment; text of arguments never comes before the name.
        return bool(call_id and call.id and not arguments)
    if call_id and call.id:
        return True
    return call.is_whole() and (bool(call_id) or name != call.name or bool(_begun(arguments)))


def _begun(arguments: Any) -> bool:
    return isinstance(arguments, Mapping) or (isinstance(arguments, str) and arguments.lstrip().startswith("{"))


def _add_arguments(call: _OpenCall, arguments: Any) -> None:
    if arguments is None:
        return
    if not isinstance(arguments, str):
        # An object instead of its text (bug case 4) is whole in itself.
        call.arguments = json.dumps(arguments, ensure_ascii=False)
    elif not (arguments == call.arguments and call.is_whole()):
        call.arguments += arguments


def _sendable(arguments: str) -> str:
    return "{}" if arguments.strip() in ("", "null") else whole(arguments)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
