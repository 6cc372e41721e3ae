"""Medians, percentiles, targets and the table. Pure."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Figure = Literal["p50", "p95", "p99"]


@dataclass(frozen=True)
class Target:
    """What a figure of a measure must not pass."""

    figure: Figure
    sign: Literal["≤", "≥"]
    limit: float

    def met(self, value: float) -> bool:
        return value <= self.limit if self.sign == "≤" else value >= self.limit


@dataclass(frozen=True)
class Measure:
    """Figures of `n` samples in `unit`, and the targets beside them."""

    name: str
    unit: str
    p50: float
    p95: float
    p99: float
    n: int
    targets: tuple[Target, ...] = ()

    @property
    def met(self) -> bool | None:
        """None where there is no target."""
        return all(one.met(getattr(self, one.figure)) for one in self.targets) if self.targets else None


def at_most(limit: float, figure: Figure = "p50") -> Target:
    return Target(figure, "≤", limit)


def at_least(limit: float, figure: Figure = "p50") -> Target:
    return Target(figure, "≥", limit)


def measure(name: str, unit: str, samples: Sequence[float], *targets: Target) -> Measure:
    """Raises ValueError without a sample: nothing measured is never a number."""
    if not samples:
        raise ValueError(f"{name}: nothing was measured")
    p95, p99 = percentile(samples, 95), percentile(samples, 99)
    return Measure(name, unit, statistics.median(samples), p95, p99, len(samples), targets)


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that at least `percent` of all do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def table(measures: Sequence[Measure]) -> str:
    """In Markdown, as the README has it."""
    lines = ["| measure | p50 | p95 | p99 | n | target | met |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for one in measures:
        spread = [_number(one.p95, one.unit), _number(one.p99, one.unit)] if one.n > 1 else ["", ""]
        cells = [one.name, _number(one.p50, one.unit), *spread, str(one.n), _targets(one), _MET[one.met]]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


_MET = {True: "yes", False: "**no**", None: ""}


def _targets(one: Measure) -> str:
    alone = [target.figure for target in one.targets] == ["p50"]
    return ", ".join(
        f"{'' if alone else f'{target.figure} '}{target.sign} {target.limit:,g} {one.unit}".rstrip()
        for target in one.targets
    )


def _number(value: float, unit: str) -> str:
    size = abs(value)
    digits = 0 if size >= 1_000 or unit in COUNTED else 1 if size >= 10 else 2 if size >= 0.1 else 4
    return f"{value:,.{digits}f} {unit}".rstrip()


COUNTED = ("WU", "RU", "")
"""Units of what is counted, not measured."""
