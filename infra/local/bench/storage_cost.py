"""What a turn costs in DynamoDB's units, counted on the port with the cloud's pace.

A write is one unit a started KB, twice that in a transaction; a consistent read one unit a started 4 KB,
any other half of that (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html).
"""

import asyncio
import math
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deckhand.agent.chat import Answer, StepRequest, TextDelta, Usage
from deckhand.bootstrap import Parts
from deckhand.domain.conversation import Header, Message
from deckhand.domain.principal import Principal
from deckhand.domain.times import iso
from deckhand.settings import read_settings
from deckhand.storage.attributes import to_attributes
from deckhand.storage.port import Item, Key, Op, Page, Put, Table, text_bytes
from deckhand.storage.sqlite import SqliteStore
from deckhand.turns.chat import TurnWish
from deckhand.turns.context import Pace, TurnContext
from deckhand.turns.start import NewTurn, owner_of
from infra.local.bench.numbers import Measure, Target, at_least, at_most, measure
from infra.local.bench.processes import CannotMeasureError

PRINCIPAL = Principal(kind="token", id="bench", user="owner", role="agent")
TOKENS, SECONDS = 1_000, 60.0
TOKEN = "0" * 32
"""As long as a write token is."""


@dataclass
class CountingStore:
    """An ItemStore that counts what passes through it."""

    inner: SqliteStore
    operations: int = 0
    reads: int = 0
    write_units: float = 0
    read_units: float = 0
    sizes: dict[Key, int] = field(default_factory=dict)

    def get(self, key: Key) -> Item | None:
        item = self.inner.get(key)
        self._read([item] if item else [])
        return item

    def query(self, table: Table, pk: str, *, consistent: bool = True, **bounds: Any) -> Page:
        page = self.inner.query(table, pk, **bounds)
        self._read(page.items, 1 if consistent else 0.5)
        return page

    def write(self, ops: Sequence[Op], *, token: str) -> None:
        self.operations += 1
        for op in ops:
            self.write_units += self._units(op) * (2 if len(ops) > 1 else 1)
        self.inner.write(ops, token=token)

    def delete_many(self, keys: Sequence[Key]) -> None:
        self.operations += math.ceil(len(keys) / 25)
        self.write_units += sum(math.ceil(self.sizes.get(key, 1) / 1024) for key in keys)
        self.inner.delete_many(keys)

    def _read(self, items: Sequence[Item], price: float = 1) -> None:
        self.operations, self.reads = self.operations + 1, self.reads + 1
        self.read_units += price * max(1, math.ceil(sum(map(_bytes, items)) / 4096))

    def _units(self, op: Op) -> int:
        """By the larger of the item as it was and as it becomes; a delete or a check pays for what is there."""
        before = self.sizes.get(op.key, 1)
        if isinstance(op, Put):
            self.sizes[op.key] = _bytes(op.item)
        return math.ceil(max(before, self.sizes.get(op.key, 1)) / 1024)


def _bytes(item: Item) -> int:
    """Names and values of all attributes; a number at most counts as many bytes as it has digits."""
    attributes = to_attributes(item, token=TOKEN)
    return sum(len(name) + text_bytes(text) for name, value in attributes.items() for text in value.values())


class _Paced:
    """A gateway in this process: so many tokens over so many seconds."""

    def __init__(self, tokens: int, seconds: float) -> None:
        self._tokens, self._pause = tokens, seconds / tokens

    async def stream(self, _: StepRequest) -> AsyncIterator[TextDelta | Answer]:
        began, texts = time.monotonic(), list[str]()
        for number in range(self._tokens):
            texts.append("word ")
            yield TextDelta("word ")
            await asyncio.sleep(max(0.0, began + (number + 1) * self._pause - time.monotonic()))
        usage = Usage(input_tokens=10, output_tokens=self._tokens)
        yield Answer(text="".join(texts), finish="stop", usage=usage, model="bench")


def cost_measures(folder: Path, *, quick: bool) -> Iterator[Measure]:
    yield from _both(folder / "short", tokens=100, seconds=6, targets=(at_least(0.9), at_most(1.2)))
    if not quick:
        yield from _both(folder / "long", tokens=TOKENS, seconds=SECONDS, targets=(at_least(0.9), at_most(1.1)))


def _both(folder: Path, *, tokens: int, seconds: float, targets: tuple[Target, ...] = ()) -> Iterator[Measure]:
    """The same turn behind 2 and behind 200 messages, side by side: time is real here."""
    folder.mkdir()
    with ThreadPoolExecutor(2) as threads:
        small, full = threads.map(
            lambda count: _cost(folder / str(count), messages=count, tokens=tokens, seconds=seconds), (2, 200)
        )
    turn = f"a turn of {seconds:.0f} s and {tokens:,} tokens"
    yield measure(f"{turn}: write units", "WU", [small[0]], at_most(160))
    yield measure(f"{turn}: read units", "RU", [small[1]])
    yield measure(f"{turn}: storage operations", "", [small[2]])
    yield measure(f"{turn}: units behind 200 messages to 2", "×", [sum(full[:2]) / sum(small[:2])], *targets)


def _cost(folder: Path, *, messages: int, tokens: int, seconds: float) -> tuple[float, float, int]:
    """Write units, read units and operations of one turn behind so many stored messages."""
    folder.mkdir()
    settings = {
        "CHAT_ENDPOINT_URL": "http://bench.invalid/v1",
        "DECKHAND_SQLITE": str(folder / "deckhand.sqlite3"),
        "DECKHAND_REPORTS": str(folder / "reports"),
    }
    store = SqliteStore(folder / "deckhand.sqlite3", now=time.time)
    counting = CountingStore(store)
    parts = Parts(read_settings(settings), store=counting)
    parts.__dict__["gateway"] = _Paced(tokens, seconds)
    context = TurnContext.on(counting, now=time.time, new_id=lambda: uuid.uuid4().hex, jobs=parts.jobs, pace=Pace())
    parts.__dict__["turns"] = context
    conversation = conversation_of(context, PRINCIPAL, messages)
    counting.write_units, counting.read_units, counting.operations = 0, 0, 0
    chats = parts.chats
    if chats is None:
        raise CannotMeasureError("There is no gateway.")
    started = chats.start(NewTurn(PRINCIPAL, conversation, ["hello"]), TurnWish(messages=[("user", "hello")]))
    if not isinstance(started, tuple):
        raise CannotMeasureError("The turn did not start.")
    asyncio.run(started[1](lambda *_: None))
    store.close()
    return counting.write_units, counting.read_units, counting.operations


def conversation_of(context: TurnContext, principal: Principal, count: int) -> str:
    now = iso(time.time())
    header = Header(
        id=context.new_id(), title="bench", created_at=now, updated_at=now, message_count=count, next_seq=count + 1
    )
    messages = [
        Message(seq=n, id=context.new_id(), role="user" if n % 2 else "assistant", content="x" * 80, created_at=now)
        for n in range(1, count + 1)
    ]
    context.conversations.create(owner_of(principal), header, messages, token=context.new_id())
    return header.id
