"""Runs a built function without a container engine, by the emulator of Lambda's runtime interface that SAM brings.

    .venv/bin/python -m infra.rie ConversationsFunction infra/events/health.json [--environment FILE]

After `sam build`. The function sees its folder as /var/task and its layers as /opt, both read-only, in a mount
namespace of its own, which only root may make. Streamed answers come whole at the end, with their prelude.
FILE has variables as `sam local invoke --env-vars` takes them.
"""

import argparse
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from typing import Any

from infra.local.intrinsics import load
from infra.local.template import Function, read_template
from infra.tools import ROOT, TOOLS, find_python

BUILT = ROOT / ".aws-sam" / "build" / "template.yaml"
BOOTSTRAP = ROOT / "infra" / "sam_local" / "bootstrap"
START_S = 60
STOP_S = 5
BIND = (
    'mount --bind "$1" /var/task && mount -o remount,ro,bind /var/task &&'
    ' mount --bind "$2" /opt && mount -o remount,ro,bind /opt && cd /var/task && shift 2 && exec "$@"'
)


class EmulationError(Exception):
    """The function could not be started or gave no answer; the text says why."""


@dataclass(frozen=True, slots=True)
class Emulated:
    """A function that runs. Call it from one thread only: two calls at once crash the emulator."""

    port: int
    timeout: float

    def invoke(self, event: Mapping[str, Any]) -> bytes:
        """The answer as the runtime posted it. Raises `EmulationError` for a function that failed or took too long."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
        try:
            connection.request("POST", "/2015-03-31/functions/function/invocations", json.dumps(event))
            answer = connection.getresponse().read()
        finally:
            connection.close()
        if _is_failure(answer):
            raise EmulationError(answer.decode(errors="replace"))
        return answer


def _is_failure(answer: bytes) -> bool:
    """A fault has status 200 too: it is told by its form, and a timeout by its sentence."""
    if answer.startswith(b"Task timed out"):
        return True
    try:
        result = json.loads(answer)
    except ValueError:
        return False
    return isinstance(result, dict) and {"errorType", "errorMessage"} <= result.keys()


def find_function(name: str, template: Path) -> Function:
    """Raises `EmulationError` when the built template, or the function in it, is not there."""
    if not template.is_file():
        raise EmulationError(f"{template} is missing: run `sam build` first")
    for function in read_template(template):
        if function.name == name:
            return function
    raise EmulationError(f"{template} has no function {name}")


def layer_folders(template: Path) -> list[Path]:
    """In the order of the template, in which every function of it lists them."""
    resources = load(template)["Resources"].values()
    layers = [r["Properties"] for r in resources if r["Type"] == "AWS::Serverless::LayerVersion"]
    return [(template.parent / layer["ContentUri"]).resolve() for layer in layers]


@contextmanager
def running(
    function: Function, layers: Sequence[Path], environment: Mapping[str, str], *, call_s: float = 60
) -> Iterator[Emulated]:
    """The function until the block ends. `environment` goes over the template's; `call_s` is the limit of one call."""
    python = find_python("3.13")
    if python is None:
        raise EmulationError("the functions run on Python 3.13, which is not here")
    with tempfile.TemporaryDirectory() as folder:
        opt = Path(folder) / "opt"
        for layer in layers:
            copytree(layer, opt, dirs_exist_ok=True)
        Path("/var/task").mkdir(parents=True, exist_ok=True)
        port, runtime_port = _free_ports(2)
        command = [
            *("unshare", "--mount", "sh", "-c", BIND, "sh", str(function.code), str(opt)),
            *(str(_emulator()), "--log-level", "error"),
            *("--runtime-interface-emulator-address", f"127.0.0.1:{port}"),
            *("--runtime-api-address", f"127.0.0.1:{runtime_port}"),
            *(str(BOOTSTRAP), function.handler),
        ]
        variables = _variables(function, Path(python).parent) | dict(environment)
        process = subprocess.Popen(command, env=variables, stdout=sys.stderr, start_new_session=True)
        try:
            _wait_until_it_listens(process, port)
            yield Emulated(port, call_s)
        finally:
            _stop(process)


def _emulator() -> Path:
    [found] = TOOLS["sam"].executable.parent.parent.glob("lib/*/site-packages/samcli/local/rapid/aws-lambda-rie-x86_64")
    return found


def _variables(function: Function, python: Path) -> dict[str, str]:
    return {
        "PATH": f"{python}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": ":UTC",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_TIMEOUT": f"{function.timeout:.0f}",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory),
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "LAMBDA_TASK_ROOT": "/var/task",
        "LAMBDA_RUNTIME_DIR": "/var/runtime",
        "_HANDLER": function.handler,
        # Layers are read-only, as in the cloud.
        "PYTHONDONTWRITEBYTECODE": "1",
        # There is no daemon that would take traces.
        "POWERTOOLS_TRACE_DISABLED": "true",
        **function.environment,
    }


def _free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise EmulationError("the emulator did not start; it needs root for its mounts")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the emulator and the function below it, which share a process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            process.wait()
        return


def variables_for(function: str, file: Path | None) -> dict[str, str]:
    """From a file of `sam local`'s form: `Parameters` for all functions, then what the function's own name has."""
    given = json.loads(file.read_text(encoding="utf-8")) if file is not None else {}
    return {**given.get("Parameters", {}), **given.get(function, {})}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.rie", description="Call a built function once.")
    parser.add_argument("function")
    parser.add_argument("event", type=Path)
    parser.add_argument("--environment", type=Path, help="variables, as `sam local invoke --env-vars` takes them")
    parser.add_argument("--template", type=Path, default=BUILT, help="the built template (default: SAM's)")
    options = parser.parse_args(arguments)
    try:
        function = find_function(options.function, options.template)
        variables = variables_for(options.function, options.environment)
        with running(function, layer_folders(options.template), variables) as emulated:
            answer = emulated.invoke(json.loads(options.event.read_text(encoding="utf-8")))
    except EmulationError as failed:
        print(f"infra.rie: {failed}", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(answer + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
