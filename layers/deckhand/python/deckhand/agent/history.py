"""Messages in the chat-completions form, always valid: every call has its result, every argument is a JSON object,
roles alternate.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from deckhand.agent.wording import UNKNOWN_OUTCOME
from deckhand.domain.conversation import Call, Exchange, Message

ChatMessage = dict[str, Any]
CACHE_MARK = {"type": "ephemeral"}


def transcript(messages: Sequence[Message], exchanges: Iterable[Exchange]) -> list[ChatMessage]:
    """Window and replayed exchanges, each exchange just before the first message that is newer than its anchor."""
    waiting = sorted(exchanges, key=lambda exchange: (exchange.anchor, exchange.step))
    built: list[ChatMessage] = []
    for message in messages:
        while waiting and waiting[0].anchor < message.seq:
            built += exchange_messages(waiting.pop(0))
        content = f"{message.content}\n\n[{message.context}]" if message.context else message.content
        built.append({"role": message.role, "content": content})
    for exchange in waiting:
        built += exchange_messages(exchange)
    return joined(built)


def exchange_messages(exchange: Exchange) -> list[ChatMessage]:
    """The assistant message with its calls and one result a call, in call order (bug cases 23, 25)."""
    calls = [_call(call) for call in exchange.calls]
    assistant = {"role": "assistant", "content": exchange.text or None, "tool_calls": calls, **(exchange.extra or {})}
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": UNKNOWN_OUTCOME if call.result is None else call.result}
        for call in exchange.calls
    ]
    return [assistant, *results]


def _call(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": sendable_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function, **(call.extra or {})}


def sendable_arguments(raw: str) -> str:
    """The raw text when it is a JSON object, else `{}`: servers refuse a history with anything else (bug cases 5,
    24).
    """
    try:
        return raw if isinstance(json.loads(raw, parse_constant=_no_constant), dict) else "{}"
    except (ValueError, RecursionError):
        return "{}"


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def joined(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """Neighbours of one plain role become one message, joined by a blank line: many gateways refuse them apart."""
    result: list[ChatMessage] = []
    for message in messages:
        last = result[-1] if result else None
        if last is not None and _plain(last) and _plain(message) and last["role"] == message["role"]:
            result[-1] = {"role": last["role"], "content": f"{last['content']}\n\n{message['content']}"}
        else:
            result.append(message)
    return result


def _plain(message: ChatMessage) -> bool:
    return message["role"] in ("user", "assistant") and "tool_calls" not in message


def marked(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The same messages with a cache mark on the newest one that may carry it: a user's or a tool's text (bug case
    27).
    """
    result = list(messages)
    for index in range(len(result) - 1, -1, -1):
        message = result[index]
        if message["role"] in ("user", "tool") and isinstance(message["content"], str) and message["content"]:
            part = {"type": "text", "text": message["content"], "cache_control": CACHE_MARK}
            result[index] = {**message, "content": [part]}
            break
    return result
