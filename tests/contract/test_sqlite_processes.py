"""SQLite files that several processes share, and processes that are killed."""

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from deckhand.domain.errors import StorageUnavailable
from deckhand.storage.port import Delete, Item, Key, Put
from deckhand.storage.sqlite import SWEEP_EVERY, SqliteStore
from tests.stores import Clock

PROLOGUE = """
import os, sys, time, uuid
from deckhand.domain.errors import ConditionFailed
from deckhand.storage.port import ABSENT, Item, Key, Put, VersionIs
from deckhand.storage.sqlite import SqliteStore

store = SqliteStore(sys.argv[1], now=time.time)

def put(sk, body="{}", condition=None):
    store.write([Put(Item("deck", "p", sk, body), condition)], token=uuid.uuid4().hex)
"""

PAIRS = """
for number in range(1_000_000):
    pair = [Put(Item("deck", "p", f"{side}#{number:06d}", "x" * 500), ABSENT) for side in ("left", "right")]
    store.write(pair, token=uuid.uuid4().hex)
    print(number, flush=True)
"""

APPENDS = """
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    put(f"{os.getpid()}#{number:03d}", condition=ABSENT)
"""

FORKS = """
opened = set()
sys.addaudithook(lambda event, _: opened.add(os.getpid()) if event == "sqlite3.connect" else None)
put("parent#first")
children = []
for child in range(4):
    pid = os.fork()
    if pid == 0:
        found = store.get(Key("deck", "p", "parent#first")) is not None
        for number in range(30):
            put(f"child#{child}#{number:03d}", condition=ABSENT)
        os._exit(0 if found and os.getpid() in opened else 1)
    children.append(pid)
for number in range(30):
    put(f"parent#{number:03d}", condition=ABSENT)
for pid in children:
    _, status = os.waitpid(pid, 0)
    print(os.waitstatus_to_exitcode(status))
"""


@contextmanager
def process(code: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "error", "-c", PROLOGUE + code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def keys(path: Path, prefix: str = "") -> list[str]:
    with closing(SqliteStore(path, now=Clock())) as store:
        return [item.sk for item in store.query("deck", "p", prefix=prefix).items]


def test_a_killed_writer_loses_no_acknowledged_pair_and_leaves_no_half(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with process(PAIRS, path) as writer:
        assert writer.stdout is not None
        acknowledged = [int(next(writer.stdout)) for _ in range(40)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout if line.endswith("\n")]
        assert writer.wait() == -signal.SIGKILL
    left, right = keys(path, "left#"), keys(path, "right#")
    assert [sk.partition("#")[2] for sk in left] == [sk.partition("#")[2] for sk in right]
    assert len(acknowledged) <= len(left) <= len(acknowledged) + 1


def test_processes_that_open_a_new_file_at_once_all_write(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with process(APPENDS, path) as one, process(APPENDS, path) as two, process(APPENDS, path) as three:
        writers = (one, two, three)
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    assert len(keys(path)) == 120


def test_a_forked_child_opens_its_own_connection(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with process(FORKS, path) as parent:
        out, _ = parent.communicate(timeout=60)
        assert (parent.returncode, out.split()) == (0, ["0", "0", "0", "0"])
    assert len(keys(path, "child#")) == 120
    assert len(keys(path, "parent#")) == 31


def test_a_file_that_is_no_database_is_an_engine_failure_that_names_no_path(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("not a database, but long enough to have a header of its own " * 20)
    with closing(SqliteStore(path, now=Clock())) as store, pytest.raises(StorageUnavailable) as caught:
        store.get(Key("deck", "p", "a"))
    assert str(path) not in str(caught.value)


def test_a_folder_that_is_missing_is_an_engine_failure(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "none" / "store.db", now=Clock())
    with pytest.raises(StorageUnavailable):
        store.get(Key("deck", "p", "a"))


def test_a_closed_store_opens_again(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db", now=time.time)
    for _ in range(2):
        assert store.get(Key("deck", "p", "a")) is None
        store.close()


def test_expired_rows_are_removed_from_the_file_as_writes_go_on(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "store.db"
    with closing(SqliteStore(path, now=clock)) as store, closing(sqlite3.connect(path)) as raw:
        for number in range(20):
            item = Item("turns", "p", f"e#{number}", "{}", expires=int(clock.time) + 5)
            store.write([Put(item), Delete(Key("turns", "p", "none"))], token=str(number))
        clock.time += 3600
        for number in range(SWEEP_EVERY):
            store.write([Put(Item("turns", "p", "kept", "{}"))], token=f"later {number}")
        left = raw.execute("SELECT sk FROM items UNION ALL SELECT token FROM tokens").fetchall()
    assert left == [("kept",)]
