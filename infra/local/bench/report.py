"""`deckhand bench`: measures this machine and prints a table. Everything it starts is on loopback and ends with it."""

import dataclasses
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from infra.local.bench.bench_stack import running_stack
from infra.local.bench.cards import card_measures
from infra.local.bench.imports import import_measures
from infra.local.bench.lost import lost_measures
from infra.local.bench.numbers import Measure, table
from infra.local.bench.storage_cost import cost_measures
from infra.local.bench.stream import stream_measures


def run(*, quick: bool, as_json: bool) -> int:
    """Exit code 0 when everything was measured, whatever the numbers."""
    # Turns that run in this process would print their metrics into the table.
    os.environ["POWERTOOLS_METRICS_DISABLED"] = "true"
    measures = []
    for one in _all(quick=quick):
        measures.append(one)
        print(f"{one.name}: {one.p50:,.1f} {one.unit}", file=sys.stderr, flush=True)
    print(
        json.dumps([dataclasses.asdict(one) for one in measures]) if as_json else f"{_machine()}\n\n{table(measures)}"
    )
    return 0


def _all(*, quick: bool) -> Iterator[Measure]:
    with running_stack() as stack:
        yield from stream_measures(stack)
        yield from card_measures(stack)
    yield from lost_measures()
    with tempfile.TemporaryDirectory() as folder:
        yield from cost_measures(Path(folder), quick=quick)
    yield from import_measures()


def _machine() -> str:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, load {load}"
    )
