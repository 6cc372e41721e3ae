"""The two commands of a fresh machine: when they make `.venv`, and what they run in it."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from infra import dev


class Checkout:
    """A project folder whose environment is only pretended; `steps` are the commands that would have made it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self.fails_at: str | None = None
        self.lock = root / "requirements.lock"
        self.lock.write_text("a==1\n")
        (root / "pyproject.toml").write_text("[project]\n")
        self.python = root / ".venv" / "bin" / "python"
        names = {"ROOT": root, "LOCK": self.lock, "PROJECT": root / "pyproject.toml", "VENV": root / ".venv"}
        names |= {"PYTHON": self.python, "STAMP": root / ".venv" / "made-from"}
        for name, value in names.items():
            monkeypatch.setattr(dev, name, value)
        monkeypatch.setattr(dev, "step", self._step)

    def _step(self, command: Sequence[str]) -> None:
        kind = "venv" if "venv" in command else "lock" if "-r" in command else "project"
        if kind == self.fails_at:
            raise dev.SetupError("no network")
        if kind == "venv":
            self.python.parent.mkdir(parents=True, exist_ok=True)
            self.python.touch()
        self.steps.append(kind)

    def prepare(self) -> list[str]:
        """The steps of one run."""
        self.steps.clear()
        dev.prepare()
        return list(self.steps)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    return Checkout(tmp_path, monkeypatch)


def test_a_fresh_checkout_gets_everything(checkout: Checkout) -> None:
    assert checkout.prepare() == ["venv", "lock", "project"]


def test_nothing_is_done_twice(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    checkout.prepare()
    capsys.readouterr()
    assert checkout.prepare() == []
    assert capsys.readouterr().err == ""


def test_a_changed_lock_is_installed_into_the_same_environment(checkout: Checkout) -> None:
    checkout.prepare()
    checkout.lock.write_text("a==2\n")
    assert checkout.prepare() == ["lock", "project"]


@pytest.mark.parametrize("step", ["lock", "project"])
def test_an_installation_that_broke_off_is_begun_anew(checkout: Checkout, step: str) -> None:
    checkout.fails_at = step
    with pytest.raises(dev.SetupError):
        checkout.prepare()
    checkout.fails_at = None
    assert checkout.prepare() == ["venv", "lock", "project"]


def test_a_renewal_that_broke_off_is_begun_anew(checkout: Checkout) -> None:
    checkout.prepare()
    checkout.lock.write_text("a==2\n")
    checkout.fails_at = "lock"
    with pytest.raises(dev.SetupError):
        checkout.prepare()
    checkout.lock.write_text("a==1\n")
    checkout.fails_at = None
    assert checkout.prepare() == ["venv", "lock", "project"]


def test_an_environment_whose_python_is_gone_is_made_anew(checkout: Checkout) -> None:
    checkout.prepare()
    checkout.python.unlink()
    assert checkout.prepare() == ["venv", "lock", "project"]


def test_an_environment_of_another_place_is_made_anew(checkout: Checkout) -> None:
    checkout.prepare()
    dev.STAMP.write_text(dev.STAMP.read_text().replace(str(dev.VENV), "/elsewhere/.venv"))
    assert checkout.prepare() == ["venv", "lock", "project"]


def test_up_runs_the_stack_with_its_options() -> None:
    wanted = dev.command(["up", "--port", "1"])
    assert wanted == [str(dev.PYTHON), "-P", "-m", "infra.local.stack", "--port", "1"]


def test_test_runs_pytest_with_its_arguments() -> None:
    assert dev.command(["test", "-k", "x"]) == [str(dev.PYTHON), "-m", "pytest", "-k", "x"]


@pytest.mark.parametrize("arguments", [[], ["down"]])
def test_other_commands_are_answered_with_the_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="usage:"):
        dev.command(arguments)


def test_a_failing_step_says_what_it_said() -> None:
    with pytest.raises(dev.SetupError, match=r"(?s)no such thing.*preparing \.venv failed"):
        dev.step([sys.executable, "-c", "raise SystemExit('no such thing')"])


def test_a_step_that_stalls_is_ended_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "STEP_S", 0.1)
    with pytest.raises(dev.SetupError, match=r"preparing \.venv failed; this was not done after 0\.1 s$"):
        dev.step([sys.executable, "-c", "import time; time.sleep(600)"])
