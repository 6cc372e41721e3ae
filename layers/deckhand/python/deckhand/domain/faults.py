"""Collecting every fault of a value, each with its path, in place of stopping at the first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import TypedDict


class Fault(TypedDict):
    path: str
    message: str


@dataclass(slots=True)
class Faults:
    """`found` are `(kind, path, message)`; the kind decides how a refusal is reported."""

    found: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, kind: str, path: str, message: str) -> None:
        self.found.append((kind, path, message))

    def text(self, kind: str, path: str, value: Any, *, low: int = 1, high: int | None = None) -> bool:
        """A text of `low` to `high` characters."""
        if not isinstance(value, str) or len(value.strip()) < low:
            self.add(kind, path, "must be a text that is not empty" if low else "must be a text")
            return False
        if high is not None and len(value) > high:
            self.add(kind, path, f"has {len(value)} characters; at most {high} are allowed")
            return False
        return True

    def mapping(self, kind: str, path: str, value: Any) -> bool:
        if isinstance(value, Mapping):
            return True
        self.add(kind, path, "must be an object")
        return False

    def one_of(self, kind: str, path: str, value: Any, allowed: Iterable[str]) -> bool:
        known = list(allowed)
        if isinstance(value, str) and value in known:
            return True
        self.add(kind, path, f"must be one of {', '.join(known)}")
        return False

    def boolean(self, kind: str, path: str, value: Any) -> bool:
        if isinstance(value, bool):
            return True
        self.add(kind, path, "must be true or false")
        return False

    def as_list(self) -> list[Fault]:
        return [{"path": path, "message": message} for _, path, message in self.found]
