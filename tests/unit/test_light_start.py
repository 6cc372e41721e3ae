"""What no function loads before it has to: signing in brings a library for every kind of cryptography."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.laptop import ROOT

HANDLERS = sorted(ROOT.glob("functions/*/handler.py"))
HEAVY = ("webauthn", "cryptography", "cbor2", "OpenSSL")
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "AWS_DEFAULT_REGION": "us-east-1",
    "CHAT_ENDPOINT_URL": "http://gateway.invalid/v1",
    "JOBS_QUEUE_URL": "q",
}


def test_functions_start_without_what_passkeys_need() -> None:
    imports = "; ".join(f"import functions.{handler.parent.name}.handler" for handler in HANDLERS)
    code = f"{imports}; import sys; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda path: path.parent.name)
def test_a_handler_keeps_things_out_before_it_imports_anything_else(handler: Path) -> None:
    imports = [node for node in ast.parse(handler.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert ast.unparse(imports[0]) == "import deckhand.light_start"
