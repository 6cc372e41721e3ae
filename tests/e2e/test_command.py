"""`deckhand chat` against a real laptop stack with its demo gateway, and with one that takes its time."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.local.api_client import Api

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Stack:
    url: str
    token: str

    def command(self, *arguments: str) -> "subprocess.Popen[str]":
        wanted = [sys.executable, "-m", "infra.local.command", "chat", "--url", self.url, "--token", self.token]
        return subprocess.Popen(
            [*wanted, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, typed: str = "") -> tuple[int, str, str]:
        process = self.command(*arguments)
        out, err = process.communicate(typed, timeout=60)
        return process.returncode, out, err


def started(folder: Path, **settings: str) -> "tuple[subprocess.Popen[str], Stack]":
    unset = ("CHAT_ENDPOINT_URL", "AGENT_API_TOKEN")
    environment = {name: value for name, value in os.environ.items() if name not in unset} | settings
    process = subprocess.Popen(
        [sys.executable, "-m", "infra.local.stack", "--port", "0", "--data", str(folder)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    ready = re.match(r"deckhand ready: (\S+) token: (\S+)", process.stdout.readline())
    assert ready is not None
    return process, Stack(ready[1], ready[2])


def ended(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    assert process.wait(30) == 0
    assert process.stdout is not None
    process.stdout.close()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    process, stack = started(tmp_path_factory.mktemp("demo"))
    yield stack
    ended(process)


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[Stack, threading.Event]]:
    """A gateway that writes a word each 20 ms for a minute; the event says that somebody hung up on it."""
    gone = threading.Event()
    loop = asyncio.new_event_loop()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        try:
            for _ in range(3000):
                piece = json.dumps({"choices": [{"index": 0, "delta": {"content": "word "}}]})
                writer.write(f"data: {piece}\n\n".encode())
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            gone.set()

    server = loop.run_until_complete(asyncio.start_server(answer, "127.0.0.1", 0))
    port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    process, stack = started(tmp_path, CHAT_ENDPOINT_URL=f"http://127.0.0.1:{port}/v1/chat/completions")
    yield stack, gone
    ended(process)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    server.close()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_one_message_prints_its_answer_and_nothing_else(demo: Stack) -> None:
    code, out, err = demo.run("log", "80.5", "kg")
    assert (code, err) == (0, "")
    assert "80.5 kg" in out


def test_a_conversation_is_typed_line_by_line(demo: Stack) -> None:
    _, out, _ = demo.run(typed="make a card for sleep\nwhat cards do I have\n/list\n/open 99\n/what\n/quit\n")
    assert "Sleep" in out
    assert "There are" in out
    assert "Ctrl-C stops an answer" in out


def test_continue_shows_the_newest_conversation_and_goes_on_in_it(demo: Stack) -> None:
    demo.run("make a card for water")
    code, out, _ = demo.run("--continue", typed="what cards do I have\n")
    assert code == 0
    assert "> make a card for water" in out
    assert "Water" in out


def test_what_goes_wrong_is_said_in_one_line(demo: Stack) -> None:
    assert demo.run("--token", "wrong", "hello")[::2] == (1, "Sign in or send a valid token.\n")
    code, out, err = Stack("http://127.0.0.1:1", "x").run("hello")
    assert (code, out, err.count("\n")) == (1, "", 1)


def test_ctrl_c_stops_the_turn_the_model_and_every_watcher(slow: tuple[Stack, threading.Event]) -> None:
    stack, gone = slow
    process = stack.command("tell me a long story")
    api = Api(stack.url, stack.token)
    watched = api.reattach(_running_conversation(api))
    while next(watched).event != "token":
        pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert [message.event for message in watched][-2:] == ["stopped", "done"]
    assert gone.wait(10)
    assert (process.returncode, err) == (0, "")
    assert out.endswith("(stopped)\n")
    assert "word" in out
    api.close()


def _running_conversation(api: Api) -> str:
    for _ in range(600):
        if turns := api.call("GET", "/api/chat/turns")["turns"]:
            return str(turns[0]["conversationId"])
        time.sleep(0.05)
    raise AssertionError("no turn started")
