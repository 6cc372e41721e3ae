"""The laptop stack: one front process with the functions' workers below it, and the demo gateway when no other is set.

`python -m infra.local.stack [--port 8787] [--data DIR] [--verbose]`. Prints one line when it is ready. TERM and Ctrl-C
end it: running requests get some seconds, a second signal ends them at once.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from deckhand.push.vapid import new_key
from deckhand.settings import SettingsError, read_settings
from infra.local import demo_gateway
from infra.local.aftermath import FolderInUseError, sole_user
from infra.local.crew import Size
from infra.local.data_folder import DataFolder
from infra.local.environment import function_environment, shifted_clock, wants_demo
from infra.local.front import front
from infra.local.intrinsics import TemplateError
from infra.local.journal import write_journal
from infra.local.owner_token import owner_token
from infra.local.pool import Pool
from infra.local.spawner import Program, StartError
from infra.local.template import Function, read_template
from infra.local.ticker import running_ticker

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 8
"""Time for running requests at the end; with the ends of the processes it stays within ten seconds."""
STREAMING = Size(limit=32, reserved=4, floor=2)
ORDINARY = Size(limit=8, floor=1)
PRELOADS = ("openai", "cedarpy")
"""Imported late by functions that run turns, so that their first bytes go out early; here it costs its second once."""
POLICY = ("cedarpy",)
"""The same for functions that only decide who may do what."""


class CannotStartError(Exception):
    """The stack cannot start; the sentence is for the developer."""


class Server(uvicorn.Server):
    """uvicorn without its signal handling: it would end the process by the signal, where a clean end is wanted."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def server(app: ASGIApp) -> Server:
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    return Server(config)


def listen(port: int) -> socket.socket:
    """A bound loopback socket. Raises CannotStartError when the port is taken."""
    # Named as TCP, asyncio switches Nagle's algorithm off; otherwise every second answer waits 40 ms for an ACK.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(("127.0.0.1", port))
        bound.listen(256)
    except (OSError, OverflowError) as error:
        bound.close()
        taken = isinstance(error, OSError) and "in use" in str(error.strerror).lower()
        reason = "is in use; choose another with --port" if taken else "cannot be used"
        raise CannotStartError(f"port {port} {reason}") from error
    return bound


class Stop:
    """What TERM and Ctrl-C do: the first lets running requests end; another (or one at start) ends all at once."""

    def __init__(self) -> None:
        self.http: Server | None = None
        self._until = 0.0
        self._task = asyncio.current_task()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal)

    def left(self) -> float:
        """Seconds that are left for what runs, once a signal came."""
        return self._until - time.monotonic()

    def _on_signal(self) -> None:
        if self.http is not None and not self.http.should_exit:
            self._until = time.monotonic() + STOP_SECONDS
            self.http.should_exit = True
        elif self._task is not None:
            self._until = 0.0
            self._task.cancel()


@contextlib.asynccontextmanager
async def running_pools(
    programs: Sequence[Program],
) -> AsyncIterator[list[Pool]]:
    """The pools of all functions, started side by side, ended together."""
    pools = [Pool(program, STREAMING if program.function.streams else ORDINARY) for program in programs]
    try:
        await asyncio.gather(*(pool.start() for pool in pools))
        yield pools
    finally:
        await asyncio.gather(*(pool.close() for pool in pools))


@contextlib.asynccontextmanager
async def running_demo(wanted: bool) -> AsyncIterator[str | None]:
    """The demo gateway on a port of its own; gives its endpoint URL, or None when it is not wanted."""
    if not wanted:
        yield None
        return
    bound = listen(0)
    serving = asyncio.create_task(server(demo_gateway.app()).serve(sockets=[bound]))
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/v1/chat/completions"
    finally:
        serving.cancel()
        await asyncio.wait({serving})


async def run(*, port: int, folder: Path, template: Path, environ: Mapping[str, str], verbose: bool) -> None:
    """Everything, from the socket to the last process, until a signal ends it."""
    stop = Stop()
    functions = read_template(template)
    with listen(port) as bound, contextlib.ExitStack() as files:
        data = DataFolder(folder)
        files.enter_context(sole_user(data.database))
        write_journal(None if verbose else data.own_log)
        token = owner_token(data)
        # Browsers have passkeys on localhost, not on 127.0.0.1.
        origin = f"http://localhost:{bound.getsockname()[1]}"
        vapid_key = environ.get("DECKHAND_VAPID_KEY") or data.vapid_key(new_key)
        environ = {**environ, "DECKHAND_VAPID_KEY": vapid_key}
        async with running_demo(wants_demo(environ)) as demo_url:
            programs = [
                Program(
                    function,
                    function_environment(function, environ, data=data.path, demo_url=demo_url, origin=origin),
                    log=_log(function, data, files, verbose=verbose),
                    preloads=PRELOADS if function.streams or function.queue else POLICY,
                )
                for function in functions
            ]
            # All have the same settings, and say what is wrong with them less plainly.
            read_settings(programs[0].environment)
            async with (
                running_pools(programs) as pools,
                running_ticker(pools, data.database, left=stop.left, clock=shifted_clock(environ)),
            ):
                stop.http = server(front(pools))
                # The socket listens already, so whoever reads the line can connect at once.
                print(f"deckhand ready: http://127.0.0.1:{bound.getsockname()[1]} token: {token}", flush=True)
                await stop.http.serve(sockets=[bound])


def _log(function: Function, data: DataFolder, files: contextlib.ExitStack, *, verbose: bool) -> int:
    if verbose:
        return sys.stderr.fileno()
    return files.enter_context(data.log_of(function).open("ab")).fileno()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="deckhand up", description="Run Deckhand on this machine.")
    parser.add_argument("--port", type=int, default=8787, help="0 takes any free one (default: 8787)")
    parser.add_argument("--data", type=Path, default=ROOT / ".deckhand", help="data folder (default: .deckhand)")
    parser.add_argument("--template", type=Path, default=ROOT / "template.yaml", help=argparse.SUPPRESS)
    parser.add_argument("--verbose", action="store_true", help="logs to the terminal instead of the data folder")
    options = parser.parse_args(arguments)
    try:
        asyncio.run(
            run(
                port=options.port,
                folder=options.data,
                template=options.template,
                environ=os.environ,
                verbose=options.verbose,
            )
        )
    except (CannotStartError, FolderInUseError, SettingsError, StartError, TemplateError) as error:
        print(f"deckhand: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"deckhand: the data folder cannot be used: {error}", file=sys.stderr)
        return 1
    except asyncio.CancelledError:
        pass  # a second signal, or one during the start
    return 0


if __name__ == "__main__":
    sys.exit(main())
