"""What the bench starts: its gateway, and that nothing of it stays behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from infra.local.bench.processes import CannotMeasureError, running

GATEWAY = "infra.local.bench.gateway"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(GATEWAY) as port:
        yield f"http://127.0.0.1:{port.strip()}/v1/chat/completions"


def chunks(url: str, text: str, **more: Any) -> list[dict[str, Any]]:
    body = {"messages": [{"role": "user", "content": text}], "tools": [{"type": "function"}], **more}
    answer = httpx2.post(url, json=body, timeout=30, trust_env=False)
    *events, done, rest = answer.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def test_it_makes_as_many_tokens_as_it_is_asked_for_and_marks_when(url: str) -> None:
    before = time.time()
    *tokens, last = chunks(url, "tokens=120 pause=0")
    made = [float(token["choices"][0]["delta"]["content"]) for token in tokens]
    assert len(made) == 120
    assert made == sorted(made)
    assert before - 1 < made[0] <= made[-1] < time.time() + 1
    assert last["choices"][0]["finish_reason"] == "stop"


def test_a_request_without_tools_is_not_a_turn_and_gets_one_token(url: str) -> None:
    assert len(chunks(url, "tokens=120 pause=0", tools=None)) == 2


def listens(port: str) -> bool:
    try:
        socket.create_connection(("127.0.0.1", int(port))).close()
    except ConnectionError:
        return False
    return True


def test_a_process_ends_with_its_block() -> None:
    with running(GATEWAY) as port:
        assert listens(port)
    assert not listens(port)


def test_a_process_that_prints_nothing_is_named() -> None:
    with (
        pytest.raises(CannotMeasureError, match=r"infra\.local\.nowhere did not start"),
        running("infra.local.nowhere"),
    ):
        pass


def test_the_gateway_ends_when_whoever_started_it_was_killed() -> None:
    starter = (
        "import time\nfrom infra.local.bench.processes import running\n"
        f"with running({GATEWAY!r}) as port:\n    print(port.strip(), flush=True)\n    time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    until = time.monotonic() + 60
    while listens(port):
        assert time.monotonic() < until
        time.sleep(0.02)
