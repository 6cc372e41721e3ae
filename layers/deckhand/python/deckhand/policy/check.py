"""Is a document one that can be used? Every fault with its place."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from deckhand.policy.cedar import ids_in, parse_fault, schema_faults
from deckhand.policy.rules import shipped
from deckhand.policy.source import Statement, offset_of, place, statements

MAX_FAULTS = 20
MAX_POLICIES = 200
MAX_NESTING = 200
"""Opening brackets and operators of one policy. Cedar takes each as a level, and some thousand end the process."""
_NESTING = frozenset(("(", "[", "{", ".", "if", "&&", "||", "!", "+", "-", "*", "==", "!=", "<", "<=", ">", ">="))
_UNEXPECTED, _CUT = "unexpected token", "unexpected end of input"
_FOLLOWS = "unable to find an applicable action given the policy scope constraints"
"""Said of every policy whose scope names something unknown, after what it names was told."""
_NAMED = re.compile(r"`([^`]+)`|: (\w+)$")


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """`line` and `column` count from 1."""

    line: int
    column: int
    message: str

    def as_error(self, path: str) -> dict[str, Any]:
        return {"path": path, **asdict(self)}


def check(text: str, schema: str) -> list[Fault]:
    """The first faults in the order of the text: of the grammar, or else of what the schema knows."""
    parts = statements(text)
    found = (
        list(_size(text, parts))
        or list(_grammar(text, parts))
        or [*_names(text, parts), *_meaning(text, parts, schema)]
    )
    return sorted(set(found))[:MAX_FAULTS]


def _fault(text: str, offset: int, message: str) -> Fault:
    return Fault(*place(text, offset), message)


def _size(text: str, parts: Sequence[Statement]) -> Iterator[Fault]:
    if len(parts) > MAX_POLICIES:
        yield _fault(text, parts[MAX_POLICIES].start, f"a document has at most {MAX_POLICIES} policies")
    for part in parts:
        if sum(token.text in _NESTING for token in part.tokens) > MAX_NESTING:
            yield _fault(text, part.start, f"a policy has at most {MAX_NESTING} brackets and operators")


def _grammar(text: str, parts: Sequence[Statement]) -> Iterator[Fault]:
    for part in parts:
        message = parse_fault(text[part.start : part.end])
        if message is not None:
            yield _fault(text, _culprit(text, part, message), message)
            return
    # Between policies the parser takes fewer kinds of blanks than we do.
    if (message := parse_fault(text)) is not None or len(ids_in(text)) != len(parts):
        yield _fault(text, 0, message or "the policies cannot be told apart")


def _culprit(text: str, part: Statement, message: str) -> int:
    if message.startswith(_CUT):
        return part.end
    if not message.startswith(_UNEXPECTED):
        return offset_of(text, part, _words(message))
    # The shortest beginning that is more than cut off ends with the token that cannot follow, or right behind it.
    low, high = 1, len(part.tokens)
    while low < high:
        middle = (low + high) // 2
        fault = parse_fault(text[part.start : part.tokens[middle - 1].end])
        if fault is None or fault.startswith(_CUT):
            low = middle + 1
        else:
            high = middle
    named = _words(message)
    return next((token.start for token in reversed(part.tokens[:low]) if token.text in named), part.start)


def _names(text: str, parts: Sequence[Statement]) -> Iterator[Fault]:
    """A decision names policies, so no two may have one name; a template would never be linked."""
    taken = {name for name in ids_in(shipped()) if name is not None}
    for part, name in zip(parts, ids_in(text), strict=True):
        if any(token.text == "?" for token in part.tokens):
            yield _fault(text, part.start, "templates are not used: name a principal and a resource")
        if name is not None and name in taken:
            yield _fault(text, part.start, f"the id `{name}` is taken")
        taken.add(name or "")


def _meaning(text: str, parts: Sequence[Statement], schema: str) -> Iterator[Fault]:
    found: dict[tuple[int, str], str] = {}
    for number, message in schema_faults(text, schema):
        # Told for each action that the policy applies to; once is enough.
        found.setdefault((number, re.sub(r' for Action::"\w+"', "", message)), message)
    told = {number for number, message in found if message != _FOLLOWS}
    for number, message in found:
        if message == _FOLLOWS and number in told:
            continue
        part = parts[number]
        yield _fault(text, offset_of(text, part, _words(message)), message)


def _words(message: str) -> list[str]:
    """What a message quotes from the text."""
    return [quoted or last for quoted, last in _NAMED.findall(message)]
