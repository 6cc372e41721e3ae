"""Test tools that live apart from the project, each in a folder of its own under `.tools/`.

    python infra/tools.py ministack    prints the path of the executable, installing it first when it is missing
    python infra/tools.py sam

They are pinned, run on the Python that the functions are deployed on where there is one, and never meet the
project's own dependencies. Standard library only.
"""

import fcntl
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".tools"
INSTALL_S = 600
"""For each step of an installation: what is slower than that has stalled."""


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    requirement: str
    python: str
    """The version it should run on, such as 3.13; the running one when that is not found."""

    @property
    def executable(self) -> Path:
        return FOLDER / self.name / "bin" / self.name

    @property
    def is_installed(self) -> bool:
        stamp = FOLDER / self.name / "requirement"
        return self.executable.exists() and stamp.exists() and stamp.read_text() == self.requirement


TOOLS = {
    # Functions run on ministack's own Python, whatever the template says.
    "ministack": Tool("ministack", "ministack[full]==1.5.33", "3.13"),
    "sam": Tool("sam", "aws-sam-cli==1.170.0", "3.11"),
}


def ensure(tool: Tool) -> Path:
    """Installs the tool when it is missing. Several processes may ask at once. Raises `subprocess.SubprocessError`."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{tool.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tool.is_installed:
            _install(tool)
    return tool.executable


def _install(tool: Tool) -> None:
    folder = FOLDER / tool.name
    shutil.rmtree(folder, ignore_errors=True)
    python = find_python(tool.python) or sys.executable
    target = str(folder / "bin" / "python")
    uv = shutil.which("uv")
    if uv:
        _run([uv, "venv", "--quiet", "--python", python, str(folder)])
        _run([uv, "pip", "install", "--quiet", "--python", target, tool.requirement])
    else:
        _run([python, "-m", "venv", str(folder)])
        _run([target, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", tool.requirement])
    # Last, so that an install that was cut short is made again.
    (folder / "requirement").write_text(tool.requirement)


def find_python(version: str) -> str | None:
    """The path of an interpreter of this version, such as 3.13, that can make environments; None without one."""
    name = f"python{version}"
    found = _pyenv(version, name) or shutil.which(name)
    return found if found and _works(found, version) else None


def _pyenv(version: str, name: str) -> str | None:
    pyenv = shutil.which("pyenv")
    if pyenv is None:
        return None
    answer = subprocess.run([pyenv, "prefix", version], capture_output=True, text=True, check=False)
    candidate = Path(answer.stdout.strip()) / "bin" / name
    return str(candidate) if answer.returncode == 0 and candidate.exists() else None


def _works(python: str, version: str) -> bool:
    """A shim on the PATH may name a version that is not there."""
    code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    answer = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return answer.returncode == 0 and answer.stdout.strip() == version


def _run(command: list[str]) -> None:
    # What installers say belongs to a person, not into the one line that is printed for a script.
    subprocess.run(command, check=True, stdout=sys.stderr, timeout=INSTALL_S)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in TOOLS:
        print(f"usage: python infra/tools.py {'|'.join(TOOLS)}", file=sys.stderr)
        return 2
    try:
        print(ensure(TOOLS[arguments[0]]))
    except (OSError, subprocess.SubprocessError) as failed:
        print(f"{arguments[0]} could not be installed: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
