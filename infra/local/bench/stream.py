"""Latency and throughput of streams, as a client on the same machine sees them."""

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from infra.local.api_client import Api
from infra.local.bench.bench_stack import BenchStack
from infra.local.bench.numbers import Measure, at_least, at_most, measure
from infra.local.bench.processes import CannotMeasureError
from infra.local.sse_client import Message

EVENTS = 5_000
AROUND = 3
"""Events of a turn that are no tokens: `status`, `reply`, `done`."""
REST_SECONDS = 0.05
"""Between turns that are to be warm: the last one's process is free again a moment after its `done`."""
FRESH = 8


@dataclass
class Watched:
    """A turn as a client got it: milliseconds to the first event, of each token from its making to here, and when each
    event came (seconds of `perf_counter`, by id).
    """

    first: float = 0.0
    delays: list[float] = field(default_factory=list)
    came: dict[int, float] = field(default_factory=dict)
    whole: float = 0.0


def stream_measures(stack: BenchStack) -> Iterator[Measure]:
    with contextlib.closing(stack.api()) as api:
        yield measure("request → first event, first call of a process", "ms", _first_calls(api))
        _turn(api, 1, 0)
        warm = [_turn(api, 1, 0).first for _ in range(40)]
        yield measure("request → first event, warm (turn start)", "ms", warm, at_most(25))
        paced = [delay for _ in range(3) for delay in _turn(api, 400, 10).delays]
        name = "token made → byte at the client, 100 tokens/s"
        yield measure(name, "ms", paced, at_most(1.2), at_most(8, "p99"))
        rates = [EVENTS / (_turn(api, EVENTS, 0).whole / 1000) for _ in range(7)]
        yield measure("tokens through, flat out", "tokens/s", rates, at_least(4_000))
        yield from _replays(api)
        name = "reattached while live, behind the first watcher"
        yield measure(name, "ms", _behind(api), at_most(150, "p95"))


def _new_conversation(api: Api) -> str:
    return str(api.call("POST", "/api/conversations", {})["conversation"]["id"])


def _ask(api: Api, conversation: str, tokens: int, pause_ms: float) -> Iterator[Message]:
    return api.turn(conversation, f"tokens={tokens} pause={pause_ms}")


def _watch(events: Iterator[Message], began: float) -> Watched:
    seen = Watched()
    for message in events:
        now = time.perf_counter()
        seen.first = seen.first or (now - began) * 1000
        if message.event == "token":
            seen.delays.append((time.time() - float(message.data["text"])) * 1000)
        elif message.event == "error":
            raise CannotMeasureError(f"A turn failed: {message.data['error']}")
        if message.id is not None:
            seen.came[message.id] = now
    seen.whole = (time.perf_counter() - began) * 1000
    return seen


def _turn(api: Api, tokens: int, pause_ms: float) -> Watched:
    conversation = _new_conversation(api)
    time.sleep(REST_SECONDS)
    began = time.perf_counter()
    seen = _watch(_ask(api, conversation, tokens, pause_ms), began)
    if len(seen.delays) != tokens:
        raise CannotMeasureError(f"{len(seen.delays)} of {tokens} tokens came.")
    return seen


def _first_calls(api: Api) -> list[float]:
    """Each turn goes on while the next begins, so that each takes a process that was never called before."""
    samples = []
    with contextlib.ExitStack() as open_streams:
        for _ in range(FRESH):
            conversation = _new_conversation(api)
            time.sleep(0.3)  # a spare process is forked when the last one was taken
            began = time.perf_counter()
            events = _ask(api, conversation, 10, 500)
            next(events)
            samples.append((time.perf_counter() - began) * 1000)
            open_streams.callback(_drain, events)
    return samples


def _drain(events: Iterator[Message]) -> None:
    for _ in events:
        pass


def _replays(api: Api) -> Iterator[Measure]:
    """The turn's end is read from the log too, so it is asked for within the time that it stays readable."""
    conversation = _new_conversation(api)
    _drain(_ask(api, conversation, EVENTS - AROUND, 0))
    seen = []
    for _ in range(20):
        time.sleep(REST_SECONDS)
        began = time.perf_counter()
        seen.append(_watch(api.reattach(conversation), began))
        if len(seen[-1].came) != EVENTS:
            raise CannotMeasureError(f"The replay gave {len(seen[-1].came)} of {EVENTS} events.")
    name = f"reattach of a {EVENTS:,}-event turn"
    yield measure(f"{name}, first event", "ms", [one.first for one in seen], at_most(20))
    yield measure(f"{name}, whole", "ms", [one.whole for one in seen], at_most(150))


def _behind(api: Api) -> list[float]:
    """By how much a second watcher, who came at the first event, gets each later one after the first watcher did."""
    conversation = _new_conversation(api)
    first = _ask(api, conversation, 400, 10)
    opening = next(first)
    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(_watch, first, 0.0)
        other = threads.submit(_watch, api.reattach(conversation, opening.id or 0), 0.0)
        came, again = one.result().came, other.result().came
    if came.keys() != again.keys():
        raise CannotMeasureError("Two watchers of a turn were told different events.")
    return [(again[number] - came[number]) * 1000 for number in came]
