"""Processes that the bench starts: each tells in a line that it is ready, and none outlives the block."""

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

from infra.local.command_error import CommandError

START_SECONDS = 60
END_SECONDS = 15
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV")
"""A developer's settings stay out: they would be measured too."""


class CannotMeasureError(CommandError):
    """Something that a measurement needs does not run, or does not do what it is measured for."""


def bare_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


@contextlib.contextmanager
def running(module: str, *arguments: str, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Gives the first line that the module prints. Raises CannotMeasureError when there is none."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env={**bare_environment(), **(settings or {})},
        stdin=subprocess.PIPE,  # its end tells even of a bench that was killed
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is the bench's to handle
    )
    try:
        yield _first_line(process, module)
    finally:
        _end(process)


def _first_line(process: "subprocess.Popen[bytes]", module: str) -> str:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    line, until = b"", time.monotonic() + START_SECONDS
    while not line.endswith(b"\n"):
        ready = select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))[0]
        more = os.read(process.stdout.fileno(), 4096) if ready else b""
        if not more:
            raise CannotMeasureError(f"{module} did not start.")
        line += more
    return line.decode()


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:  # a second Ctrl-C too
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
