"""`deckhand audit`: who changed, decided or was refused what, the newest last."""

import argparse
import contextlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from infra.local.api_client import Api
from infra.local.server_address import add_server_arguments, find_token
from infra.local.terminal_text import one_line

PAGE = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    parser.add_argument("--limit", type=_count, default=20, metavar="N", help="how many (default: 20)")


def run(options: argparse.Namespace) -> int:
    """The exit code. Raises ApiError."""
    with contextlib.closing(Api(options.url, find_token(options.token, options.data))) as api:
        for entry in reversed(newest(api, options.limit)):
            print(line(entry))
    return 0


def newest(api: Api, count: int) -> list[dict[str, Any]]:
    """The newest first. Raises ApiError."""
    found: list[dict[str, Any]] = []
    after = ""
    while len(found) < count:
        wanted = min(PAGE, count - len(found))
        page = api.call("GET", f"/api/audit?order=desc&limit={wanted}&after={quote(after, safe='')}")
        found += page["entries"]
        after = page["next"]
        if not after:
            break
    return found


def line(entry: Mapping[str, Any]) -> str:
    """One entry: when, who, by which channel, what came of what, and why."""
    what = " ".join(str(entry[name]) for name in ("operation", "card") if entry.get(name))
    why = entry.get("code") or ", ".join(entry.get("policies") or ())
    parts = [entry["at"], entry["principal"], entry["channel"], entry["outcome"], what, *([f"({why})"] if why else [])]
    return "  ".join(one_line(str(part)) for part in parts)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= 100_000:
        raise argparse.ArgumentTypeError("a whole number from 1 to 100000")
    return int(text)
