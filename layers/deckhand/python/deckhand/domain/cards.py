"""Cards: what a manifest must be. What is not constrained here is stored as it is written."""

import re
from collections.abc import Mapping
from typing import Any

from deckhand.domain.errors import InvalidManifest, InvalidManifestField, InvalidManifestId
from deckhand.domain.faults import Fault, Faults
from deckhand.domain.metrics import METRICS
from deckhand.domain.notifications import check_notifications
from deckhand.domain.renderers import check_renderers
from deckhand.domain.schedules import check_items, check_schedule

SCHEMA = "klebb.datafile.v1"
ID_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]*")
MAX_ID = 64
RESERVED_IDS = {"_archive", "_virtual", "_meta", "auto-export", "reports", "index", "reorder", "validate"}
MAX_ROW_BYTES = 390_000
PARTS = ("$schema", "meta", "description", "schema", "data")
CATEGORIES = (
    "sleep",
    "recovery",
    "activity",
    "vitals",
    "body",
    "mindfulness",
    "lifestyle",
    "supplements",
    "medication",
)
MAX_EXPECT_DAYS = 730
MAX_STARTERS = 20


def check_manifest(manifest: Any) -> None:
    """Refuses what may not be stored. Raises `InvalidManifest` (the envelope), `InvalidManifestId`,
    `InvalidManifestField`; each lists every fault
    in `errors`."""
    faults = Faults()
    check_envelope(manifest, faults)
    if not faults.found:
        check_id(manifest["meta"]["id"], faults)
        check_fields(manifest, faults)
    if not faults.found:
        return
    kinds = {kind for kind, _, _ in faults.found}
    refusal = InvalidManifest if "envelope" in kinds else InvalidManifestId if "id" in kinds else InvalidManifestField
    raise refusal("; ".join(_sentence(*fault) for fault in faults.found), errors=faults.as_list())


def every_fault(manifest: Any) -> list[Fault]:
    """All faults of a candidate, the renderers' rules included: what `validate_manifest` answers."""
    faults = Faults()
    check_envelope(manifest, faults)
    meta = manifest.get("meta") if isinstance(manifest, Mapping) else None
    if isinstance(meta, Mapping):
        if isinstance(meta.get("id"), str) and meta["id"].strip():
            check_id(meta["id"], faults)
        check_fields(manifest, faults)
        check_renderers(manifest, faults)
    return faults.as_list()


def check_envelope(manifest: Any, faults: Faults) -> None:
    if not faults.mapping("envelope", "", manifest):
        return
    if manifest.get("$schema") != SCHEMA:
        faults.add("envelope", "$schema", f"must be {SCHEMA!r}")
    if faults.mapping("envelope", "meta", manifest.get("meta")):
        for name in ("id", "label"):
            faults.text("envelope", f"meta.{name}", manifest["meta"].get(name))
    if "description" in manifest:
        faults.text("envelope", "description", manifest["description"], low=0)
    if "schema" in manifest and faults.mapping("envelope", "schema", manifest["schema"]):
        wanted = manifest["schema"].get("type")
        if isinstance(wanted, str) and "data" in manifest and not has_type(manifest["data"], wanted):
            faults.add("envelope", "data", f"is not of the type {wanted!r} that schema.type asks for")
    for name in manifest:
        if name not in PARTS:
            faults.add("envelope", str(name), "is not a part of a manifest")


def check_id(card: str, faults: Faults) -> None:
    if not valid_id(card):
        text = f"must match ^[a-z0-9][a-z0-9._-]*$, have at most {MAX_ID} characters and not be a reserved name"
        faults.add("id", "meta.id", text)


def valid_id(card: str) -> bool:
    return len(card) <= MAX_ID and ID_PATTERN.fullmatch(card) is not None and card not in RESERVED_IDS


def id_only(text: str | None) -> str | None:
    """For records that name a card: what is no id of one is somebody's text, and stays out."""
    return text if text is not None and valid_id(text) else None


def check_fields(manifest: Mapping[str, Any], faults: Faults) -> None:
    """The constrained fields of `meta`, and schedules in the data."""
    meta = manifest["meta"]
    if "category" in meta:
        faults.one_of("category", "meta.category", meta["category"], CATEGORIES)
    if "enabled" in meta:
        faults.boolean("field", "meta.enabled", meta["enabled"])
    order = meta.get("order", 0)
    if isinstance(order, bool) or not isinstance(order, int | float):
        faults.add("field", "meta.order", "must be a number")
    if "notifications" in meta:
        check_notifications(meta["notifications"], faults)
    if "cadence" in meta:
        _check_cadence(meta["cadence"], faults)
    if "ingest" in meta:
        _check_ingest(meta["ingest"], faults)
    if "schedule" in meta:
        check_schedule(meta["schedule"], faults, "meta.schedule")
    check_items(manifest.get("data"), faults)
    if "writeable" in meta:
        faults.mapping("field", "meta.writeable", meta["writeable"])
    _check_starters(meta.get("chat"), faults)


def _check_cadence(cadence: Any, faults: Faults) -> None:
    if not faults.mapping("cadence", "meta.cadence", cadence):
        return
    days = cadence.get("expectDays")
    if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= MAX_EXPECT_DAYS:
        faults.add("cadence", "meta.cadence.expectDays", f"must be a whole number from 1 to {MAX_EXPECT_DAYS}")


def _check_ingest(ingest: Any, faults: Faults) -> None:
    if faults.mapping("ingest", "meta.ingest", ingest) and ingest.get("source") == "hae":
        faults.one_of("ingest", "meta.ingest.metric", ingest.get("metric"), METRICS)


def _check_starters(chat: Any, faults: Faults) -> None:
    if chat is None or not faults.mapping("field", "meta.chat", chat) or "starterPrompts" not in chat:
        return
    prompts = chat["starterPrompts"]
    if not isinstance(prompts, list) or len(prompts) > MAX_STARTERS:
        faults.add("field", "meta.chat.starterPrompts", f"must be a list of at most {MAX_STARTERS}")
        return
    for n, prompt in enumerate(prompts):
        path = f"meta.chat.starterPrompts[{n}]"
        if faults.mapping("field", path, prompt):
            faults.text("field", f"{path}.text", prompt.get("text"))
            faults.one_of("field", f"{path}.kind", prompt.get("kind"), ("data", "tweak"))


def has_type(value: Any, wanted: str) -> bool:
    """`schema.type`: `array`, `object`, `string`, `number`, `boolean` or `null`; no data fits every type, unknown
    words bind nothing.
    """
    if value is None:
        return True
    kinds: dict[str, bool] = {
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
        "string": isinstance(value, str),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
    }
    return kinds.get(wanted, True)


def _sentence(kind: str, path: str, message: str) -> str:
    prefix = "" if kind in ("envelope", "id", "field") else f"invalid {kind}: "
    return f"{prefix}{path or 'manifest'} {message}"


def first_line(description: str, limit: int) -> str:
    line = description.strip().split("\n", 1)[0].strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def enabled(manifest: Mapping[str, Any]) -> bool:
    return manifest["meta"].get("enabled") is not False
