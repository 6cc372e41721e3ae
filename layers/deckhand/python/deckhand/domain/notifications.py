"""The reminder items of a card: `meta.notifications`."""

import re
from collections.abc import Mapping
from typing import Any

from deckhand.domain.faults import Faults
from deckhand.domain.reminder_copy import telling
from deckhand.domain.schedules import SLOTS

KIND = "notifications"
MAX_ITEMS = 10
MAX_LABEL, MAX_TITLE, MAX_BODY = 80, 30, 80
ITEM_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
TIME = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]")
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
TRIGGER_PARTS = {
    "daily": ("type", "time"),
    "weekly": ("type", "time", "days"),
    "schedule_due": ("type", "time", "card", "time_of_day"),
}


def check_notifications(block: Any, faults: Faults, path: str = "meta.notifications") -> None:
    if not faults.mapping(KIND, path, block):
        return
    if "enabled" in block:
        faults.boolean(KIND, f"{path}.enabled", block["enabled"])
    items = block.get("items", [])
    if not isinstance(items, list):
        faults.add(KIND, f"{path}.items", "must be a list")
        return
    if len(items) > MAX_ITEMS:
        faults.add(KIND, f"{path}.items", f"has {len(items)} items; at most {MAX_ITEMS} are allowed")
    seen: set[str] = set()
    for n, item in enumerate(items):
        check_item(item, faults, f"{path}.items[{n}]")
        item_id = item.get("id") if isinstance(item, dict) else None
        if isinstance(item_id, str):
            if item_id in seen:
                faults.add(KIND, f"{path}.items[{n}].id", "is there twice")
            seen.add(item_id)


def check_item(item: Any, faults: Faults, path: str) -> None:
    if not faults.mapping(KIND, path, item):
        return
    item_id = item.get("id")
    if not isinstance(item_id, str) or ITEM_ID.fullmatch(item_id) is None:
        faults.add(KIND, f"{path}.id", "must match ^[a-z0-9][a-z0-9._-]{0,63}$")
    faults.text(KIND, f"{path}.label", item.get("label"), high=MAX_LABEL)
    faults.text(KIND, f"{path}.title", item.get("title"), high=MAX_TITLE)
    faults.text(KIND, f"{path}.body", item.get("body"), high=MAX_BODY)
    for name in ("title", "body"):
        check_copy(item.get(name), faults, f"{path}.{name}")
    check_trigger(item.get("trigger"), faults, f"{path}.trigger")
    if "privacy" in item:
        faults.one_of(KIND, f"{path}.privacy", item["privacy"], ("private", "public"))
    if "default" in item:
        faults.one_of(KIND, f"{path}.default", item["default"], ("on", "off"))
    if "action" in item and faults.mapping(KIND, f"{path}.action", item["action"]):
        faults.one_of(KIND, f"{path}.action.type", item["action"].get("type"), ("open-card",))


def check_copy(text: Any, faults: Faults, path: str) -> None:
    what = telling(text) if isinstance(text, str) else None
    if what is not None:
        reason = "a reminder is read by whoever sees the phone, so say what to do, without values or dates"
        faults.add(KIND, path, f"holds {what}: {reason}")


def check_trigger(trigger: Any, faults: Faults, path: str) -> None:
    if not faults.mapping(KIND, path, trigger):
        return
    kind = trigger.get("type")
    if not faults.one_of(KIND, f"{path}.type", kind, TRIGGER_PARTS):
        return
    time = trigger.get("time")
    if not isinstance(time, str) or TIME.fullmatch(time) is None:
        faults.add(KIND, f"{path}.time", "must be a time of day as HH:MM, 00:00 to 23:59")
    if kind == "weekly":
        days = trigger.get("days")
        known = isinstance(days, list) and days and all(isinstance(day, str) and day in DAYS for day in days)
        if not known:
            faults.add(KIND, f"{path}.days", f"must be a list of days out of {', '.join(DAYS)}")
        elif isinstance(days, list) and len(set(days)) != len(days):
            faults.add(KIND, f"{path}.days", "names a day twice")
    if kind == "schedule_due":
        faults.text(KIND, f"{path}.card", trigger.get("card"))
        faults.one_of(KIND, f"{path}.time_of_day", trigger.get("time_of_day"), SLOTS)


def plain_trigger(trigger: Mapping[str, Any]) -> dict[str, Any]:
    """A trigger as it was meant, in the one form that is stored: days by name, nothing that its type does not know."""
    parts = TRIGGER_PARTS.get(str(trigger.get("type")), tuple(trigger))
    plain = {name: trigger[name] for name in parts if name in trigger}
    if isinstance(plain.get("days"), list):
        plain["days"] = [weekday(day) for day in plain["days"]]
    return plain


def weekday(value: Any) -> Any:
    """The name of a day that was written otherwise (`7`, `Sunday`); anything else as it is (bug case 59)."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= len(DAYS):
        return DAYS[(value - 1) % len(DAYS)]
    written = value.strip().lower() if isinstance(value, str) else ""
    named = [
        short for short, long in zip(DAYS, _DAY_NAMES, strict=True) if len(written) > 2 and long.startswith(written)
    ]
    return named[0] if named else value
