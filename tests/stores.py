"""The engines behind the `ItemStore` port, for tests: SQLite, moto in this process, and ministack on loopback."""

import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deckhand.storage.dynamodb import DynamoStore, connect
from deckhand.storage.port import TABLES, Condition, Item, ItemStore, Key, Op, Page, Put, Table
from infra.tools import TOOLS, ensure

MINISTACK = TOOLS["ministack"]
START_S = 60
CREDENTIALS = {"region_name": "eu-west-1", "aws_access_key_id": "test", "aws_secret_access_key": "test"}


@dataclass
class Clock:
    """Epoch seconds that move only when told."""

    time: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


def new_token() -> str:
    return uuid.uuid4().hex


class EachCall:
    """An `ItemStore` whose every call is made by `at`, so that it can be kept from it, or something done about it."""

    def __init__(self, inner: ItemStore) -> None:
        self._inner = inner

    def at(self, call: Callable[[], Any]) -> Any:
        return call()

    def get(self, key: Key) -> Item | None:
        found: Item | None = self.at(lambda: self._inner.get(key))
        return found

    def query(self, table: Table, pk: str, **options: Any) -> Page:
        page: Page = self.at(lambda: self._inner.query(table, pk, **options))
        return page

    def write(self, ops: Sequence[Op], *, token: str) -> None:
        self.at(lambda: self._inner.write(ops, token=token))

    def delete_many(self, keys: Sequence[Key]) -> None:
        self.at(lambda: self._inner.delete_many(keys))


@dataclass
class Shelf:
    """A store with an empty partition of its own, and short words for what tests do with it."""

    store: ItemStore
    clock: Clock
    pk: str = field(default_factory=lambda: f"main#{uuid.uuid4().hex}")

    def key(self, sk: str, table: Table = "deck") -> Key:
        return Key(table, self.pk, sk)

    def item(
        self, sk: str, body: str = "{}", *, version: int = 1, expires: int | None = None, table: Table = "deck"
    ) -> Item:
        return Item(table, self.pk, sk, body, version, expires)

    def put(
        self,
        sk: str,
        body: str = "{}",
        *,
        condition: Condition = None,
        token: str | None = None,
        version: int = 1,
        expires: int | None = None,
        table: Table = "deck",
    ) -> Item:
        item = self.item(sk, body, version=version, expires=expires, table=table)
        self.store.write([Put(item, condition)], token=token or new_token())
        return item

    def get(self, sk: str, table: Table = "deck") -> Item | None:
        return self.store.get(self.key(sk, table))

    def keys(self, **query: Any) -> list[str]:
        return [item.sk for item in self.store.query("deck", self.pk, **query).items]

    def fill(self, sks: list[str]) -> list[str]:
        for start in range(0, len(sks), 100):
            self.store.write([Put(self.item(sk)) for sk in sks[start : start + 100]], token=new_token())
        return sks


@dataclass(frozen=True)
class DynamoTables:
    client: Any
    names: Mapping[Table, str]

    def store(self, now: Callable[[], float]) -> DynamoStore:
        return DynamoStore(self.client, self.names, now=now)


def make_tables(client: Any) -> DynamoTables:
    """Three tables with a prefix of their own. TTL stays off, so that expired items are still there to be met."""
    prefix = f"test-{uuid.uuid4().hex[:8]}"
    names: dict[Table, str] = {table: f"{prefix}-{table}" for table in TABLES}
    for name in names.values():
        client.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": a, "AttributeType": "S"} for a in ("pk", "sk")],
        )
    return DynamoTables(client, names)


@contextmanager
def dynamo_client(**options: str) -> Iterator[Any]:
    client = connect(**CREDENTIALS, **options)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def running_ministack(folder: Path, **environment: str) -> Iterator[str]:
    """The address of a ministack of its own on loopback, stopped at the end. Skips the test when it isn't installed.

    `folder` becomes its home. Its functions inherit its environment, which is why it gets none of ours.
    """
    if os.environ.get("DECKHAND_TOOLS") == "1":
        ensure(MINISTACK)
    elif not MINISTACK.is_installed:
        pytest.skip("ministack is not installed: run `python infra/tools.py ministack`, or set DECKHAND_TOOLS=1")
    port = _free_port()
    scrubbed = {
        "PATH": f"{MINISTACK.executable.parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "BIND_HOST": "127.0.0.1",
        # Its MQTT listener would take a fixed port on all interfaces.
        "IOT_MTLS_ENABLED": "0",
        "GATEWAY_PORT": str(port),
        **environment,
    }
    with (folder / "ministack.log").open("wb") as log:
        process = subprocess.Popen(
            [str(MINISTACK.executable)], env=scrubbed, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            _wait_until_it_listens(process, port, folder / "ministack.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            _stop(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"ministack did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
