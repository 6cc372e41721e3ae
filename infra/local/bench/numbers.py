"""Medians, percentiles and the table. Pure."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """`p50` and `p99` in `unit`; `target` as text, beside what was measured. `n` samples."""

    name: str
    unit: str
    p50: float
    p99: float | None
    n: int
    target: str


def measure(name: str, unit: str, samples: Sequence[float], target: str) -> Measure:
    """Raises ValueError without a sample: nothing measured is never a number."""
    if not samples:
        raise ValueError(f"{name}: nothing was measured")
    return Measure(name, unit, statistics.median(samples), percentile(samples, 99), len(samples), target)


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that at least `percent` of all do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def table(measures: Sequence[Measure]) -> str:
    """In Markdown, as the README has it."""
    lines = ["| measure | p50 | p99 | n | target |", "| --- | --- | --- | --- | --- |"]
    for one in measures:
        p99 = "" if one.p99 is None or one.n == 1 else f"{one.p99:,.1f} {one.unit}"
        lines.append(f"| {one.name} | {one.p50:,.1f} {one.unit} | {p99} | {one.n} | {one.target} |")
    return "\n".join(lines)
