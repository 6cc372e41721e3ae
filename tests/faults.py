"""Processes that can be made to fail at named points: each has a store of its own in front of the shared one."""

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

from deckhand.agent.budget import Budget
from deckhand.agent.gate import Gate as ConfirmGate
from deckhand.agent.outcome import Outcome, Step
from deckhand.agent.toolbox import Toolbox
from deckhand.agent.tools import OperationTools
from deckhand.domain.allowance import Allowance
from deckhand.domain.conversation import Header
from deckhand.domain.errors import StorageUnavailable
from deckhand.domain.events import Event
from deckhand.domain.principal import Principal
from deckhand.domain.turn import LEASE_S
from deckhand.operations.caller import Caller
from deckhand.operations.catalog import REGISTRY
from deckhand.operations.permission import offered
from deckhand.storage.conversations import Owner
from deckhand.storage.port import Check, Delete, ItemStore, Key, Op, Page, Put, Table
from deckhand.storage.reports import FolderReports
from deckhand.storage.turns import Numbered
from deckhand.turns.chat import Chats, ChatSettings, OnBusy, TurnWish
from deckhand.turns.context import Pace, TurnContext
from deckhand.turns.decision import Decisions
from deckhand.turns.idempotency import Claim, Claimed
from deckhand.turns.metering import Metering
from deckhand.turns.replay import attach, replay
from deckhand.turns.start import NewTurn, Turn, owner_of
from tests.fakes import FakeGateway, FakeQueue, FakeTools, Gate, Script, until
from tests.policies import SHIPPED
from tests.stores import Clock

Point = Literal[
    "start",
    "flush",
    "exchange",
    "renew",
    "stop",
    "finish",
    "close_lost",
    "enqueue",
    "delete",
    "header",
    "decide",
    "effect",
    "settle",
    "transcript",
    "look",
    "find",
    "history",
    "read",
    "queue",
    "running",
    "clean",
    "usage",
    "other",
]
Kind = Literal["fail", "fail for a while", "late", "late for a while", "delay", "kill before", "kill after", "clock"]

Hook = Callable[[], object]
QUICK = Pace(flush_first=0.002, flush_grown=0.002, poll_first=0.002, poll_grown=0.004, watch=0.002)
A_WHILE = 4
"""Failures in a row: one more than a write that must not be left in doubt is tried."""


class Killed(BaseException):
    """The process is gone: nothing that it still does has an effect."""


@dataclass
class Fault:
    """Done once, at the `skip`th next passage of the point. `hook` is called in the thread of the store's call."""

    point: Point
    kind: Kind | None = None
    hook: Hook | None = None
    skip: int = 0
    left: int = 1
    met: bool = False


