"""Tool calls that a model wrote as text. They never run; whoever sees one asks for a real call (bug case 9)."""

import json
import re
from collections.abc import Collection
from typing import Any

_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_QUOTED_LINE = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_INLINE_CODE = re.compile(r"(`+)(?:(?!`).)+?\1")
_MARKUP = re.compile(
    r"^[ \t]*(?:"
    r"<(?:tool_?calls?|function_?calls?|tools|invoke|tool_use)\b|<function[=( ]"
    r"|<\|(?:tool_calls?|tool_calls_section|python_tag|tool▁calls?▁begin)|<\uff5ctool▁calls?▁begin"
    r"|\[TOOL_CALLS?\]|functions\.\w+[:(]"
    r")",
    re.MULTILINE,
)


def looks_like_call(text: str, tool_names: Collection[str]) -> bool:
    """Whether the text holds the markup of a call that begins a line and names one of the tools, or is nothing but a
    call as JSON. Fenced code, inline code and quoted lines are left alone: a text may speak of calls.
    """
    prose = _INLINE_CODE.sub("", _QUOTED_LINE.sub("", _FENCED.sub("", text)))
    markup = _MARKUP.search(prose)
    if markup is not None:
        return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", prose[markup.start() :]) for name in tool_names)
    return _is_call(_parsed(prose), tool_names)


def _is_call(value: Any, tool_names: Collection[str]) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_is_call(item, tool_names) for item in value)
    if not isinstance(value, dict):
        return False
    inner = value.get("function")
    call = inner if isinstance(inner, dict) else value
    return call.get("name") in set(tool_names) and ("arguments" in call or "parameters" in call)


def _parsed(text: str) -> Any:
    text = text.strip()
    if not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
