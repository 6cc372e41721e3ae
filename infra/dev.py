"""The two commands of a fresh machine; nothing but the standard library is needed.

`python3 infra/dev.py up [--port 8787] [--data DIR] [--verbose]` runs Deckhand here;
`python3 infra/dev.py test [pytest arguments]` runs its tests. Both make `.venv` from requirements.lock first, if it
is absent, half made, or older than the lock.
"""

import sys

if not ((3, 11) <= sys.version_info[:2] <= (3, 14)):  # before anything that an older Python would stumble over
    sys.exit("deckhand needs Python 3.11 to 3.14; this one is %d.%d" % sys.version_info[:2])  # noqa: UP031

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
PROJECT = ROOT / "pyproject.toml"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "made-from"
"""Written last, so that its absence tells a half-made environment."""
STEP_S = 1800
"""For each step of making it: what is slower than that has stalled."""
QUIET = ("--quiet", "--disable-pip-version-check", "--no-input")


class SetupError(Exception):
    """The environment cannot be made; the text is for the developer."""


def prepare() -> None:
    """Make or renew `.venv` where that is needed; other runs that want the same wait for it. Raises SetupError."""
    with exclusively(PROJECT):
        wanted = fingerprint()
        found = STAMP.read_text(encoding="utf-8") if STAMP.is_file() else None
        if found == wanted and PYTHON.exists():
            return
        print(
            "deckhand: preparing .venv from requirements.lock (once, about a minute) ...", file=sys.stderr, flush=True
        )
        STAMP.unlink(missing_ok=True)
        if found is None or not PYTHON.exists() or place(found) != place(wanted):
            step(
                [sys.executable, "-m", "venv", "--clear", *(() if has("ensurepip") else ("--without-pip",)), str(VENV)]
            )
        pip("--require-hashes", "-r", str(LOCK))
        pip("--no-deps", "--no-build-isolation", "-e", str(ROOT))
        STAMP.write_text(wanted, encoding="utf-8")


def fingerprint() -> str:
    """What `.venv` depends on: where it is and which Python it is for, then the contents of its sources."""
    contents = hashlib.sha256(LOCK.read_bytes() + b"\0" + PROJECT.read_bytes()).hexdigest()
    return f"{VENV} {sys.version_info.major}.{sys.version_info.minor}\n{contents}\n"


def place(text: str) -> str:
    """The part of a fingerprint that no installation can change."""
    return text.partition("\n")[0]


@contextlib.contextmanager
def exclusively(file: Path) -> Iterator[None]:
    with file.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def pip(*arguments: str) -> None:
    """The environment's own pip or, where the system's Python cannot put one there (Debian's), the system's."""
    own = (VENV / "bin/pip").exists()
    if not own and not has("pip"):
        raise SetupError("This Python has neither ensurepip nor pip. On Debian: apt-get install python3-venv")
    runner = [str(PYTHON), "-m", "pip"] if own else [sys.executable, "-m", "pip", "--python", str(PYTHON)]
    step([*runner, "install", *QUIET, *arguments])


def step(command: Sequence[str]) -> None:
    """Run a command silently. Raises SetupError with what it said when it fails."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=STEP_S
        )
    except subprocess.TimeoutExpired:
        asked = " ".join(command)
        raise SetupError(f"{asked}\ndeckhand: preparing .venv failed; this was not done after {STEP_S} s") from None
    if done.returncode != 0:
        raise SetupError(f"{done.stdout.strip()}\ndeckhand: preparing .venv failed; the lines above say why")


def command(arguments: Sequence[str]) -> list[str]:
    """What to run inside `.venv`."""
    if arguments[:1] == ["up"]:
        # -P: a folder named `infra` where the user happens to be must not be taken for ours
        return [str(PYTHON), "-P", "-m", "infra.local.stack", *arguments[1:]]
    if arguments[:1] == ["test"]:
        return [str(PYTHON), "-m", "pytest", *arguments[1:]]
    sys.exit("usage: python3 infra/dev.py up [--port 8787] [--data DIR] | test [pytest arguments]")


def main() -> None:
    wanted = command(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a running pip is ended too
    try:
        prepare()
    except SetupError as failed:
        sys.exit(str(failed))
    except KeyboardInterrupt:
        sys.exit(130)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.argv[1] == "test":
        os.chdir(ROOT)
    # In the place of this process: signals and the exit code need no forwarding.
    os.execv(wanted[0], wanted)  # noqa: S606


if __name__ == "__main__":
    main()