class FaultyStore:
    """One process's way to the store. A fault at a write is done before it, a late one behind it."""

    def __init__(self, inner: ItemStore, clock: Clock) -> None:
        self.inner, self._clock = inner, clock
        self.passed: Counter[Point] = Counter()
        self.killed = False
        self.busy = 0
        """Calls under way: they still reach the store when their process is killed."""
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def arm(self, point: Point, kind: Kind | None = None, *, hook: Hook | None = None, skip: int = 0) -> None:
        fault = Fault(point, kind, hook, skip)
        if fault.kind in ("fail for a while", "late for a while"):
            fault.left = A_WHILE
        self._faults.append(fault)

    @property
    def struck(self) -> bool:
        """Whether every fault was met."""
        return all(fault.met for fault in self._faults)

    def get(self, key: Key) -> Any:
        return self._at(_point_of_get(key), lambda: self.inner.get(key))

    def query(self, table: Table, pk: str, **options: Any) -> Page:
        page: Page = self._at(_point_of_query(table, pk, options), lambda: self.inner.query(table, pk, **options))
        return page

    def write(self, ops: Sequence[Op], *, token: str) -> None:
        self._at(self._point_of_write(ops), lambda: self.inner.write(ops, token=token))

    def delete_many(self, keys: Sequence[Key]) -> None:
        self._at("clean", lambda: self.inner.delete_many(keys))

    def _at(self, point: Point, call: Callable[[], Any]) -> Any:
        with self._lock:
            if self.killed:
                raise Killed()
            self.busy += 1
        try:
            return self._strike(point, call)
        finally:
            with self._lock:
                self.busy -= 1

    def _strike(self, point: Point, call: Callable[[], Any]) -> Any:
        fault = self._take(point)
        if fault is not None and fault.hook is not None:
            fault.hook()
        kind = None if fault is None else fault.kind
        if kind in ("fail", "fail for a while"):
            raise StorageUnavailable()
        if kind == "kill before":
            self.killed = True
            raise Killed()
        if kind == "delay":
            time.sleep(0.03)
        if kind == "clock":
            self._clock.time += LEASE_S + 1
        result = call()
        if kind in ("late", "late for a while"):
            raise StorageUnavailable()
        if kind == "kill after":
            self.killed = True
            raise Killed()
        return result

    def _take(self, point: Point) -> Fault | None:
        with self._lock:
            self.passed[point] += 1
            for fault in self._faults:
                if fault.point != point or not fault.left:
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.left, fault.met = fault.left - 1, True
                return fault
        return None

    def _point_of_write(self, ops: Sequence[Op]) -> Point:
        sks = [op.key.sk for op in ops]
        kinds = {_kind(op) for op in ops if not op.key.pk.endswith(("#open", "#expiring"))}
        point = _gate_point(kinds)
        if {"delete header"} <= kinds:
            point = "delete"
        elif "put running" in kinds:
            point = "start"
        elif {"put head", "put batch"} <= kinds:
            told = "".join(op.item.body for op in ops if isinstance(op, Put) and op.key.sk.startswith("e#"))
            point = "close_lost" if "turn_lost" in told else "finish"
        elif "put exchange" in kinds:
            point = "exchange"
        elif "put queued" in kinds:
            point = "enqueue"
        elif len(kinds) == 1 and (alone := _ALONE.get(next(iter(kinds)))):
            point = alone
        elif sks == ["head"]:
            point = "stop" if self._stops(ops[0]) else "renew"
        elif "put header" in kinds:
            point = "header"
        return point

    def _stops(self, op: Op) -> bool:
        """Whether this write of a head is the one that sets the flag."""
        if not isinstance(op, Put) or not json.loads(op.item.body)["stop"]:
            return False
        stored = self.inner.get(op.key)
        return stored is not None and not json.loads(stored.body)["stop"]


_ALONE: dict[str, Point] = {
    "put batch": "flush",
    "put message": "transcript",
    "put usage": "usage",
    "put proposal": "settle",
}


def _gate_point(kinds: set[str]) -> Point:
    if {"put proposal", "put audit"} <= kinds:
        return "decide"
    return "effect" if "check proposal" in kinds else "other"


def _kind(op: Op) -> str:
    verb = "put" if isinstance(op, Put) else "delete" if isinstance(op, Delete) else "check"
    assert isinstance(op, Put | Delete | Check)
    names = {
        "m#": "message",
        "x#": "exchange",
        "q#": "queued",
        "e#": "batch",
        "co": "header",
        "he": "head",
        "p#": "proposal",
    }
    for place in ("running", "audit"):
        if op.key.pk.endswith(f"#{place}"):
            return f"{verb} {place}"
    if "#usage#" in op.key.pk:
        return f"{verb} usage"
    return f"{verb} {names.get(op.key.sk[:2], 'other')}"


def _point_of_get(key: Key) -> Point:
    if key.sk == "head":
        return "look"
    return "find" if key.sk.startswith("conv#") else "other"


def _point_of_query(table: Table, pk: str, options: dict[str, Any]) -> Point:
    if pk.endswith("#running"):
        return "running"
    prefix = str(options.get("prefix", ""))[:2]
    if prefix == "e#":
        return "read"
    points: dict[str, Point] = {"m#": "history", "x#": "history", "q#": "queue"}
    return points.get(prefix, "clean" if table == "turns" else "other")


class Quiet:
    """A watcher that keeps nothing."""

    def step(self, turn_id: str, step: Step) -> None: ...

    def ended(self, turn_id: str, outcome: Outcome) -> None: ...


