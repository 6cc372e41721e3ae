"""The path language for places inside a card's data.

    ""                          the data itself
    items                       a name in an object
    items[name="Zinc"].doses    the one element whose name is exactly "Zinc", then a name in it
    [date="2026-04-20"]         the one row of that date, in data that is a list
    [index=0]                   by position

Names begin with a letter or `_`. Filter values are quoted texts, numbers, true or false, and compare with their
type: 1 is not "1".
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deckhand.domain.errors import Ambiguous, BadPath, NoMatch, WrongType

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?=\])")
_WORD = re.compile(r"(?:true|false)(?=\])")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'", re.DOTALL)
MAX_PATH = 1_000


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Filter:
    """The elements of a list that are objects with exactly this value; key `index` with a whole number is a
    position.
    """

    key: str
    value: str | int | float | bool

    @property
    def is_position(self) -> bool:
        return self.key == "index" and isinstance(self.value, int) and not isinstance(self.value, bool)


Step = Name | Filter
Place = tuple[str | int, ...]


def parse(path: str) -> tuple[Step, ...]:
    """Raises `BadPath`, which says where."""
    return tuple(step for step, _ in _read(path))


def _read(path: str) -> Iterator[tuple[Step, int]]:
    """Each step, and where it ends."""
    if len(path) > MAX_PATH:
        raise BadPath(f"The path has more than {MAX_PATH} characters.")
    at = 0
    while at < len(path):
        if path[at] == "[":
            step, at = _filter(path, at)
            yield step, at
            continue
        if at:
            if path[at] != ".":
                raise _bad(at, "a dot or a filter belongs here")
            at += 1
        name = _NAME.match(path, at)
        if name is None:
            raise _bad(at, "a name belongs here")
        at = name.end()
        yield Name(name.group()), at


def _filter(path: str, at: int) -> tuple[Filter, int]:
    name = _NAME.match(path, at + 1)
    if name is None or path[name.end() : name.end() + 1] != "=":
        raise _bad(at, "a filter looks like [name=value]")
    value, end = _literal(path, name.end() + 1)
    if path[end : end + 1] != "]":
        raise _bad(end, "the filter is not closed")
    return Filter(name.group(), value), end + 1


def _literal(path: str, at: int) -> tuple[str | int | float | bool, int]:
    if found := _QUOTED.match(path, at):
        return re.sub(r"\\(.)", r"\1", found.group()[1:-1], flags=re.DOTALL), found.end()
    if found := (_NUMBER.match(path, at) or _WORD.match(path, at)):
        value: int | float | bool = json.loads(found.group())
        return value, found.end()
    raise _bad(at, "the value must be a quoted text, a number, true or false")


def _bad(at: int, what: str) -> BadPath:
    return BadPath(f"The path cannot be read at character {at + 1}: {what}.")


def to_last_position(path: str) -> str:
    """The path as far as its last `[index=N]`, empty where it has none. Raises `BadPath`."""
    ends = [end for step, end in _read(path) if isinstance(step, Filter) and step.is_position]
    return path[: ends[-1]] if ends else ""


def locate(data: Any, path: str) -> Place:
    """The one place that the path names, as names and positions from the root. Raises `BadPath`, `NoMatch`,
    `Ambiguous`, `WrongType`.
    """
    place: list[str | int] = []
    value = data
    for step in parse(path):
        key = _in_object(value, step.name) if isinstance(step, Name) else _in_list(value, step)
        place.append(key)
        value = value[key]
    return tuple(place)


def _in_object(value: Any, name: str) -> str:
    if not isinstance(value, dict):
        raise WrongType(f"There is no object that could hold {name!r}.")
    if name not in value:
        raise NoMatch(f"Nothing is called {name!r} there.")
    return name


def _in_list(value: Any, wanted: Filter) -> int:
    if not isinstance(value, list):
        raise WrongType(f"[{wanted.key}=…] needs a list.")
    if wanted.is_position:
        position = int(wanted.value)
        if not 0 <= position < len(value):
            raise NoMatch(f"There is no element {position}: the list has {len(value)}.")
        return position
    found = [n for n, element in enumerate(value) if matches(element, wanted)]
    if not found:
        raise NoMatch(f"No element has {wanted.key} = {wanted.value!r}.")
    if len(found) > 1:
        raise Ambiguous(f"{len(found)} elements have {wanted.key} = {wanted.value!r}. Use [index=N] or another field.")
    return found[0]


def matches(element: Any, wanted: Filter) -> bool:
    """Exact equality with its type; 1 and 1.0 are one number."""
    if not isinstance(element, dict) or wanted.key not in element:
        return False
    value = element[wanted.key]
    if isinstance(value, bool) or isinstance(wanted.value, bool):
        return value is wanted.value
    if isinstance(value, str) != isinstance(wanted.value, str):
        return False
    return isinstance(value, str | int | float) and value == wanted.value


def at_place(data: Any, place: Place) -> Any:
    for key in place:
        data = data[key]
    return data


def replaced(data: Any, place: Place, value: Any) -> Any:
    """A copy of `data` with `value` at the place; what is not on the way is shared."""
    if not place:
        return value
    copy: Any = list(data) if isinstance(data, list) else dict(data)
    copy[place[0]] = replaced(data[place[0]], place[1:], value)
    return copy
