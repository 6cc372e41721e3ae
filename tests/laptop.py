"""The laptop stack as a process, with Deckhand's own functions and a gateway of the test's own."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from infra.local.api_client import Api
from infra.local.stack import STOP_SECONDS

ROOT = Path(__file__).resolve().parents[1]
WAIT_S = 60
"""Ends a test that hangs; no test waits that long."""
FUNCTIONS = ("chat", "conversations", "manifests", "identity", "jobs", "reminders")
STACK = """
import sys
from infra.local import stack
stack.STOP_SECONDS = {stop}
sys.exit(stack.main())
"""
HASTY = """
from deckhand.domain import turn
turn.LEASE_S, turn.RENEW_S = {lease}, {renew}
"""


class Laptop:
    """`lease`: seconds of a turn's lease; None leaves it as it is, and the template with it. `settings` are further
    variables of its environment. `stop`: seconds that running requests get at its end.
    """

    def __init__(
        self,
        folder: Path,
        gateway: str,
        *,
        lease: float | None = None,
        settings: Mapping[str, str] | None = None,
        stop: float = STOP_SECONDS,
    ) -> None:
        self._stop = stop
        self.folder, self._settings = folder, {"CHAT_ENDPOINT_URL": gateway, **(settings or {})}
        self._template = ROOT / "template.yaml" if lease is None else _hasty_template(folder, lease)
        self.data = folder / "data"
        self._started: subprocess.Popen[str] | None = None

    def start(self) -> "Laptop":
        self.end()
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-c", STACK.format(stop=self._stop), "--port", "0"),
                *("--template", str(self._template), "--data", str(self.data)),
            ],
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **self._settings},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._started = self.process
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        told = re.fullmatch(r"deckhand ready: (http://127\.0\.0\.1:\d+) token: (\S+)\n", line)
        assert told, line
        self.url, self.token = told[1], told[2]
        return self

    @property
    def is_running(self) -> bool:
        return self._started is not None and self._started.poll() is None

    @contextmanager
    def api(self) -> Iterator[Api]:
        api = Api(self.url, self.token)
        try:
            yield api
        finally:
            api.close()

    def workers(self, function: str) -> list[int]:
        """The processes of a function that were forked to take calls; their parent, the zygote, is not among them."""
        parents = {pid: _parent(pid) for pid in _processes()}
        at_home = {pid for pid in parents if _home(pid).endswith(f"/{function}")}
        return [pid for pid in at_home if parents[pid] in at_home and self._is_ours(pid, parents)]

    def _is_ours(self, pid: int, parents: dict[int, int]) -> bool:
        while pid > 1:
            if pid == self.process.pid:
                return True
            pid = parents.get(pid, 0)
        return False

    def kill_workers(self, function: str) -> None:
        """Ends all of them by kill -9, whatever they do."""
        workers = self.workers(function)
        assert workers
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill(self) -> None:
        """kill -9 of the stack; what is below it ends by itself."""
        below = [pid for function in FUNCTIONS for pid in self.workers(function)]
        self.process.kill()
        self.process.communicate(timeout=WAIT_S)
        until(lambda: not any(_home(pid) for pid in below))

    def end(self) -> None:
        if self._started is not None:
            self._started.kill()
            self._started.communicate(timeout=WAIT_S)


def until(state: Callable[[], object], seconds: float = WAIT_S) -> None:
    end = time.monotonic() + seconds
    while not state():
        assert time.monotonic() < end, "the state never came"
        time.sleep(0.01)


def _hasty_template(folder: Path, lease: float) -> Path:
    """The template with functions whose leases are short."""
    for function in FUNCTIONS:
        home = folder / "hasty" / function
        home.mkdir(parents=True)
        source = (ROOT / "functions" / function / "handler.py").read_text()
        (home / "handler.py").write_text(HASTY.format(lease=lease, renew=lease / 3) + source)
    template = folder / "template.yaml"
    template.write_text((ROOT / "template.yaml").read_text().replace("CodeUri: functions/", "CodeUri: hasty/"))
    return template


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parent(pid: int) -> int:
    """0 when it is gone, or a zombie."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if state == "Z" else int(parent)


def _home(pid: int) -> str:
    """The working folder; empty when the process is gone."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