@dataclass
class World:
    """What all processes share: the store, the clock, the queue of jobs, the source of ids."""

    store: ItemStore
    clock: Clock
    folder: Path
    jobs: FakeQueue = field(default_factory=FakeQueue)
    pace: Pace = QUICK
    allowance: Allowance = field(default_factory=Allowance)
    gated: bool = False
    """Whether the model has the registry's tools behind the gate, instead of each process's own."""
    conversation: str = field(default_factory=lambda: f"c{time.monotonic_ns():x}")
    _ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def person(self) -> Principal:
        """In a tenant of this world's own: worlds may share an engine."""
        return Principal(kind="user", id="ann", user="ann", role="owner", tenant=self.conversation)

    @property
    def owner(self) -> Owner:
        return owner_of(self.person)

    def new_id(self) -> str:
        return f"{self.conversation}i{next(self._ids):04d}"

    def process(self, *scripts: Script) -> "Process":
        return Process(self, *scripts)

    def create(self) -> str:
        context = self.process().context
        header = Header(id=self.conversation, created_at="2027-01-15T08:00:00Z", updated_at="2027-01-15T08:00:00Z")
        context.conversations.create(self.owner, header, [], token=self.new_id())
        return self.conversation


class Process:
    """One process: its own store in front of the shared one, its own scripted model and tools."""

    def __init__(self, world: World, *scripts: Script) -> None:
        self.world, self.gateway, self.tools = world, FakeGateway(*scripts), FakeTools()
        self.store = FaultyStore(world.store, world.clock)
        self.context = TurnContext.on(
            self.store, now=world.clock, new_id=world.new_id, jobs=world.jobs, pace=world.pace
        )
        settings = ChatSettings(
            agent_name="Chat", base_prompt="Be brief.", cache=False, window_chars=24_000, budget=Budget()
        )
        self.chats = Chats(
            self.context,
            self.gateway,
            settings=settings,
            caller_for=self._caller,
            toolbox_for=self._toolbox,
            decisions=Decisions(self.context, lambda principal, _: self._caller(principal)),
            watcher=Quiet(),
            monotonic=time.monotonic,
            metering=Metering(self.context, allowance_of=lambda _: world.allowance),
        )

    def _toolbox(self, caller: Caller, gate: ConfirmGate) -> Toolbox:
        return OperationTools(offered(caller, REGISTRY.tools()), caller, gate) if self.world.gated else self.tools

    def _caller(self, principal: Principal) -> Caller:
        return Caller(
            principal=principal,
            channel="chat",
            policy=SHIPPED,
            store=self.store,
            jobs=self.world.jobs,
            reports=FolderReports(self.world.folder),
            now=self.world.clock,
            new_id=self.world.new_id,
            default_zone=ZoneInfo("UTC"),
        )

    def start(
        self, *texts: str, on_busy: OnBusy = "reject", claim: Claim | None = None, principal: Principal | None = None
    ) -> "Running | Claimed":
        new = NewTurn(principal or self.world.person, self.world.conversation, texts, claim=claim)
        wish = TurnWish(messages=[("user", text) for text in texts])
        started = self.chats.start(new, wish, on_busy=on_busy)
        return started if isinstance(started, Claimed) else Running(*started)

    async def ask(self, *texts: str) -> "Running":
        """A turn from its start to its end. Raises what the start raises, and `Killed`."""
        running = self.start(*texts)
        assert isinstance(running, Running)
        await running.run()
        return running

    async def watch(self, after: int = 0) -> list[Numbered]:
        """Everything that a reattached client is told."""
        attachment = attach(self.context, self.world.person, self.world.conversation, after)
        return [] if attachment is None else [numbered async for numbered in replay(self.context, attachment)]


class Running:
    """A turn that was started here, and what its own listener is told."""

    def __init__(self, turn: Turn, run: Callable[[Callable[[int | None, Event], None]], Coroutine[Any, Any, None]]):
        self.turn, self._run = turn, run
        self.told: list[Numbered] = []

    async def run(self) -> None:
        await self._run(self._tell)

    def _tell(self, event_id: int | None, event: Event) -> None:
        assert event_id is not None
        self.told.append(Numbered(event_id, event))

    @property
    def names(self) -> list[str]:
        return [numbered.event.name for numbered in self.told]

    @property
    def text(self) -> str:
        return "".join(n.event.data["text"] for n in self.told if n.event.name == "token")


class Until(Gate):
    """The model waits for a state, or for the end of its process."""

    def __init__(self, process: Process, state: Callable[[], bool]) -> None:
        super().__init__()
        self._store, self._state = process.store, state

    async def passing(self) -> None:
        await until(lambda: self._store.killed or self._state())
