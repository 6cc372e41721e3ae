"""Fakes in this process: a scripted model, tools, ids, and a queue of jobs."""

import asyncio
import copy
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from deckhand.agent.chat import Answer, StepRequest, TextDelta, ToolCall, Usage
from deckhand.agent.toolbox import ToolNote, ToolResult
from deckhand.domain.job import Job, Notice
from deckhand.domain.json_text import dumps

PATIENCE_S = 30.0


class Gate:
    """A place where a run waits until the test opens it; the test can wait for the run to be there. For threads and
    event loops alike.
    """

    def __init__(self) -> None:
        self._reached, self._opened = threading.Event(), threading.Event()

    def open(self) -> None:
        self._opened.set()

    async def reached(self) -> None:
        await until(self._reached.is_set)

    def wait_reached(self) -> None:
        assert self._reached.wait(PATIENCE_S), "nobody came to the gate"

    async def passing(self) -> None:
        self._reached.set()
        await until(self._opened.is_set)

    def pass_in_thread(self) -> None:
        self._reached.set()
        assert self._opened.wait(PATIENCE_S), "nobody opened the gate"


async def until(state: Callable[[], object]) -> None:
    """Waits for a state, however long it takes within the test's patience."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while not state():  # noqa: ASYNC110 - any state, also one that a thread changes
                await asyncio.sleep(0.001)
    assert state(), "the state never came"


class Hang:
    """The model says nothing more, for ever."""


ScriptItem = str | Answer | BaseException | Gate | Hang | Callable[[], object]
Script = Sequence[ScriptItem]


def says(*pieces: str, finish: str | None = "stop", usage: Usage | None = None, **more: Any) -> Script:
    """An answer in text, piece by piece."""
    return [*pieces, Answer(text="".join(pieces), finish=finish, usage=usage, model="small-1", **more)]


def asks(
    *calls: ToolCall, text: str = "", finish: str | None = "tool_calls", usage: Usage | None = None, **more: Any
) -> Script:
    """An answer with tool calls, after some text or none."""
    answer = Answer(text=text, calls=calls, finish=finish, usage=usage, model="small-1", **more)
    return [text, answer] if text else [answer]


def call(name: str, arguments: str | Mapping[str, Any] = "{}", *, id: str = "c1", **extra: Any) -> ToolCall:
    return ToolCall(id, name, arguments if isinstance(arguments, str) else dumps(arguments), extra)


class FakeGateway:
    """A `ChatGateway` that follows scripts, one a request, and records the requests. `verify` fails on requests that
    no script was left for, and on scripts that were not asked for.
    """

    def __init__(self, *scripts: Script) -> None:
        self.scripts: list[Script] = list(scripts)
        self.requests: list[StepRequest] = []
        self.closed = 0
        self._unexpected = 0

    def script(self, *scripts: Script) -> None:
        self.scripts += scripts

    async def stream(self, request: StepRequest) -> AsyncIterator[TextDelta | Answer]:
        self.requests.append(copy.deepcopy(request))
        if not self.scripts:
            self._unexpected += 1
            raise AssertionError("a request that no script was left for")
        try:
            for item in self.scripts.pop(0):
                if isinstance(item, str):
                    yield TextDelta(item)
                elif isinstance(item, Answer):
                    yield item
                else:
                    await _acts(item)
        finally:
            self.closed += 1

    def messages(self, index: int = -1) -> list[dict[str, Any]]:
        """What a request sent after the system message, without cache marks."""
        return [unmarked(message) for message in self.requests[index].messages if message["role"] != "system"]

    def verify(self) -> None:
        assert not self._unexpected, f"{self._unexpected} requests had no script"
        assert not self.scripts, f"scripts that were not used: {self.scripts}"


async def _acts(item: ScriptItem) -> None:
    if isinstance(item, BaseException):
        raise item
    if isinstance(item, Gate):
        await item.passing()
    elif isinstance(item, Hang):
        await asyncio.Event().wait()
    elif callable(item):
        item()


def unmarked(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with one plain text where it had blocks."""
    content = message["content"]
    if isinstance(content, list):
        content = "".join(part["text"] for part in content)
    return {**message, "content": content}


def marks(messages: Sequence[Mapping[str, Any]]) -> int:
    blocks = [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
    return sum("cache_control" in part for part in blocks)


@dataclass
class FakeTool:
    run: Callable[[ToolCall], Awaitable[ToolResult]]
    note: ToolNote


@dataclass
class FakeTools:
    """A toolbox of functions. `began` and `ended` name calls by id in the order in which they did."""

    tools: dict[str, FakeTool] = field(default_factory=dict)
    began: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def add(
        self,
        name: str,
        result: ToolResult | str = '{"ok":true}',
        *,
        gates: Mapping[str, Gate] | None = None,
        **note: Any,
    ) -> None:
        """A tool that answers `result`, after the gate of its call's id was passed."""

        async def run(call: ToolCall) -> ToolResult:
            if gates and call.id in gates:
                await gates[call.id].passing()
            return result if isinstance(result, ToolResult) else ToolResult(result)

        self.tools[name] = FakeTool(run, ToolNote(**note))

    def definitions(self) -> list[dict[str, Any]]:
        return [
            {"type": "function", "function": {"name": name, "description": name, "parameters": {"type": "object"}}}
            for name in self.tools
        ]

    def note(self, call: ToolCall) -> ToolNote:
        return self.tools[call.name].note if call.name in self.tools else ToolNote()

    async def hold(self, call: ToolCall, *, behind: bool) -> ToolResult | None:
        return None

    async def run(self, call: ToolCall) -> ToolResult:
        self.began.append(call.id)
        if call.name not in self.tools:
            return ToolResult(dumps({"error": f"There is no tool {call.name}.", "code": "unknown_tool"}), failed=True)
        result = await self.tools[call.name].run(call)
        self.ended.append(call.id)
        return result


class Ids:
    """id-1, id-2, …"""

    def __init__(self, prefix: str = "id") -> None:
        self._prefix, self._numbers = prefix, itertools.count(1)

    def __call__(self) -> str:
        return f"{self._prefix}-{next(self._numbers)}"


@dataclass
class FakeQueue:
    """A `JobQueue` that keeps what it was sent, notices apart from the rest, or fails. `delays` are by receipt."""

    jobs: list[Job] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    delays: dict[str, float] = field(default_factory=dict)
    failure: Exception | None = None

    def send(self, job: Job) -> None:
        if self.failure is not None:
            raise self.failure
        self.notices += job.notices
        if job.kind != "notices":
            self.jobs.append(job)

    def send_many(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.send(job)

    def delay(self, receipt: str, seconds: float) -> None:
        if self.failure is not None:
            raise self.failure
        self.delays[receipt] = seconds
