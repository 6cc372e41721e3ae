"""What is measured: a laptop stack and its gateway on free ports, in a folder of their own, ended with the block."""

import contextlib
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.local.api_client import Api
from infra.local.bench.processes import CannotMeasureError, running


@dataclass(frozen=True)
class BenchStack:
    url: str
    token: str
    data: Path

    def api(self) -> Api:
        return Api(self.url, self.token)


@contextlib.contextmanager
def running_stack() -> Iterator[BenchStack]:
    """Raises CannotMeasureError when it does not start."""
    with tempfile.TemporaryDirectory() as folder, running("infra.local.bench.gateway") as port:
        settings = {
            "CHAT_ENDPOINT_URL": f"http://127.0.0.1:{port.strip()}/v1/chat/completions",
            "CHAT_MODEL": "bench",
        }
        with running("infra.local.stack", "--port", "0", "--data", folder, settings=settings) as line:
            ready = re.match(r"deckhand ready: (\S+) token: (\S+)", line)
            if ready is None:
                raise CannotMeasureError("The laptop stack did not start.")
            yield BenchStack(ready[1], ready[2], Path(folder))


def timed(api: Api, method: str, path: str, body: Any = None) -> float:
    """How long a request took, in milliseconds."""
    began = time.perf_counter()
    api.call(method, path, body)
    return (time.perf_counter() - began) * 1000
