"""How long a fresh process takes to import each handler, and that the openai SDK is not among what it imports."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from infra.local.bench.numbers import Measure, at_most, measure
from infra.local.bench.processes import CannotMeasureError, bare_environment

FUNCTIONS = Path(__file__).resolve().parents[3] / "functions"
CODE = (
    "import sys, time; t = time.perf_counter(); import handler; print(time.perf_counter() - t, 'openai' in sys.modules)"
)
SETTINGS = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "CHAT_ENDPOINT_URL": "http://bench.invalid/v1",
    "JOBS_QUEUE_URL": "q",
    # By it the tracer's SDK knows that it is on Lambda, where it makes no client to ask what to sample.
    "LAMBDA_TASK_ROOT": str(FUNCTIONS),
}
RUNS = 7


def import_measures() -> Iterator[Measure]:
    for folder in sorted(path.parent for path in FUNCTIONS.glob("*/handler.py")):
        samples = [_import_ms(folder) for _ in range(RUNS)]
        yield measure(f"import of functions/{folder.name}", "ms", samples, at_most(450))


def _import_ms(folder: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=folder,
        env={**bare_environment(), **SETTINGS},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode != 0:
        raise CannotMeasureError(f"functions/{folder.name} cannot be imported.")
    seconds, with_openai = done.stdout.split()
    if with_openai == "True":
        raise CannotMeasureError(f"functions/{folder.name} imports the openai SDK before it has answered anything.")
    return float(seconds) * 1000
