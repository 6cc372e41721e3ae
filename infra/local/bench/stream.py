"""Latency and throughput of streams, as a client on the same machine sees them."""

import statistics
import time
from collections.abc import Iterator
from threading import Thread

from infra.local.bench.bench_stack import BenchStack
from infra.local.bench.numbers import Measure, measure
from infra.local.sse_client import Message

EVENTS = 5_000


def stream_measures(stack: BenchStack) -> Iterator[Measure]:
    cold, _ = _turn(stack, 1, 0)
    yield measure("request → first event, first call of a process", "ms", [cold], "–")
    warm = [_turn(stack, 1, 0)[0] for _ in range(30)]
    yield measure("request → first event, warm (turn start)", "ms", warm, "≤ 25 and ≤ 30 ms")
    paced = [delay for _ in range(3) for delay in _turn(stack, 300, 10)[1]]
    yield measure("token made → byte at the client, 100 tokens/s", "ms", paced, "p50 ≤ 1.2, p99 ≤ 8 ms")
    yield measure("tokens through, flat out", "tokens/s", [_rate(stack) for _ in range(5)], "≥ 4,000")
    yield from _replays(stack)
    yield measure("reattached while live, behind the first watcher", "ms", _behind(stack), "p95 ≤ 150 ms")


def _turn(stack: BenchStack, tokens: int, pause_ms: float) -> tuple[float, list[float]]:
    """Milliseconds to the first event, and of each token from its making to here."""
    api = stack.api()
    conversation = api.call("POST", "/api/conversations", {})["conversation"]["id"]
    began, first, delays = time.perf_counter(), 0.0, list[float]()
    for message in api.turn(conversation, f"tokens={tokens} pause={pause_ms}"):
        first = first or (time.perf_counter() - began) * 1000
        if message.event == "token":
            delays.append((time.time() - float(message.data["text"])) * 1000)
    api.close()
    return first, delays


def _rate(stack: BenchStack) -> float:
    api = stack.api()
    conversation = api.call("POST", "/api/conversations", {})["conversation"]["id"]
    began = time.perf_counter()
    count = sum(message.event == "token" for message in api.turn(conversation, f"tokens={EVENTS} pause=0"))
    api.close()
    return count / (time.perf_counter() - began)


def _replays(stack: BenchStack) -> Iterator[Measure]:
    api = stack.api()
    conversation = api.call("POST", "/api/conversations", {})["conversation"]["id"]
    for _ in api.turn(conversation, f"tokens={EVENTS - 10} pause=0"):
        pass
    firsts, wholes = [], []
    for _ in range(10):
        began = time.perf_counter()
        events = api.reattach(conversation)
        next(events)
        firsts.append((time.perf_counter() - began) * 1000)
        count = 1 + sum(1 for _ in events)
        wholes.append((time.perf_counter() - began) * 1000)
        if count < EVENTS - 10:
            raise ValueError(f"the replay gave {count} events only")
    api.close()
    yield measure("reattach of a 5,000-event turn, first event", "ms", firsts, "≤ 20 ms")
    yield measure("reattach of a 5,000-event turn, whole", "ms", wholes, "≤ 150 ms")


def _behind(stack: BenchStack) -> list[float]:
    """By how much a second watcher gets each event later than the first."""
    api, second = stack.api(), stack.api()
    conversation = api.call("POST", "/api/conversations", {})["conversation"]["id"]
    seen: list[dict[int, float]] = [{}, {}]

    def watch(events: Iterator[Message], into: dict[int, float]) -> None:
        for message in events:
            if message.id is not None:
                into[message.id] = time.perf_counter()

    first = api.turn(conversation, "tokens=300 pause=10")
    opening = next(first)
    seen[0][opening.id or 0] = time.perf_counter()
    threads = [
        Thread(target=watch, args=(first, seen[0])),
        Thread(target=watch, args=(second.reattach(conversation), seen[1])),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    api.close()
    second.close()
    lags = [(seen[1][n] - seen[0][n]) * 1000 for n in seen[0] if n in seen[1]]
    return lags if statistics.fmean(lags) > 0 else []
