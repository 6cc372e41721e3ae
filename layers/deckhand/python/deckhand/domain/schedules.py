"""Schedules of items and cards: what is constrained of them."""

from typing import Any

from deckhand.domain.faults import Faults

KIND = "schedule"
SLOTS = ("morning", "midday", "evening", "night")
TYPES = ("daily", "weekly", "every_n_days", "on_off", "phased", "as_needed")


def check_schedule(schedule: Any, faults: Faults, path: str) -> None:
    if not faults.mapping(KIND, path, schedule):
        return
    if "type" in schedule:
        faults.one_of(KIND, f"{path}.type", schedule["type"], TYPES)
    if "time_of_day" in schedule:
        given = schedule["time_of_day"]
        slots = given if isinstance(given, list) else [given]
        known = bool(slots) and all(isinstance(slot, str) and slot in SLOTS for slot in slots)
        if not known or len(set(slots)) != len(slots):
            text = f"must be one of {', '.join(SLOTS)}, or a list of different ones"
            faults.add(KIND, f"{path}.time_of_day", text)


def check_items(data: Any, faults: Faults) -> None:
    """`data.items[].schedule`, where the data has it."""
    items = data.get("items") if isinstance(data, dict) else None
    for n, item in enumerate(items if isinstance(items, list) else []):
        if isinstance(item, dict) and "schedule" in item:
            check_schedule(item["schedule"], faults, f"data.items[{n}].schedule")
