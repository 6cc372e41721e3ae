"""How long a fresh process takes to import each handler, and that the openai SDK is not among what it imports."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from infra.local.bench.numbers import Measure, measure

FUNCTIONS = Path(__file__).resolve().parents[3] / "functions"
CODE = (
    "import sys, time; t = time.perf_counter(); import handler; print(time.perf_counter() - t, 'openai' in sys.modules)"
)
SETTINGS = {"AWS_DEFAULT_REGION": "us-east-1", "CHAT_ENDPOINT_URL": "http://bench.invalid/v1", "JOBS_QUEUE_URL": "q"}
RUNS = 7


def import_measures() -> Iterator[Measure]:
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | SETTINGS
    for folder in sorted(path.parent for path in FUNCTIONS.glob("*/handler.py")):
        samples = []
        for _ in range(RUNS):
            done = subprocess.run(
                [sys.executable, "-c", CODE], cwd=folder, env=environment, capture_output=True, text=True, check=True
            )
            seconds, with_openai = done.stdout.split()
            if with_openai == "True":
                raise ValueError(f"{folder.name} imports the openai SDK at its start")
            samples.append(float(seconds) * 1000)
        yield measure(f"import of functions/{folder.name}", "ms", samples, "≤ 450 ms")
