"""`deckhand direct` as a process, against a laptop stack whose model is behind a conductor (checklist 002-24)."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conductor import TOKEN, Conductor
from tests.laptop import ROOT, WAIT_S, Laptop
from tests.scripted_gateway import ScriptedGateway, text_reply

INTERRUPTED = 130


class Terminal:
    """A stack, its model and its pod, and a person's shell."""

    def __init__(self, laptop: Laptop, gateway: ScriptedGateway, conductor: Conductor) -> None:
        self.laptop, self.gateway, self.conductor = laptop, gateway, conductor

    def type(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "infra.local.command", "direct", *arguments, "--data", str(self.laptop.data)],
            cwd=ROOT,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.laptop.folder),
                "DECKHAND_URL": self.laptop.url,
                "CHAT_API_TOKEN": "direct-secret",
                "CHAT_CONDUCTOR_URL": self.conductor.url,
                "CHAT_CONDUCTOR_TOKEN": TOKEN,
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def waiting(self, *arguments: str) -> "subprocess.Popen[str]":
        """A command that waits for the pod now."""
        self.conductor.pod = {"state": "starting"}
        process = self.type(*arguments)
        assert process.stderr is not None
        assert process.stderr.readline() == "waiting for qwen; Ctrl-C leaves the message unanswered\n"
        return process

    def wake(self) -> None:
        self.conductor.ready(self.gateway.url)

    @property
    def questions(self) -> list[Any]:
        return [request.messages[-1]["content"] for request in self.gateway.requests]


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    folder: Path = tmp_path_factory.mktemp("direct")
    with ScriptedGateway() as gateway, Conductor() as conductor:
        gateway.respond = lambda _: text_reply("Good morning")
        keys = {"CHAT_API_KEY": "key", "CHAT_API_TOKEN": "direct-secret", "CHAT_MAX_CONCURRENT": "8"}
        laptop = Laptop(folder, gateway.url, settings={**keys, **conductor.settings()}).start()
        try:
            yield Terminal(laptop, gateway, conductor)
        finally:
            laptop.end()


@pytest.fixture(autouse=True)
def unasked(terminal: Terminal) -> None:
    terminal.gateway.requests.clear()


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=WAIT_S)
    return process.returncode, out, err


def test_a_message_waits_for_its_model_and_is_answered_once(terminal: Terminal) -> None:
    terminal.conductor.stop()
    process = terminal.type("are", "you", "there?", "--session", "a")
    assert process.stderr is not None
    process.stderr.readline()
    assert terminal.conductor.starts == 1
    assert terminal.questions == []
    assert "secret" not in Path(f"/proc/{process.pid}/cmdline").read_text()
    terminal.wake()
    assert ended(process) == (0, "Good morning\n", "")
    assert len(terminal.questions) == 1


def test_ctrl_c_while_it_waits_leaves_the_message_unanswered(terminal: Terminal) -> None:
    process = terminal.waiting("hello", "--session", "b")
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == INTERRUPTED
    assert terminal.questions == []


def test_who_was_elsewhere_meanwhile_sends_nothing_any_more(terminal: Terminal) -> None:
    process = terminal.waiting("hello", "--session", "c")
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    terminal.wake()
    process.send_signal(signal.SIGCONT)
    code, _, err = ended(process)
    assert (code, "no longer the one in the foreground" in err) == (1, True)
    assert terminal.questions == []


def test_a_newer_message_of_the_session_takes_the_foreground(terminal: Terminal) -> None:
    older = terminal.waiting("older", "--session", "d")
    newer = terminal.waiting("newer", "--session", "d")
    terminal.wake()
    assert ended(older)[0] == 1
    assert ended(newer)[:2] == (0, "Good morning\n")
    assert ["newer" in str(question) for question in terminal.questions] == [True]


def test_a_session_that_was_made_up_is_named_so_that_one_can_go_on(terminal: Terminal) -> None:
    terminal.wake()
    code, out, err = ended(terminal.type("hello"))
    assert (code, out) == (0, "Good morning\n")
    assert err.startswith("session: ")


@pytest.mark.parametrize(
    ("token", "sentence"),
    [("", "No token: set CHAT_API_TOKEN."), ("wrong", "The token is not accepted (CHAT_API_TOKEN).")],
)
def test_a_token_that_is_missing_or_wrong_is_told(terminal: Terminal, token: str, sentence: str) -> None:
    assert ended(terminal.type("hello", CHAT_API_TOKEN=token)) == (1, "", f"{sentence}\n")
