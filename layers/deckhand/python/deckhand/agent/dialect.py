"""The form of a request that one endpoint understands (bug cases 25 and 26).

Servers that call themselves compatible refuse different parts of the same form. A dialect starts rich and gets plainer
by what a refusal complains about. Everything here is pure.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

Body = dict[str, Any]

_STRICT_IDS = re.compile(r"mi[sx]tral|ministral|codestral|devstral|magistral|pixtral|voxtral|mathstral")
_SAFE_ID = re.compile(r"[A-Za-z0-9]{9}")
_SAFE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

_MESSAGE_FIELDS = {"role", "content", "tool_calls", "tool_call_id", "name"}
_CALL_FIELDS = {"id", "type", "function"}
_CONTENT = re.compile(r"\bcontents?\b")
_EMPTINESS = re.compile(r"empty|blank|at least (?:1|one)|min(?:imum)?[_ ]?length|too[_ ]short|whitespace")
_NULLNESS = re.compile(r"\bnull\b|\bnone\b|nil\b|required|missing|string|must be|invalid|expected|type")
_BLOCKS = re.compile(r"string|list|array|sequence|block|part|type|object|invalid|unsupported|not supported|expected")


_LIMIT = re.compile(r"max\w* ?(?:(?:output|completion|new) )?tokens|completion tokens|n_predict|max_gen_len")
_TOO_LARGE = re.compile(
    r"too (?:large|big|high|long|many)|at most|less than|up to|above|\bmaximum\b|range|exceed|[<>≤]"
)


@dataclass(frozen=True, slots=True)
class OutputLimit:
    """How the longest answer is named, None where no name is understood. Numbers from `too_large` on were refused, as
    above what the endpoint's model ever gives: then its own limit is the tighter one.
    """

    name: Literal["max_tokens", "max_completion_tokens"] | None = "max_tokens"
    too_large: int | None = None

    def sends(self, tokens: int) -> bool:
        return self.name is not None and (self.too_large is None or tokens < self.too_large)

    def after(self, tokens: int, complaint: str) -> "OutputLimit":
        """What to try when this was refused for the number or the name."""
        if _TOO_LARGE.search(complaint):
            return replace(self, too_large=tokens)
        return replace(self, name="max_completion_tokens" if self.name == "max_tokens" else None)


@dataclass(frozen=True, slots=True)
class Dialect:
    """`blocks`: content may be a list of text parts, with `cache_control` marks. `extras`: the provider's own fields
    (`reasoning_content`, a call's `extra_content`) go back to it. `no_content` is how an assistant message that only
    calls tools is written.
    """

    blocks: bool = True
    stream_options: bool = True
    extras: bool = True
    no_content: Literal["null", "empty", "absent"] = "null"
    strict_ids: bool = False
    limit: OutputLimit = OutputLimit()

    @classmethod
    def of(cls, model: str, *, prompt_cache: bool) -> "Dialect":
        """What is tried first."""
        strict = _STRICT_IDS.search(model.lower()) is not None
        return cls(blocks=prompt_cache, strict_ids=strict)


def unlimited(dialect: Dialect, body: Body, complaint: str, *, full: bool) -> Dialect:
    """The dialect with another form of the answer's limit, or none, when that was sent and is complained about; the
    same one otherwise. `full`: the context has no room, and the limit may be what is too much (many servers add it to
    the prompt).
    """
    tokens = body.get("max_tokens")
    if tokens is None or not dialect.limit.sends(tokens):
        return dialect
    if full:
        return replace(dialect, limit=replace(dialect.limit, too_large=tokens))
    return replace(dialect, limit=dialect.limit.after(tokens, complaint)) if _LIMIT.search(complaint) else dialect


def plainer(dialect: Dialect, body: Body, complaint: str) -> Dialect:
    """The dialect without the forms in `body` that the complaint (lower case) is about; the same one when it is about
    none of them.
    """
    if "stream_options" in complaint or "include_usage" in complaint:
        dialect = replace(dialect, stream_options=False)
    if "cache_control" in complaint:
        dialect = replace(dialect, blocks=False)
    if any(name in complaint for name in _extra_fields(body["messages"])):
        dialect = replace(dialect, extras=False)
    if _CONTENT.search(complaint) or "system" in complaint:
        dialect = _plainer_content(dialect, body["messages"], complaint)
    return dialect


def _plainer_content(dialect: Dialect, messages: list[Body], complaint: str) -> Dialect:
    if _BLOCKS.search(complaint) and any(isinstance(message.get("content"), list) for message in messages):
        dialect = replace(dialect, blocks=False)
    if not any(_only_calls(message) for message in messages) or not _CONTENT.search(complaint):
        return dialect
    if _EMPTINESS.search(complaint) and dialect.no_content != "null":
        return replace(dialect, no_content="absent")
    if _NULLNESS.search(complaint) or _EMPTINESS.search(complaint):
        return replace(dialect, no_content="empty" if dialect.no_content != "empty" else "null")
    return dialect


def spoken(body: Body, dialect: Dialect) -> Body:
    """The body in the endpoint's dialect. The given one is left as it is."""
    said = {key: value for key, value in body.items() if key != "stream_options" or dialect.stream_options}
    tokens = said.pop("max_tokens", None)
    if tokens is not None and dialect.limit.name is not None and dialect.limit.sends(tokens):
        said[dialect.limit.name] = tokens
    said["messages"] = [_message(message, dialect) for message in body["messages"]]
    return said


def _message(message: Body, dialect: Dialect) -> Body:
    said = {key: value for key, value in message.items() if dialect.extras or key in _MESSAGE_FIELDS}
    if isinstance(said.get("content"), list) and not dialect.blocks:
        said["content"] = "\n".join(part.get("text", "") for part in said["content"])
    if _only_calls(said):
        said.pop("content", None)
        if dialect.no_content != "absent":
            said["content"] = None if dialect.no_content == "null" else ""
    if said.get("tool_calls"):
        said["tool_calls"] = [_call(call, dialect) for call in said["tool_calls"]]
    if dialect.strict_ids and "tool_call_id" in said:
        said["tool_call_id"] = safe_id(said["tool_call_id"])
    return said


def _call(call: Body, dialect: Dialect) -> Body:
    function = {**call["function"], "name": safe_name(call["function"]["name"])}
    call_id = safe_id(call["id"]) if dialect.strict_ids else call["id"]
    extras = {key: value for key, value in call.items() if dialect.extras and key not in _CALL_FIELDS}
    return {"id": call_id, "type": "function", "function": function, **extras}


def _extra_fields(messages: list[Body]) -> set[str]:
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    on_messages = {key for message in messages for key in message if key not in _MESSAGE_FIELDS}
    return on_messages | {key for call in calls for key in call if key not in _CALL_FIELDS}


def _only_calls(message: Mapping[str, Any]) -> bool:
    return bool(message.get("tool_calls")) and not message.get("content")


def safe_id(call_id: str) -> str:
    """Nine letters and digits, always the same for the same id: what Mistral's API demands."""
    if _SAFE_ID.fullmatch(call_id):
        return call_id
    number = int.from_bytes(hashlib.sha256(call_id.encode("utf-8", "replace")).digest())
    digits = []
    for _ in range(9):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


def safe_name(name: str) -> str:
    """A tool's name as an API takes it back: the model may have invented one with other characters (bug case 8)."""
    return name if _SAFE_NAME.fullmatch(name) else re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]
