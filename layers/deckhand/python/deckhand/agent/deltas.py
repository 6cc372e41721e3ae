"""What one chunk's delta (or a whole message) says, in the many shapes of content and thinking (bug case 21)."""

from collections.abc import Iterator, Mapping
from typing import Any

# Fields that a provider wants back beside the calls of the same message, in the request after it.
OPAQUE = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "extra_content")


def visible_texts(delta: Mapping[str, Any]) -> Iterator[str]:
    """Content as a string, or the text parts of a list; a refusal is for the person too."""
    content = delta.get("content")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, str):
                yield part
            elif isinstance(part, Mapping) and part.get("type", "text") in ("text", "output_text"):
                yield from _strings(part.get("text"))
    yield from _strings(delta.get("refusal"))


def reasoning_texts(delta: Mapping[str, Any]) -> Iterator[str]:
    """The thinking, from the first field that has it: gateways send the same text under several names."""
    for name in ("reasoning_content", "reasoning"):
        if isinstance(text := delta.get(name), str) and text:
            yield text
            return
    details = delta.get("reasoning_details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, Mapping):
            yield from _strings(detail.get("text") or detail.get("summary"))
    content = delta.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping) and part.get("type") == "thinking":
            yield from _thinking_part(part.get("thinking"))


def call_fragments(delta: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Entries of `tool_calls`, and the legacy `function_call` in the same form."""
    calls = delta.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, Mapping):
            yield call
    if isinstance(legacy := delta.get("function_call"), Mapping):
        yield {"index": 0, "function": legacy}


def add_opaque(kept: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Joins the pieces of a message's opaque fields: texts are appended, details put together by their index."""
    for name in OPAQUE:
        value = delta.get(name)
        if isinstance(value, str) and value:
            kept[name] = kept.get(name, "") + value
        elif isinstance(value, list):
            pieces = kept.setdefault(name, [])
            for piece in value:
                _add_detail(pieces, piece)
        elif isinstance(value, Mapping):
            kept[name] = {**kept.get(name, {}), **value}


def _add_detail(details: list[Any], piece: Any) -> None:
    last = details[-1] if details else None
    if not isinstance(piece, Mapping) or not isinstance(last, dict) or not _continues(last, piece):
        details.append(dict(piece) if isinstance(piece, Mapping) else piece)
        return
    for key, value in piece.items():
        if key in ("text", "summary") and isinstance(value, str) and isinstance(last.get(key), str):
            last[key] += value
        elif value is not None:
            last[key] = value


def _continues(last: Mapping[str, Any], piece: Mapping[str, Any]) -> bool:
    return piece.get("index") is not None and all(last.get(key) == piece.get(key) for key in ("index", "type"))


def _thinking_part(thinking: Any) -> Iterator[str]:
    yield from _strings(thinking)
    for part in thinking if isinstance(thinking, list) else ():
        if isinstance(part, Mapping):
            yield from _strings(part.get("text"))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value:
        yield value
