"""The routes that are no operations, as OpenAPI describes them: chat, which streams, and what anybody may ask."""

from typing import Any

from deckhand.edge.openapi_route import ERROR, answer, described
from deckhand.edge.shapes import (
    ChatStatus,
    Described,
    DirectReply,
    Instance,
    OneDecided,
    OneStillOpen,
    OpenProposals,
    QueuedMessage,
    RunningTurns,
    SeveralDecided,
    SeveralStillOpen,
    StoppedReply,
    StoppedTurn,
    StoppedTurns,
    WakingReply,
)
from deckhand.operations.shapes import Done
from deckhand.turns.reply import Reply

_STREAM = {"text/event-stream": {"schema": {"type": "string"}}}
_TEXT = {"type": "string", "minLength": 1}


def _route(name: str, summary: str, answers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return described(name, summary, answers, **{"tag": "chat", **more})


_MESSAGE = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {"role": {"enum": ["user", "assistant"]}, "content": _TEXT},
}
_CHAT = {
    "type": "object",
    "required": ["messages"],
    "properties": {
        "messages": {"type": "array", "minItems": 1, "maxItems": 200, "items": _MESSAGE},
        "conversationId": {"type": "string", "description": "The messages are then the new turn only."},
        "stream": {"type": "boolean"},
        "voiceMode": {"type": "boolean"},
        "viewedCardId": {"type": "string"},
        "context": {
            "type": "object",
            "properties": {"route": {"type": "string"}, "model": {"type": "string"}, "record": {"type": "string"}},
        },
        "onBusy": {"enum": ["reject", "interrupt", "enqueue"]},
    },
}
_DIRECT = {
    "type": "object",
    "required": ["message"],
    "properties": {
        "message": _TEXT,
        "sessionId": {"type": "string", "maxLength": 200},
        "wakeMode": {
            "enum": ["wait", "resume"],
            "description": "`wait` may answer `pendingWake: {pod}`: no model was asked. `resume` never wakes.",
        },
    },
}
_CONVERSATION = {"name": "conversationId", "in": "path", "required": True, "schema": {"type": "string"}}

_PROPOSAL = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
_REASON = {"type": "string", "maxLength": 500}
_DECISIONS = {
    "decisions": {
        "type": "array",
        "minItems": 1,
        "maxItems": 50,
        "items": {
            "type": "object",
            "required": ["id", "decision"],
            "additionalProperties": False,
            "properties": {
                "id": {"type": "string"},
                "decision": {"enum": ["confirm", "reject"]},
                "arguments": {"type": "object"},
                "reason": _REASON,
            },
        },
    },
    "stream": {"type": "boolean"},
}
_LATE = {"409": ERROR, "410": ERROR}
_GOING_ON = "The reply of the turn that goes on, its events with `stream`, or what is still to be decided."
_DECIDED = {"200": answer(_GOING_ON, Reply | StoppedReply | OneStillOpen | OneDecided, **_STREAM), **_LATE}
_SEVERAL_DECIDED = {
    "200": answer(
        f"{_GOING_ON} It has `decisions`, and so has the event that ends the stream: `reply`, `error` or `stopped`.",
        Reply | StoppedReply | SeveralStillOpen | SeveralDecided,
        **_STREAM,
    ),
    **_LATE,
}


def _body(properties: dict[str, Any], required: tuple[str, ...] = ("decisions",)) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    named = {"required": list(required)} if required else {}
    return {"required": bool(required), "content": {"application/json": {"schema": {**schema, **named}}}}


CHAT_PATHS: dict[str, dict[str, Any]] = {
    "/api/chat": {
        "post": _route(
            "chat",
            "Start a turn",
            {
                "200": answer(
                    "The reply, or with `stream` the turn's events as they come; the last two of the direct form.",
                    Reply | StoppedReply | DirectReply | WakingReply,
                    **_STREAM,
                ),
                "202": answer("Queued behind the turn that is running.", QueuedMessage),
                "409": ERROR,
            },
            parameters=[{"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}],
            requestBody={
                "required": True,
                "content": {"application/json": {"schema": {"oneOf": [_CHAT, _DIRECT]}}},
            },
            security=[{"token": []}, {"chatToken": []}],
        )
    },
    "/api/chat/status": {"get": _route("chat_status", "Whether chat is set up", {"200": answer("OK", ChatStatus)})},
    "/api/chat/turns": {
        "get": _route(
            "list_turns",
            "List running turns",
            {"200": answer("Yours; an owner, and the operator, sees everybody's.", RunningTurns)},
        ),
        "delete": _route(
            "stop_turns",
            "Stop all running turns",
            {"200": answer("Yours; an owner, and the operator, stops everybody's.", StoppedTurns)},
        ),
    },
    "/api/chat/proposals": {
        "get": _route(
            "list_proposals",
            "List what waits for a yes",
            {"200": answer("OK", OpenProposals)},
            parameters=[
                {
                    "name": "conversationId",
                    "in": "query",
                    "schema": {"type": "string"},
                    "description": "Left out: all that waits for you, the newest first, at most 50.",
                }
            ],
        )
    },
    "/api/chat/proposals/decisions": {
        "post": _route(
            "decide_proposals", "Decide on several proposals", _SEVERAL_DECIDED, requestBody=_body(_DECISIONS)
        )
    },
    "/api/chat/proposals/{id}/confirm": {
        "post": _route(
            "confirm_proposal",
            "Confirm a proposal",
            _DECIDED,
            parameters=[_PROPOSAL],
            requestBody=_body({"arguments": {"type": "object"}, "stream": {"type": "boolean"}}, required=()),
        )
    },
    "/api/chat/proposals/{id}/reject": {
        "post": _route(
            "reject_proposal",
            "Reject a proposal",
            _DECIDED,
            parameters=[_PROPOSAL],
            requestBody=_body({"reason": _REASON, "stream": {"type": "boolean"}}, required=()),
        )
    },
    "/api/chat/turn/{conversationId}": {
        "get": _route(
            "reattach",
            "Watch a turn, from its start or after an event",
            {
                "200": {"description": "The turn's events.", "content": _STREAM},
                "204": {"description": "There is nothing to tell."},
            },
            parameters=[
                _CONVERSATION,
                {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}},
                {"name": "after", "in": "query", "schema": {"type": "string"}},
            ],
        ),
        "delete": _route(
            "stop_turn",
            "Stop a turn",
            {"200": answer("It is asked to stop, and does so within a second or two.", StoppedTurn)},
            parameters=[_CONVERSATION, {"name": "turnId", "in": "query", "schema": {"type": "string"}}],
        ),
    },
}

PUBLIC_PATHS: dict[str, dict[str, Any]] = {
    path: {"get": _route(name, summary, {"200": answer("OK", shape)}, tag="public", security=[])}
    for path, name, summary, shape in (
        ("/healthz", "healthz", "Whether the service is alive", Done),
        ("/api/instance", "instance", "How the instance and its agent are called", Instance),
        ("/openapi.json", "openapi", "This document", Described),
    )
}
