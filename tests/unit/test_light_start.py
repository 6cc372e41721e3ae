"""What no function loads before it has to: signing in brings a library for every kind of cryptography. A handler that
fails here does not import `deckhand.light_start` before everything else.
"""

import subprocess
import sys

import pytest

from tests.laptop import ROOT

HEAVY = ("webauthn", "cryptography", "cbor2", "OpenSSL")
SETTINGS = {"AWS_DEFAULT_REGION": "us-east-1", "CHAT_ENDPOINT_URL": "http://gateway.invalid/v1", "JOBS_QUEUE_URL": "q"}


@pytest.mark.parametrize("function", sorted(path.parent.name for path in ROOT.glob("functions/*/handler.py")))
def test_a_function_starts_without_what_passkeys_need(function: str) -> None:
    code = f"import sys, handler; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / "functions" / function,
        env={"PATH": "/usr/bin:/bin", **SETTINGS},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == ""
