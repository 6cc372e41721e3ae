"""Does a change lose what a person entered? What is only changed or added to is not lost."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from deckhand.domain.json_text import dumps


def loses_entries(before: Any, after: Any, *, fields: bool) -> bool:
    """Whether an element of a list is not there any more as it was, or an object's name is gone.

    `fields` false: of an object, names of plain values may go, as they are a row's own fields.
    """
    if isinstance(before, list):
        return bool(before) and not (
            isinstance(after, list) and Counter(map(_text, before)) <= Counter(map(_text, after))
        )
    if not isinstance(before, Mapping) or not before:
        return False
    if not isinstance(after, Mapping):
        return True
    return any(_loses_name(value, name in after, after.get(name), fields) for name, value in before.items())


def _loses_name(before: Any, there: bool, after: Any, fields: bool) -> bool:
    if there:
        return loses_entries(before, after, fields=fields)
    return fields or (bool(before) and isinstance(before, list | Mapping))


def lost_parts(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The inputs and reminders that a manifest has lost, and whether it takes no entries any more, in words."""
    return sorted(set(_parts(before)) - set(_parts(after)))


def _parts(manifest: Mapping[str, Any]) -> Iterator[str]:
    meta = manifest["meta"]
    for place, listed, key, word in (
        ("writeable", "inputs", "key", "input"),
        ("notifications", "items", "id", "reminder"),
    ):
        block = meta.get(place)
        items = block.get(listed) if isinstance(block, Mapping) else None
        for item in items if isinstance(items, list) else ():
            yield f"{word} {item.get(key) if isinstance(item, Mapping) else _text(item)}"
    if isinstance(meta.get("writeable"), Mapping) and meta["writeable"].get("fromWebapp") is True:
        yield "entries"


def _text(value: Any) -> str:
    """The same for equal values, whatever the order of names."""
    return dumps(_ordered(value))


def _ordered(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _ordered(value[name]) for name in sorted(value)}
    return [_ordered(one) for one in value] if isinstance(value, list) else value
