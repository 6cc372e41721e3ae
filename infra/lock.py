"""The locked versions: requirements.lock for development, layers/dependencies/requirements.txt for the functions.

    python3 -m infra.lock            writes both anew from pyproject.toml; versions that are pinned stay as they are
    python3 -m infra.lock --check    says whether they are what pyproject.toml asks for

Standard library only; uv does the work, from the PATH or from a folder of its own.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.tools import INSTALL_S, ROOT, Tool, ensure

UV = Tool("uv", "uv==0.13.9", "3.11")
OLDEST_PYTHON = "3.11"
"""Named here, or the answer would depend on the Python that happens to be found first."""
COMPILE = (
    *("pip", "compile", "--quiet", "--universal", "--python-version", OLDEST_PYTHON),
    *("--generate-hashes", "--no-emit-index-url", "--no-header"),
)


@dataclass(frozen=True, slots=True)
class Lock:
    path: Path
    options: Sequence[str]


EVERYTHING = Lock(Path("requirements.lock"), ("--group", "dev"))
RUNTIME = Lock(Path("layers/dependencies/requirements.txt"), ("--no-annotate", "--constraint", str(EVERYTHING.path)))
"""What runs in the cloud: a part of the other, with the same versions."""


def write(lock: Lock, target: Path) -> None:
    """Compiles into `target`, which may hold pins to keep. Raises `SubprocessError`; uv says why on stderr."""
    target.parent.mkdir(parents=True, exist_ok=True)
    found = shutil.which("uv") or str(ensure(UV))
    command = [found, *COMPILE, *lock.options, "pyproject.toml", "--output-file", str(target)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=INSTALL_S)


def is_current(lock: Lock, folder: Path) -> bool:
    """Compiles a copy in `folder` and compares."""
    present, copy = ROOT / lock.path, folder / lock.path
    if not present.is_file():
        return False
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(present, copy)
    write(lock, copy)
    return copy.read_bytes() == present.read_bytes()


def check() -> int:
    with tempfile.TemporaryDirectory() as folder:
        stale = [str(lock.path) for lock in (EVERYTHING, RUNTIME) if not is_current(lock, Path(folder))]
    print(f"not current: {', '.join(stale)}; run python3 -m infra.lock" if stale else "the locks are current")
    return 1 if stale else 0


def main(arguments: Sequence[str]) -> int:
    try:
        if arguments == ["--check"]:
            return check()
        if arguments:
            print("usage: python3 -m infra.lock [--check]", file=sys.stderr)
            return 2
        for lock in (EVERYTHING, RUNTIME):
            write(lock, ROOT / lock.path)
    except subprocess.SubprocessError as failed:
        print(failed, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
