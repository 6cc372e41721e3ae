"""`deckhand chat` as a process against a real laptop stack: with its demo gateway, and with one that holds back."""

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.local.api_client import Api
from tests.laptop import ROOT, WAIT_S, until
from tests.scripted_gateway import DONE, Gate, Reply, ScriptedGateway, delta, text_reply


@dataclass(frozen=True)
class Stack:
    url: str
    data: Path

    @property
    def token(self) -> str:
        return (self.data / "token").read_text().strip()

    def command(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*self.line, *arguments],
            cwd=ROOT,
            env=self.environment | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def line(self) -> list[str]:
        return [sys.executable, "-m", "infra.local.command", "chat"]

    @property
    def environment(self) -> dict[str, str]:
        # The token is found in the folder, as for somebody who just ran `up`.
        return {"PATH": os.environ["PATH"], "DECKHAND_URL": self.url, "HOME": str(self.data), "TERM": "xterm"}

    def run(self, *arguments: str, typed: str = "", **environment: str) -> tuple[int, str, str]:
        process = self.command(*arguments, "--data", str(self.data), **environment)
        out, err = process.communicate(typed, timeout=WAIT_S)
        return process.returncode, out, err


@contextmanager
def running_stack(folder: Path, settings: Mapping[str, str]) -> Iterator[Stack]:
    process = subprocess.Popen(
        [sys.executable, "-m", "infra.local.stack", "--port", "0", "--data", str(folder)],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **settings},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        ready = re.match(r"deckhand ready: (\S+) token: \S+", process.stdout.readline())
        assert ready is not None
        yield Stack(ready[1], folder)
        process.terminate()
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("demo"), {}) as stack:
        yield stack


class Model:
    """Says `Once`, then waits until it is let go, then says the rest."""

    def __init__(self) -> None:
        self.gates: list[Gate] = []

    def __call__(self, body: Any) -> Reply:
        if "tools" not in body:
            return text_reply("A title")
        self.gates.append(Gate())
        return Reply([delta(content="Once "), self.gates[-1], delta(content="upon a time"), delta("stop"), DONE])


@pytest.fixture(scope="module")
def model() -> Model:
    return Model()


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory, gateway: ScriptedGateway) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("held"), {"CHAT_ENDPOINT_URL": gateway.url}) as stack:
        yield stack


@pytest.fixture
def api(held: Stack) -> Iterator[Api]:
    api = Api(held.url, held.token)
    yield api
    api.close()


def conversation_that_answers(api: Api) -> str:
    """The one with a turn that has said its first word."""

    def running() -> Any:
        return api.call("GET", "/api/chat/turns")["turns"]

    until(running)
    conversation = str(running()[0]["conversationId"])
    watched = api.reattach(conversation)
    assert any(message.event == "token" for message in watched)
    watched.close()  # type: ignore[attr-defined]
    return conversation


def test_one_message_prints_its_answer_and_nothing_else(demo: Stack) -> None:
    code, out, err = demo.run("log", "80.5", "kg")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"[^\n]*logged 80\.5 kg[^\n]*\n", out)


def test_a_conversation_is_typed_line_by_line(demo: Stack) -> None:
    code, out, err = demo.run(
        typed="make a card for sleep\nwhat cards do I have\n/list\n/open 99\n/what\n/new\n/quit\n"
    )
    assert "Sleep" in out
    assert "(4 messages)" in out
    assert "Ctrl-C stops an answer" in out
    assert re.fullmatch(r"There are \d+ conversations; /list shows them\.\n", err)
    assert code == 1, "a line of the input failed"


def test_continue_shows_the_newest_conversation_and_goes_on_in_it(demo: Stack) -> None:
    demo.run("make a card for water")
    code, out, err = demo.run("--continue", typed="what cards do I have\n")
    assert (code, err) == (0, "")
    assert "> make a card for water" in out
    assert "Water" in out.splitlines()[-1]


def cards(stack: Stack) -> set[str]:
    with closing(Api(stack.url, stack.token)) as api:
        return {entry["id"] for entry in api.call("GET", "/api/manifests")["entries"]}


def test_what_does_harm_waits_for_a_yes_that_a_second_command_says(demo: Stack) -> None:
    demo.run("make a card for mood")
    code, out, err = demo.run("delete the mood card")
    assert (code, err) == (3, "")
    found = re.search(r"^Delete a card: mood$.*^  id: (\S+)$", out, re.DOTALL | re.MULTILINE)
    assert found is not None
    assert "mood" in cards(demo), "nothing is done yet"
    assert demo.run("--confirm", found[1]) == (0, "The mood card is deleted.\n", "")
    assert "mood" not in cards(demo)
    again = demo.run("--confirm", found[1])
    assert again == (0, "", "This was decided before. Outcome: succeeded.\n")


