"""SAM's command line for tests: its environment, the template transformed, and the application built."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.tools import ROOT, TOOLS, ensure, find_python

SAM = TOOLS["sam"]
TEMPLATE = ROOT / "template.yaml"
CONFIG = ROOT / "infra" / "samconfig.toml"
DEPLOYED_PYTHON = "3.13"
COMMAND_S = 600


def sam_tool() -> Path:
    """SAM's executable. Skips the test when it isn't installed."""
    if os.environ.get("DECKHAND_TOOLS") == "1":
        ensure(SAM)
    elif not SAM.is_installed:
        pytest.skip("SAM is not installed: run `python infra/tools.py sam`, or set DECKHAND_TOOLS=1")
    return SAM.executable


def deployed_python() -> Path:
    """The interpreter that the functions are built for. Skips the test where there is none."""
    found = find_python(DEPLOYED_PYTHON)
    if found is None:
        pytest.skip(f"the functions are built with Python {DEPLOYED_PYTHON}, which is not here")
    return Path(found)


def sam_environment(**more: str) -> dict[str, str]:
    """Ours without anything of AWS's, so that no command can reach an account by mistake."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    nowhere = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    return {**own, **nowhere, "SAM_CLI_TELEMETRY": "0", "AWS_DEFAULT_REGION": "us-east-1", **more}


def transformed_template(path: Path = TEMPLATE, parameters: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The template as CloudFormation gets to see it."""
    python = sam_tool().parent / "python"
    script = ROOT / "tests" / "sam_transform.py"
    made = run([str(python), str(script), str(path), json.dumps(dict(parameters or {}))], sam_environment())
    result: dict[str, Any] = json.loads(made)
    return result


def build(folder: Path) -> Path:
    """`sam build` into `folder`; gives the built template."""
    python, sam = deployed_python(), sam_tool()
    # SAM looks for the interpreter by its name; a shim of a version manager would be found but not work.
    path = os.pathsep.join((str(python.parent), os.environ["PATH"]))
    command = [str(sam), "build", "--config-file", str(CONFIG), "--template", str(TEMPLATE), "--build-dir", str(folder)]
    # Without a cache: what is tested is what a fresh machine builds.
    run([*command, "--no-cached"], sam_environment(PATH=path))
    built = folder / "template.yaml"
    # A failed build leaves none, and SAM would then use the sources without a word.
    assert built.is_file()
    return built


def run(command: list[str], environment: Mapping[str, str], cwd: Path = ROOT) -> str:
    """Standard output; fails the test with everything that was said when the command fails."""
    assert shutil.which(command[0]) is not None
    done = subprocess.run(
        command, env=dict(environment), cwd=cwd, capture_output=True, text=True, timeout=COMMAND_S, check=False
    )
    if done.returncode != 0:
        pytest.fail(f"{Path(command[0]).name} {command[1]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout
