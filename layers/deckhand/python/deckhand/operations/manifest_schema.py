"""What OpenAPI says of manifests, patches and triggers; the rules themselves are in `domain/cards.py`. A model is told
in words, which are shorter.
"""

from typing import Any

from deckhand.domain.cards import CATEGORIES, ID_PATTERN, MAX_EXPECT_DAYS, MAX_ID, MAX_STARTERS, SCHEMA
from deckhand.domain.notifications import DAYS, ITEM_ID, MAX_BODY, MAX_ITEMS, MAX_LABEL, MAX_TITLE, TIME
from deckhand.domain.renderers import VIEWS
from deckhand.domain.schedules import SLOTS, TYPES

Schema = dict[str, Any]


def _text(high: int | None = None) -> Schema:
    return {"type": "string", "minLength": 1} | ({} if high is None else {"maxLength": high})


def _object(properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    return {"type": "object", "properties": properties} | ({"required": list(required)} if required else {})


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


_TIME: Schema = {"type": "string", "pattern": f"^{TIME.pattern}$"}
TRIGGER: Schema = {
    "oneOf": [
        _object({"type": {"const": "daily"}, "time": _TIME}, ("type", "time")),
        _object(
            {
                "type": {"const": "weekly"},
                "time": _TIME,
                "days": _list({"enum": list(DAYS)}, minItems=1, uniqueItems=True),
            },
            ("type", "time", "days"),
        ),
        _object(
            {"type": {"const": "schedule_due"}, "time": _TIME, "card": _text(), "time_of_day": {"enum": list(SLOTS)}},
            ("type", "time", "card", "time_of_day"),
        ),
    ]
}
_REMINDER = _object(
    {
        "id": {"type": "string", "pattern": f"^{ITEM_ID.pattern}$"},
        "label": _text(MAX_LABEL),
        "title": _text(MAX_TITLE),
        "body": _text(MAX_BODY),
        "trigger": TRIGGER,
        "privacy": {"enum": ["private", "public"]},
        "default": {"enum": ["on", "off"]},
    },
    ("id", "label", "title", "body", "trigger"),
)
_VIEW = _object({"enabled": {"type": "boolean"}, "component": _text(), "display": {"type": "object"}})
_SLOT: Schema = {"enum": list(SLOTS)}
_META = {
    "label": _text(),
    "emoji": {"type": "string"},
    "order": {"type": "number"},
    "enabled": {"type": "boolean"},
    "category": {"enum": list(CATEGORIES)},
    **{view: _VIEW for view in VIEWS},
    "writeable": _object({"fromWebapp": {"type": "boolean"}, "inputs": _list({"type": "object"})}),
    "notifications": _object({"enabled": {"type": "boolean"}, "items": _list(_REMINDER, maxItems=MAX_ITEMS)}),
    "cadence": _object({"expectDays": {"type": "integer", "minimum": 1, "maximum": MAX_EXPECT_DAYS}}, ("expectDays",)),
    "ingest": _object({"source": {"type": "string"}, "metric": {"type": "string"}}),
    "schedule": _object(
        {"type": {"enum": list(TYPES)}, "time_of_day": {"oneOf": [_SLOT, _list(_SLOT, minItems=1, uniqueItems=True)]}}
    ),
    "chat": _object(
        {
            "starterPrompts": _list(
                _object({"text": _text(), "kind": {"enum": ["data", "tweak"]}}, ("text", "kind")), maxItems=MAX_STARTERS
            )
        }
    ),
}
_ID: Schema = {"type": "string", "pattern": f"^{ID_PATTERN.pattern}$", "maxLength": MAX_ID}
MANIFEST: Schema = {
    **_object(
        {
            "$schema": {"const": SCHEMA},
            "meta": _object({"id": _ID, **_META}, ("id", "label")),
            "description": {"type": "string"},
            "schema": _object({"type": {"type": "string"}}),
            "data": {},
        },
        ("$schema", "meta"),
    ),
    "additionalProperties": False,
}
PATCH: Schema = {
    **_object({"meta": _object(_META), "description": {"type": ["string", "null"]}}),
    "additionalProperties": False,
    "minProperties": 1,
}
