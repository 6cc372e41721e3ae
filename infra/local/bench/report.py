"""All measurements, and how they are shown. Everything that is started is on loopback and ends with the report."""

import dataclasses
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from infra.local.bench.bench_stack import running_stack
from infra.local.bench.cards import card_measures
from infra.local.bench.gate import gate_measures
from infra.local.bench.imports import import_measures
from infra.local.bench.lost import lost_measures
from infra.local.bench.numbers import Measure, table
from infra.local.bench.policy import policy_measures
from infra.local.bench.reminders import reminder_measures
from infra.local.bench.search import search_measures
from infra.local.bench.storage_cost import cost_measures
from infra.local.bench.stream import stream_measures


def run(*, quick: bool, as_json: bool) -> int:
    """Exit code 0 when everything was measured, whatever the numbers. Raises CannotMeasureError."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    # Turns that run in this process would print their metrics into the table.
    os.environ["POWERTOOLS_METRICS_DISABLED"] = "true"
    machine = _machine()
    measures = []
    for one in _all(quick=quick):
        measures.append(one)
        print(f"{one.name}: {one.p50:,.1f} {one.unit}".rstrip(), file=sys.stderr, flush=True)
    if as_json:
        print(json.dumps({"machine": machine, "measures": [_plain(one) for one in measures]}, ensure_ascii=False))
    else:
        print(f"{machine}\n\n{table(measures)}")
    return 0


def _leave(number: int, _: object) -> NoReturn:
    """An exception, so that what was started is ended on the way out."""
    sys.exit(128 + number)


def _all(*, quick: bool) -> Iterator[Measure]:
    with running_stack() as stack:
        yield from stream_measures(stack)
        yield from card_measures(stack)
        yield from search_measures(stack)
    yield from lost_measures()
    yield from policy_measures()
    with tempfile.TemporaryDirectory() as folder:
        yield from reminder_measures(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        yield from gate_measures(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        yield from cost_measures(Path(folder), quick=quick)
    yield from import_measures()


def _plain(one: Measure) -> dict[str, object]:
    return {**dataclasses.asdict(one), "met": one.met}


def _machine() -> str:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, load before {load}"
    )
