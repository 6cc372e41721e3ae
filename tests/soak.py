"""A soak, outside of the suite: random chats, stops, cuts and kill -9 against a laptop stack, then what must hold.

    python -m tests.soak [--minutes 30] [--seed N]

Loopback only; ends by itself and prints one line. Exit code 1 when something does not hold.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from deckhand.domain.turn import LEASE_S
from deckhand.storage.conversations import Conversations, Owner
from deckhand.storage.sqlite import SqliteStore
from tests.invariants import check_ended, check_invariants

OWNER = Owner("main", "owner")
REPLY = "word " * 60
PEOPLE = 6
MESSAGES_A_CONVERSATION = 40
KILL_EVERY_S = 4.0


@dataclass
class Talk:
    """One conversation and what was said in it: surely accepted, or perhaps (it broke before the answer)."""

    id: str
    sure: list[str] = field(default_factory=list)
    perhaps: list[str] = field(default_factory=list)


class Person:
    """Does something random, again and again, and counts what it did."""

    def __init__(self, url: str, token: str, seed: int) -> None:
        self._http = httpx2.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60.0, trust_env=False
        )
        self._random, self._said, self._name = random.Random(seed), 0, seed  # noqa: S311 - not for secrets
        self.talks: list[Talk] = []
        self.did: Counter[str] = Counter()

    def act_until(self, end: float) -> None:
        while time.monotonic() < end:
            act = self._random.choice(
                [self.listen, self.listen, self.cut, self.stop, self.queue, self.barge_in, self.peek]
            )
            try:
                act(self._talk())
            except httpx2.TransportError:
                self.did["connection lost"] += 1
            self.did[act.__name__] += 1
        self._http.close()

    def listen(self, talk: Talk) -> None:
        self._say(talk)

    def cut(self, talk: Talk) -> None:
        self._say(talk, leave_after=self._random.randint(0, 20))

    def stop(self, talk: Talk) -> None:
        self._say(talk, leave_after=self._random.randint(0, 30))
        self._http.delete(f"/api/chat/turn/{talk.id}")

    def queue(self, talk: Talk) -> None:
        self._say(talk, leave_after=3)
        self._say(talk, busy="enqueue")

    def barge_in(self, talk: Talk) -> None:
        self._say(talk, leave_after=3)
        self._say(talk, busy="interrupt")

    def peek(self, talk: Talk) -> None:
        headers = {"Last-Event-ID": str(self._random.randint(0, 200))}
        self._http.get(f"/api/chat/turn/{talk.id}", headers=headers)
        self._http.get(f"/api/conversations/{talk.id}")

    def _talk(self) -> Talk:
        if not self.talks or len(self.talks[-1].sure) + len(self.talks[-1].perhaps) >= MESSAGES_A_CONVERSATION:
            made = self._http.post("/api/conversations", json={})
            self.talks.append(Talk(made.json()["conversation"]["id"]))
        return self.talks[-1]

    def _say(self, talk: Talk, *, busy: str = "reject", leave_after: int | None = None) -> None:
        self._said += 1
        text = f"message {self._said} of person {self._name}"
        body = {
            "conversationId": talk.id,
            "stream": True,
            "onBusy": busy,
            "messages": [{"role": "user", "content": text}],
        }
        talk.perhaps.append(text)
        with self._http.stream("POST", "/api/chat", json=body) as answer:
            self.did[f"status {answer.status_code}"] += 1
            if answer.status_code < 500:
                talk.perhaps.remove(text)
            if answer.status_code in (200, 202):
                talk.sure.append(text)
            for number, _ in enumerate(answer.iter_bytes()):
                if leave_after is not None and number >= leave_after:
                    return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, gateway() as endpoint:
        with stack(Path(folder), endpoint) as (url, token, pid):
            people = [Person(url, token, options.seed * 100 + n) for n in range(PEOPLE)]
            end = time.monotonic() + options.minutes * 60
            threads = [threading.Thread(target=person.act_until, args=(end,)) for person in people]
            for thread in threads:
                thread.start()
            killed = kill_workers(pid, end, random.Random(options.seed))  # noqa: S311
            for thread in threads:
                thread.join()
            wait_for_quiet(url, token)
        faults = check(Path(folder), people)
    did = sum((person.did for person in people), Counter[str]())
    talks = sum(len(person.talks) for person in people)
    print(f"soak: {options.minutes:g} min, {talks} conversations, {killed} workers killed, {dict(sorted(did.items()))}")
    for fault in faults[:20]:
        print(f"does not hold: {fault}")
    print(f"{talks - len(faults)} passed, {len(faults)} failed")
    return 1 if faults else 0


def check(folder: Path, people: list[Person]) -> list[str]:
    store = SqliteStore(folder / "deckhand.sqlite3", now=time.time)
    conversations, faults = Conversations(store), []
    for talk in (talk for person in people for talk in person.talks):
        header = conversations.find(OWNER, talk.id).header
        stored = {message.content for message in conversations.messages(OWNER, header)}
        waiting = {one.queued.message.content for one in conversations.queue(OWNER, talk.id)}
        asked = [*talk.sure, *(text for text in talk.perhaps if text in stored | waiting)]
        try:
            check_invariants(store, OWNER, talk.id, now=time.time(), asked=asked, replies=[REPLY])
            check_ended(store, OWNER, talk.id, now=time.time())
        except AssertionError as fault:
            faults.append(f"{talk.id}: {fault}")
    store.close()
    return faults


def wait_for_quiet(url: str, token: str) -> None:
    """Until no turn runs and nothing waits, at most two leases and a sweep."""
    with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, trust_env=False) as http:
        for _ in range(int(2 * LEASE_S + 65)):
            if not http.get("/api/chat/turns").json()["turns"]:
                time.sleep(2)
                if not http.get("/api/chat/turns").json()["turns"]:
                    return
            time.sleep(1)


def kill_workers(stack_pid: int, end: float, choice: random.Random) -> int:
    """kill -9 of a random worker (a grandchild of the stack) every few seconds."""
    killed = 0
    while time.monotonic() < end:
        time.sleep(KILL_EVERY_S)
        workers = [pid for zygote in children(stack_pid) for pid in children(zygote)]
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(choice.choice(workers), signal.SIGKILL)
                killed += 1
    return killed


def children(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, file.read_text().split())
    return found


@contextlib.contextmanager
def stack(folder: Path, endpoint: str) -> Iterator[tuple[str, str, int]]:
    environment = {name: value for name, value in os.environ.items() if name != "AGENT_API_TOKEN"}
    process = subprocess.Popen(
        [sys.executable, "-m", "infra.local.stack", "--port", "0", "--data", str(folder)],
        env=environment | {"CHAT_ENDPOINT_URL": endpoint},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = re.match(r"deckhand ready: (\S+) token: (\S+)", process.stdout.readline())
        assert ready is not None, "the stack did not start"
        yield ready[1], ready[2], process.pid
    finally:
        process.terminate()
        process.wait(60)


@contextlib.contextmanager
def gateway() -> Iterator[str]:
    """Says the same words in its own time, to anybody, in a thread of this process."""
    loop = asyncio.new_event_loop()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
            await reader.readexactly(int(length[1]) if length else 0)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            for word in re.findall(r"word ", REPLY):
                piece = {"choices": [{"index": 0, "delta": {"content": word}}]}
                writer.write(f"data: {json.dumps(piece)}\n\n".encode())
                await writer.drain()
                await asyncio.sleep(0.01)
            writer.write(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
            await writer.drain()
        writer.close()

    server = loop.run_until_complete(asyncio.start_server(answer, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/chat/completions"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
