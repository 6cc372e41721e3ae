"""A soak: random talk, stops, cuts, queues and kills against a laptop stack, then the invariants of every conversation.

`python -m infra.soak [--minutes 30] [--talkers 6] [--seed N]`, from the project's root. Ends by itself with one line; a
broken promise is named, its data folder kept, and the exit code 1.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deckhand.storage.conversations import Conversations, Owner
from deckhand.storage.sqlite import SqliteStore
from infra.local.api_client import Api, ApiError
from infra.soak_model import Model
from tests.invariants import check_ended, check_invariants

OWNER = Owner("main", "owner")
TEXTS_A_CONVERSATION = 60
"""With their replies fewer than the 200 messages that a conversation keeps."""
REFUSALS = {"turn_running", "no_turn_running", "unknown_conversation"}
PASSING = {"unreachable", "cut", "function_failed", "function_timeout", "too_busy", "internal", "storage_failed"}
SETTLE_SECONDS = 120.0


@dataclass
class Ledger:
    """What was sent where, and what became of it as far as its sender knows."""

    sent: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, conversation: str, text: str, state: str) -> None:
        with self.lock:
            self.sent[conversation][text] = state

    def count(self, what: str) -> None:
        with self.lock:
            self.counts[what] += 1


class Stack:
    """The stack on a fixed port, so that clients find it again after it was killed."""

    def __init__(self, data: Path, gateway: str) -> None:
        self.data, self._gateway = data, gateway
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()
        self.token = (data / "token").read_text().strip()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "infra.local.stack", "--port", str(self.port), "--data", str(self.data)],
            env={"PATH": os.environ["PATH"], "HOME": str(self.data), "CHAT_ENDPOINT_URL": self._gateway},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None  # noqa: S101 - narrows the type
        if not self.process.stdout.readline().startswith("deckhand ready"):
            raise SystemExit("The stack did not start.")

    def kill_worker(self, dice: random.Random) -> bool:
        """kill -9 of one process that takes calls."""
        zygotes = _children(self.process.pid)
        workers = [pid for zygote in zygotes for pid in _children(zygote)]
        if not workers:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(dice.choice(workers), signal.SIGKILL)
        return True

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.start()

    def end(self) -> int:
        self.process.terminate()
        self.process.communicate(timeout=60)
        return self.process.returncode


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(child) for child in file.read_text().split()]
    return found


class Talker:
    """One person in one conversation after the other."""

    def __init__(self, stack: Stack, ledger: Ledger, number: int, seed: int) -> None:
        self._stack, self._ledger, self._number = stack, ledger, number
        self._dice = random.Random(seed * 1000 + number)  # noqa: S311 - a test's dice
        self._said = 0
        self.conversation = ""

    def run(self, until: float) -> None:
        api = Api(self._stack.url, self._stack.token)
        with closing(api):
            while time.monotonic() < until:
                try:
                    self._talk(api)
                except ApiError as failed:
                    self._ledger.count(f"refused: {failed.code}")
                    if failed.code not in REFUSALS | PASSING:
                        self._ledger.faults.append(f"unexpected refusal {failed.code}: {failed}")
                    time.sleep(self._dice.uniform(0.05, 0.5))

    def _talk(self, api: Api) -> None:
        if not self.conversation or self._said >= TEXTS_A_CONVERSATION:
            if self.conversation and self._dice.random() < 0.4:
                api.call("DELETE", f"/api/conversations/{self.conversation}")
                self._ledger.count("deleted")
            self.conversation = api.call("POST", "/api/conversations", {})["conversation"]["id"]
            self._said = 0
        self._said += 1
        action = self._dice.choices(["whole", "cut", "stop", "enqueue", "interrupt"], [6, 2, 2, 2, 1])[0]
        text = f"t{self._number}.{time.monotonic_ns()}"
        conversation = self.conversation
        self._ledger.note(conversation, text, "unknown")
        try:
            if action in ("enqueue", "interrupt"):
                self._send(api, conversation, text, action)
            else:
                self._stream(api, conversation, text, action)
        except ApiError as failed:
            if failed.code == "turn_running":
                self._ledger.note(conversation, text, "refused")
            raise
        self._ledger.note(conversation, text, "accepted")
        self._ledger.count(action)

    def _send(self, api: Api, conversation: str, text: str, on_busy: str) -> None:
        message = {"role": "user", "content": text}
        api.call("POST", "/api/chat", {"conversationId": conversation, "messages": [message], "onBusy": on_busy})

    def _stream(self, api: Api, conversation: str, text: str, action: str) -> None:
        patience, last, ended = self._dice.randint(0, 12), 0, False
        for n, message in enumerate(api.turn(conversation, text)):
            # After a reset the ids begin anew: the log of a killed process may end before what was seen.
            if message.id is not None and message.id <= last and message.event != "reset":
                self._ledger.faults.append(f"{conversation}: id {message.id} behind {last}")
            last, ended = message.id or last, message.event == "done"
            if message.event == "reply":
                self._check_reply(conversation, text, str(message.data["reply"]))
            if n == patience and action == "stop":
                api.stop(conversation)
            if n == patience and action == "cut":
                break
        if action == "cut" and not ended:
            for _ in api.reattach(conversation, after=last):
                if self._dice.random() < 0.1:
                    break

    def _check_reply(self, conversation: str, text: str, reply: str) -> None:
        """To this text or, when its turn was lost and the client came back too late, to others of the conversation."""
        answered = reply.removeprefix(Model.reply("")).split("\n\n")
        if text not in answered:
            self._ledger.count("told of a later turn")
        if not set(answered) <= self._ledger.sent[conversation].keys():
            self._ledger.faults.append(f"{conversation}: a reply to something else")


def soak(minutes: float, talkers: int, seed: int) -> int:
    dice, ledger, began = random.Random(seed), Ledger(), time.monotonic()  # noqa: S311 - a test's dice
    folder = Path(tempfile.mkdtemp(prefix="deckhand-soak-"))
    with Model(seed).serving() as gateway:
        stack = Stack(folder / "data", gateway)
        until = began + minutes * 60
        people = [Talker(stack, ledger, number, seed) for number in range(talkers)]
        threads = [threading.Thread(target=person.run, args=(until,), daemon=True) for person in people]
        threads += [threading.Thread(target=_meddle, args=(stack, ledger, people, until, seed), daemon=True)]
        for thread in threads:
            thread.start()
        _kill_now_and_then(stack, ledger, dice, until)
        for thread in threads:
            thread.join(180)
            if thread.is_alive():
                ledger.faults.append("a client hangs")
        _settle(stack, ledger)
        if (code := stack.end()) != 0:
            ledger.faults.append(f"the stack ended with {code}")
    faults = [*ledger.faults, *_check(folder / "data" / "deckhand.sqlite3", ledger)]
    counts = ", ".join(f"{count} {what}" for what, count in sorted(ledger.counts.items()))
    texts = sum(len(texts) for texts in ledger.sent.values())
    verdict = "every promise held" if not faults else f"{len(faults)} broken promises, data kept in {folder}"
    took = (time.monotonic() - began) / 60
    print(f"soak: {took:.1f} min, seed {seed}, {len(ledger.sent)} conversations, {texts} texts ({counts}): {verdict}")
    for fault in faults[:20]:
        print(f"  {fault}")
    if not faults:
        shutil.rmtree(folder)
    return int(bool(faults))


def _meddle(stack: Stack, ledger: Ledger, people: list[Talker], until: float, seed: int) -> None:
    """Somebody on another device, in conversations of others."""
    dice = random.Random(-seed - 1)  # noqa: S311 - a test's dice
    with closing(Api(stack.url, stack.token)) as api:
        while time.monotonic() < until:
            time.sleep(dice.uniform(0.1, 1.0))
            conversation = dice.choice(people).conversation
            if not conversation:
                continue
            try:
                _meddle_once(api, ledger, dice, conversation)
                ledger.count("meddled")
            except ApiError as failed:
                if failed.code not in REFUSALS | PASSING:
                    ledger.faults.append(f"unexpected refusal {failed.code}: {failed}")


def _meddle_once(api: Api, ledger: Ledger, dice: random.Random, conversation: str) -> None:
    action = dice.choice(["stop", "enqueue", "watch", "read", "search"])
    if action == "stop":
        api.stop(conversation)
    elif action == "watch":
        for _ in api.reattach(conversation):
            if dice.random() < 0.2:
                return
    elif action == "read":
        api.call("GET", f"/api/conversations/{conversation}")
    elif action == "search":
        api.call("POST", "/api/conversations/search", {"q": "t1"})
    else:
        text = f"m.{time.monotonic_ns()}"
        ledger.note(conversation, text, "unknown")
        message = {"role": "user", "content": text}
        try:
            api.call("POST", "/api/chat", {"conversationId": conversation, "messages": [message], "onBusy": "enqueue"})
        except ApiError as failed:
            if failed.code == "turn_running":
                ledger.note(conversation, text, "refused")
            raise
        ledger.note(conversation, text, "accepted")


def _kill_now_and_then(stack: Stack, ledger: Ledger, dice: random.Random, until: float) -> None:
    while time.monotonic() < until:
        time.sleep(min(dice.uniform(2, 12), max(0.1, until - time.monotonic())))
        if dice.random() < 0.15:
            stack.kill()
            ledger.count("stacks killed")
        elif stack.kill_worker(dice):
            ledger.count("workers killed")


def _settle(stack: Stack, ledger: Ledger) -> None:
    """Until no turn runs and nothing waits; the sweep needs a minute for what nobody touches."""
    end, database = time.monotonic() + SETTLE_SECONDS, stack.data / "deckhand.sqlite3"
    while time.monotonic() < end:
        with closing(sqlite3.connect(database, timeout=30)) as connection:
            entries = connection.execute("SELECT count(*) FROM items WHERE pk = 'main#running'").fetchone()[0]
        if not entries:
            return
        time.sleep(0.5)
    ledger.faults.append(f"{entries} conversations with turns or queues did not settle")


def _check(database: Path, ledger: Ledger) -> Iterator[str]:
    with closing(SqliteStore(database, now=time.time)) as store:
        known = {stored.header.id for stored in Conversations(store).headers(OWNER)}
        for conversation, sent in ledger.sent.items():
            try:
                if conversation in known:
                    _check_one(store, conversation, sent)
                else:
                    _check_gone(store, conversation)
            except AssertionError as broken:
                yield f"{conversation}: {broken}"


def _check_one(store: SqliteStore, conversation: str, sent: dict[str, str]) -> None:
    header = Conversations(store).find(OWNER, conversation).header
    replies, asked, unanswered = list[str](), list[str](), list[str]()
    for message in Conversations(store).messages(OWNER, header):
        if message.role == "user":
            asked.append(message.content)
            unanswered.append(message.content)
        else:
            # Tool calls between two texts keep them apart in what the model is sent.
            joins = ["\n\n".join(unanswered[n:]) for n in range(len(unanswered))]
            replies += [Model.PREAMBLE, *(Model.reply(joined) for joined in joins)]
            unanswered = []
    wanted = {text for text, state in sent.items() if state == "accepted"}
    _require(wanted <= set(asked), f"lost: {sorted(wanted - set(asked))}")
    never = {text for text, state in sent.items() if state == "refused"} & set(asked)
    _require(not never, f"refused, and yet there: {sorted(never)}")
    _require(set(asked) <= set(sent), f"from elsewhere: {sorted(set(asked) - set(sent))}")
    _require(len(asked) == len(set(asked)), "a text is there twice")
    check_ended(store, OWNER, conversation, now=time.time())
    check_invariants(store, OWNER, conversation, now=time.time(), asked=asked, replies=replies)


def _check_gone(store: SqliteStore, conversation: str) -> None:
    for table in ("deck", "turns"):
        left: list[Any] = store.query(table, f"main#conv#{conversation}").items
        _require(not left, f"deleted, and yet {len(left)} items are left in {table}")


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.soak", description="Break turns for a while.")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--talkers", type=int, default=6)
    parser.add_argument("--seed", type=int, default=None, help="repeats the dice of a former run")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))  # so that the stack is ended too
    return soak(options.minutes, options.talkers, options.seed or random.randrange(10**6))  # noqa: S311


if __name__ == "__main__":
    sys.exit(main())