def test_from_a_pipe_what_waits_is_shown_again_and_a_no_leaves_it(demo: Stack) -> None:
    code, out, _ = demo.run(typed="log 80 kg\nremove my last weight\n/waiting\n")
    shown = re.findall(r"^  id: (\S+)$", out, re.MULTILINE)
    assert (code, len(shown), len(set(shown))) == (3, 2, 1)
    told = demo.run("--reject", shown[0], "--reason", "It is right.")
    assert told == (0, "All right. Your last weight stays where it is.\n", "")


def test_a_wrong_token_is_told_in_one_line(demo: Stack) -> None:
    code, out, err = demo.run("hello", DECKHAND_TOKEN="wrong")
    assert (code, out) == (1, "")
    assert re.fullmatch(r"The token is not accepted [^\n]*\n", err)


def test_an_unknown_conversation_is_told_in_one_line(demo: Stack) -> None:
    code, out, err = demo.run("--continue", "0" * 32, "--", "hello")
    assert (code, out, err.count("\n")) == (1, "", 1)


def test_ctrl_c_stops_the_turn_and_the_model(held: Stack, api: Api, gateway: ScriptedGateway, model: Model) -> None:
    process = held.command("tell me a story", "--data", str(held.data))
    conversation = conversation_that_answers(api)
    asked = gateway.requests[-1]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, out, err) == (130, "Once \n", "(stopped)\n")
    assert asked.wait_closed()
    stored = api.call("GET", f"/api/conversations/{conversation}")["conversation"]["messages"][-1]
    assert (stored["content"], stored["stopped"]) == ("Once ", True)


def test_continue_rejoins_a_turn_whose_terminal_is_gone(held: Stack, api: Api, model: Model) -> None:
    first = held.command("tell me a story", "--data", str(held.data))
    conversation = conversation_that_answers(api)
    first.kill()
    first.communicate()
    second = held.command("--continue", conversation, "--data", str(held.data))
    assert second.stdout is not None
    assert [second.stdout.readline() for _ in range(2)] == ["— tell me a story —\n", "> tell me a story\n"]
    model.gates[-1].open()
    out, err = second.communicate(timeout=WAIT_S)
    assert (second.returncode, out, err) == (0, "Once upon a time\n", "")


class Person:
    """Somebody at a terminal."""

    def __init__(self, line: list[str], environment: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        own = (
            "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
        )
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, b"\x18\x00\x50\x00\x00\x00\x00\x00")
        self.process = subprocess.Popen(
            [sys.executable, "-c", own, *line],
            cwd=ROOT,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""

    def types(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def interrupts(self) -> None:
        """By Ctrl-C, once the prompt is waited at: between showing it and waiting, Python keeps a signal for later."""
        until(lambda: Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].startswith("S"))
        self.types("\x03")

    def sees(self, pattern: str) -> None:
        """Waits for it, behind what was seen before."""
        end = time.monotonic() + WAIT_S
        while not (found := re.search(pattern, self.seen, re.DOTALL)):
            assert time.monotonic() < end, self.seen
            if select.select([self._ours], [], [], 0.1)[0]:
                self.seen += os.read(self._ours, 4096).decode(errors="replace")
        self.seen = self.seen[found.end() :]

    def leaves(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


def test_a_person_at_a_terminal_is_asked(demo: Stack) -> None:
    person = Person([*demo.line, "--data", str(demo.data)], demo.environment)
    try:
        person.sees("> ")
        person.types("make a card for steps\n")
        person.sees(r"now\.\r\n.*> ")
        person.types("delete the steps card\n")
        person.sees(r'arguments: \{"id": "steps"\}')
        person.sees(r"\[l\]ater: ")
        person.interrupts()
        person.sees("Left open.*> ")
        person.types("/waiting\n")
        person.sees(r"\[l\]ater: ")
        person.types("e\n")
        person.sees(r'as they are\): \{"id":"steps"\}')
        person.types("\n")
        person.sees(r"\[l\]ater: ")
        person.types("y\n")
        person.sees(r"The steps card is deleted\.\r\n.*> ")
        person.types("\x04")
        assert person.process.wait(WAIT_S) == 0
    finally:
        person.leaves()


def test_a_person_at_a_terminal_sees_words_come_stops_them_and_goes_on(held: Stack, model: Model) -> None:
    person = Person([*held.line, "--data", str(held.data)], held.environment)
    try:
        person.sees("> ")
        person.types("tell me a story\n")
        person.sees("Once ")
        person.interrupts()
        person.sees(r"\(stopped\)\r\n.*> ")
        person.types("again\n")
        person.sees("Once ")
        model.gates[-1].open()
        person.sees(r"upon a time\r\n.*> ")
        person.types("\x04")
        assert person.process.wait(WAIT_S) == 0
    finally:
        person.leaves()
