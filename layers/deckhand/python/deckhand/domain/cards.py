"""Cards: the manifest's rules and the shape of rows."""

import re
from typing import Any

from deckhand.domain.errors import InvalidManifest, InvalidManifestId

SCHEMA = "klebb.datafile.v1"
ID_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]*")
MAX_ID = 64
RESERVED_IDS = {"_archive", "_virtual", "_meta", "auto-export", "reports", "index", "reorder", "validate"}
MAX_ROW_BYTES = 390_000


def check_manifest(manifest: Any) -> None:
    """The envelope that every card must have. Raises `InvalidManifest` or, for the id's form, `InvalidManifestId`;
    `errors` lists all.
    """
    errors = list(_envelope_errors(manifest))
    if errors:
        raise InvalidManifest(_joined(errors), errors=[{"path": path, "message": text} for path, text in errors])
    card = manifest["meta"]["id"]
    if not valid_id(card):
        text = f"must match ^[a-z0-9][a-z0-9._-]*$, have at most {MAX_ID} characters and not be reserved"
        raise InvalidManifestId(f"meta.id {text}", errors=[{"path": "meta.id", "message": text}])


def valid_id(card: str) -> bool:
    return len(card) <= MAX_ID and ID_PATTERN.fullmatch(card) is not None and card not in RESERVED_IDS


def _envelope_errors(manifest: Any) -> list[tuple[str, str]]:
    if not isinstance(manifest, dict):
        return [("", "must be an object")]
    errors: list[tuple[str, str]] = []
    if manifest.get("$schema") != SCHEMA:
        errors.append(("$schema", f"must be {SCHEMA!r}"))
    meta = manifest.get("meta")
    if not isinstance(meta, dict):
        errors.append(("meta", "must be an object"))
    else:
        errors += [
            (f"meta.{name}", "must be a text that is not empty")
            for name in ("id", "label")
            if not isinstance(meta.get(name), str) or not meta[name].strip()
        ]
    if not isinstance(manifest.get("description", ""), str):
        errors.append(("description", "must be a text"))
    unknown = sorted(set(manifest) - {"$schema", "meta", "description", "schema", "data"})
    errors += [(name, "is not a part of a manifest") for name in unknown]
    return errors


def _joined(errors: list[tuple[str, str]]) -> str:
    return "; ".join(f"{path or 'manifest'} {text}" for path, text in errors)


def first_line(description: str, limit: int) -> str:
    line = description.strip().split("\n", 1)[0].strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
