"""What cards cost over HTTP, and the parts of a turn that grow with them."""

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

from deckhand.agent.prompt import Surroundings, segments
from deckhand.domain.cards import every_fault
from infra.local.api_client import Api
from infra.local.bench.bench_stack import BenchStack, timed
from infra.local.bench.numbers import Measure, at_most, measure

CARDS, ROWS, READ = 60, 20_000, 5_000


def card_measures(stack: BenchStack) -> Iterator[Measure]:
    api = stack.api()
    _make(api, "empty", [])
    _make(api, "full", _rows(ROWS))
    _make(api, "read", _rows(READ))
    small, large = _appends(api, "empty"), _appends(api, "full")
    empty = measure("append a row over HTTP, empty card", "ms", small, at_most(15))
    full = measure("append a row over HTTP, 20,000 rows", "ms", large, at_most(15))
    yield from (empty, full)
    yield measure("ratio of the two", "×", [full.p50 / empty.p50], at_most(1.3))
    yield measure("read 5,000 rows", "ms", _calls(api, "/api/manifests/read/data", 10), at_most(150))
    for number in range(CARDS - 3):
        _make(api, f"card-{number}", _rows(5))
    yield measure("recent activity over 60 cards", "ms", _calls(api, "/api/activity", 20), at_most(100))
    api.close()
    yield measure("prompt for 60 cards", "ms", _prompts(), at_most(10))
    yield measure("validate a manifest", "ms", _validations(), at_most(5))


def _manifest(card: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "$schema": "klebb.datafile.v1",
        "meta": {"id": card, "label": card, "writeable": {"fromWebapp": True, "inputs": [{"key": "kg"}]}},
        "description": "Rows: date, kg.",
        "data": rows,
    }


def _rows(count: int) -> list[dict[str, Any]]:
    return [{"date": (date(1970, 1, 1) + timedelta(days=n)).isoformat(), "kg": 80 + n % 10} for n in range(count)]


def _make(api: Api, card: str, rows: list[dict[str, Any]]) -> None:
    api.call("POST", "/api/manifests", _manifest(card, rows))


def _appends(api: Api, card: str) -> list[float]:
    return [
        timed(api, "POST", f"/api/manifests/{card}/rows", {"value": {"date": "2026-01-01", "kg": 81.5}})
        for _ in range(40)
    ]


def _calls(api: Api, path: str, count: int) -> list[float]:
    return [timed(api, "GET", path) for _ in range(count)]


def _prompts() -> list[float]:
    cards = [(f"card-{n}", f"Card {n}", "Rows: date, kg.") for n in range(CARDS)]
    samples = []
    for _ in range(50):
        began = time.perf_counter()
        segments(Surroundings(agent_name="Chat", base=None, cards=cards, now=datetime.now(UTC)))
        samples.append((time.perf_counter() - began) * 1000)
    return samples


def _validations() -> list[float]:
    manifest = _manifest("weight", _rows(100))
    samples = []
    for _ in range(50):
        began = time.perf_counter()
        every_fault(manifest)
        samples.append((time.perf_counter() - began) * 1000)
    return samples
