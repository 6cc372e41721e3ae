"""Ids made from labels."""

import re
import unicodedata
from collections.abc import Container

MAX_SLUG = 64


def slug(label: str, taken: Container[str], fallback: str) -> str:
    """Lower case, runs of anything else as one dash; `-2`, `-3`, … when it is taken."""
    plain = unicodedata.normalize("NFKD", label).encode("ascii", "ignore").decode().lower()
    base = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[: MAX_SLUG - 4] or fallback
    if base not in taken:
        return base
    number = 2
    while f"{base}-{number}" in taken:
        number += 1
    return f"{base}-{number}"
