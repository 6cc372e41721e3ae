"""What the agent's package may know of the rest of the house, beside the contracts of the import linter."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path("layers/deckhand/python/deckhand")
MODULES = sorted((PACKAGE / "agent").glob("*.py"))
CONTRACT = {"caller", "execution", "permission", "registry", "schema"}
"""What every operation is called through; the others are what can be done."""


def imported(module: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize(
    ("sdk", "home"),
    [("openai", "gateway.py"), ("cedarpy", "cedar.py"), ("webauthn", "passkeys.py"), ("pywebpush", "sender.py")],
)
def test_004_36_one_file_imports_an_sdk(sdk: str, home: str) -> None:
    users = {path.name for path in PACKAGE.rglob("*.py") if any(f"{n}.".startswith(f"{sdk}.") for n in imported(path))}
    assert users == {home}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_004_17_the_agent_knows_the_contract_of_operations_and_none_of_them(module: Path) -> None:
    names = imported(module)
    used = {name.split(".")[2] for name in names if name.startswith("deckhand.operations.")}
    assert used <= CONTRACT
    for other in ("settings", "bootstrap", "edge", "turns", "storage", "policy", "reminders", "push"):
        assert not {name for name in names if f"{name}.".startswith(f"deckhand.{other}.")}


def test_004_17_the_agent_is_loaded_without_any_operation() -> None:
    program = (
        "import sys, pathlib, importlib\n"
        f"for path in sorted(pathlib.Path('{PACKAGE}/agent').glob('*.py')):\n"
        "    importlib.import_module(f'deckhand.agent.{path.stem}')\n"
        "from deckhand.operations.registry import REGISTRY\n"
        "assert not REGISTRY.all(), REGISTRY.all()\n"
        "assert 'deckhand.settings' not in sys.modules\n"
    )
    environment = {"PYTHONPATH": str(PACKAGE.parent), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=60)


def test_004_17_the_tools_of_a_turn_are_put_together_in_one_place() -> None:
    users = [path for path in PACKAGE.rglob("*.py") if "deckhand.agent.tools.OperationTools" in imported(path)]
    assert [path.name for path in users] == ["bootstrap.py"]
