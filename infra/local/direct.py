"""`deckhand direct`: one message by the direct form of chat, and its reply.

The token comes from CHAT_API_TOKEN. With CHAT_CONDUCTOR_URL and CHAT_CONDUCTOR_TOKEN set, a model that sleeps is woken
and waited for.
"""

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from deckhand.agent.conductor import HttpConductor
from infra.local.api_client import ApiError
from infra.local.direct_client import DirectClient, Patience, Said, converse
from infra.local.foreground import Foreground
from infra.local.terminal_text import printable

ROOT = Path(__file__).resolve().parents[2]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("message", nargs="+", metavar="MESSAGE")
    parser.add_argument("--session", help="go on in this session; without it a new one is made and named")
    parser.add_argument(
        "--url",
        default=os.environ.get("DECKHAND_URL") or "http://127.0.0.1:8787",
        help="default: DECKHAND_URL, or http://127.0.0.1:8787",
    )
    parser.add_argument("--token", help="default: CHAT_API_TOKEN; what is given here can be read in the process list")
    parser.add_argument("--wait", type=float, default=600.0, metavar="SECONDS", help="for a model that wakes up (600)")
    parser.add_argument("--data", type=Path, default=ROOT / ".deckhand", help="where the newest message is marked")


def run(options: argparse.Namespace) -> int:
    """The exit code: 0 for a reply. Raises CommandError."""
    token = options.token or os.environ.get("CHAT_API_TOKEN")
    if not token:
        raise ApiError("No token: set CHAT_API_TOKEN.", "no_token")
    session = _text(options.session) if options.session else uuid.uuid4().hex
    message = _text(" ".join(options.message))
    with contextlib.closing(DirectClient(options.url, token)) as client, _leaving() as left:
        said = converse(
            client,
            message,
            session,
            claim=Foreground(options.data, url=options.url, session=session, mark=uuid.uuid4().hex),
            pods=_pods(),
            patience=Patience(options.wait, time.sleep, time.monotonic, time.time, left),
            notice=_tell,
        )
    print(printable(said.reply))
    if options.session is None:
        print(f"session: {session}", file=sys.stderr)
    return 0


def _text(given: str) -> str:
    """What the terminal sent need not be UTF-8."""
    return given.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _tell(said: Said) -> None:
    print(printable(f"waiting for {said.pending}; Ctrl-C leaves the message unanswered"), file=sys.stderr, flush=True)


def _pods() -> Callable[[str], HttpConductor] | None:
    url, token = os.environ.get("CHAT_CONDUCTOR_URL"), os.environ.get("CHAT_CONDUCTOR_TOKEN")
    if not url or not token:
        return None
    return lambda pod: HttpConductor(url, token=lambda: token, pod=pod)


@contextlib.contextmanager
def _leaving() -> Iterator[Callable[[], bool]]:
    """Whether the process was stopped (Ctrl-Z) and went on later: its person was elsewhere."""
    left = threading.Event()
    before = signal.signal(signal.SIGCONT, lambda *_: left.set())
    try:
        yield left.is_set
    finally:
        signal.signal(signal.SIGCONT, before)
