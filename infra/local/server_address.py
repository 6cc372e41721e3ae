"""Which server a command talks to, and with which token."""

import argparse
import contextlib
import os
from pathlib import Path
from typing import Any

from infra.local.api_client import ApiError

ROOT = Path(__file__).resolve().parents[2]


def add_server_arguments(parser: argparse.ArgumentParser, *, again: bool = False) -> None:
    """`again`: an action's parser takes them, too, behind the action; left out, those before it count."""
    url = os.environ.get("DECKHAND_URL") or "http://127.0.0.1:8787"
    asked: list[tuple[str, Any, Any, str]] = [
        ("--url", str, url, "default: DECKHAND_URL, or http://127.0.0.1:8787"),
        ("--token", str, None, "default: DECKHAND_TOKEN, AGENT_API_TOKEN, or the data folder's"),
        ("--data", Path, ROOT / ".deckhand", "the laptop stack's data folder"),
    ]
    for name, kind, default, text in asked:
        parser.add_argument(name, type=kind, default=argparse.SUPPRESS if again else default, help=text)


def find_token(given: str | None, data: Path) -> str:
    """From the command line, the environment, or the laptop stack's folder. Raises ApiError."""
    for value in (given, os.environ.get("DECKHAND_TOKEN"), os.environ.get("AGENT_API_TOKEN")):
        if value:
            return value
    with contextlib.suppress(OSError, ValueError):
        return (data / "token").read_text(encoding="ascii").strip()
    raise ApiError("No token: give --token, set DECKHAND_TOKEN, or start the stack once.", "no_token")
