"""`deckhand turns`: the turns that run, and how to stop them. Owners see and stop everybody's."""

import argparse
import contextlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from infra.local.api_client import Api
from infra.local.server_address import add_server_arguments, find_token
from infra.local.terminal_text import one_line

ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    parser.add_argument(
        "--stop", metavar="ID", help="stop the turn of this conversation, the turn of this id, or «all»"
    )


def run(options: argparse.Namespace) -> int:
    """The exit code. Raises ApiError."""
    with contextlib.closing(Api(options.url, find_token(options.token, options.data))) as api:
        if options.stop == ALL:
            print(f"Stopped: {len(api.call('DELETE', '/api/chat/turns')['turnIds'])}.")
        elif options.stop is not None:
            _stop(api, options.stop)
            print("Stopped: 1.")
        else:
            found = _running(api)
            print("\n".join(map(line, found)) or "No turn is running.")
    return 0


def line(turn: Mapping[str, Any]) -> str:
    """One turn: its conversation, since when, how far it is, whose it is."""
    steps = f"{turn['steps']} step{'' if turn['steps'] == 1 else 's'}"
    parts = [turn["conversationId"], turn["turnId"], turn["startedAt"], steps, turn["phase"], turn["principal"]]
    return "  ".join(one_line(str(part)) for part in parts if part)


def _running(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.call("GET", "/api/chat/turns")["turns"]
    return found


def _stop(api: Api, id: str) -> None:
    """A turn is named together with its conversation, so that no later one is hit."""
    named = next((one for one in _running(api) if id in (one["conversationId"], one["turnId"])), None)
    conversation, turn = (named["conversationId"], named["turnId"]) if named else (id, "")
    query = f"?turnId={quote(turn, safe='')}" if turn else ""
    api.call("DELETE", f"/api/chat/turn/{quote(conversation, safe='')}{query}")
