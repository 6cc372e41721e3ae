"""What is measured: a laptop stack and its gateway on free ports, in a folder of their own, ended with the block."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from infra.local.api_client import Api, ApiError

START_SECONDS = 60


@dataclass(frozen=True)
class BenchStack:
    url: str
    token: str
    data: Path
    pid: int

    def api(self) -> Api:
        return Api(self.url, self.token)


@contextlib.contextmanager
def running_stack() -> Iterator[BenchStack]:
    """Raises ApiError when it does not start."""
    with tempfile.TemporaryDirectory() as folder, _process("infra.local.bench.gateway", {}) as gateway:
        port = _line(gateway).strip()
        settings = {"CHAT_ENDPOINT_URL": f"http://127.0.0.1:{port}/v1/chat/completions", "CHAT_MODEL": "bench"}
        with _process("infra.local.stack", settings, "--port", "0", "--data", folder) as stack:
            ready = re.match(r"deckhand ready: (\S+) token: (\S+)", _line(stack))
            if ready is None:
                raise ApiError("The laptop stack did not start.")
            yield BenchStack(ready[1], ready[2], Path(folder), stack.pid)


@contextlib.contextmanager
def _process(module: str, settings: dict[str, str], *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    unset = ("CHAT_ENDPOINT_URL", "CHAT_API_KEY", "AGENT_API_TOKEN")
    environment = {name: value for name, value in os.environ.items() if name not in unset} | settings
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _line(process: "subprocess.Popen[str]") -> str:
    return process.stdout.readline() if process.stdout is not None else ""
