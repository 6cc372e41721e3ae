"""`deckhand tokens`: make, list and revoke the tokens of programs and devices."""

import argparse
import contextlib
import sys
from typing import Any
from urllib.parse import quote

from infra.local.api_client import Api
from infra.local.server_address import add_server_arguments, find_token
from infra.local.terminal_text import one_line

ROLES = ("owner", "editor", "viewer", "agent")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    make = actions.add_parser("make", help="make one; its secret is printed once")
    make.add_argument("name", help="what it is for, such as «scales in the bathroom»")
    make.add_argument("--role", choices=ROLES, default="agent", help="what it may do (default: agent)")
    make.add_argument("--operation", action="append", dest="operations", metavar="NAME", help="only these operations")
    make.add_argument("--card", action="append", dest="cards", metavar="ID", help="only these cards")
    make.add_argument("--expires", metavar="INSTANT", help="such as 2027-01-31T00:00:00Z")
    every = actions.add_parser("list", help="list them, without their secrets")
    revoke = actions.add_parser("revoke", help="revoke one: from then on it opens nothing")
    revoke.add_argument("id")
    for action in (make, every, revoke):
        add_server_arguments(action, again=True)


def run(options: argparse.Namespace) -> int:
    """The exit code. Raises ApiError."""
    with contextlib.closing(Api(options.url, find_token(options.token, options.data))) as api:
        if options.action == "make":
            return _make(api, options)
        if options.action == "revoke":
            api.call("DELETE", f"/api/tokens/{quote(options.id, safe='')}")
            print("Revoked.")
            return 0
        for token in api.call("GET", "/api/tokens")["tokens"]:
            print(_line(token))
        return 0


def _make(api: Api, options: argparse.Namespace) -> int:
    wanted = {
        "name": options.name,
        "role": options.role,
        "operations": options.operations,
        "cards": options.cards,
        "expiresAt": options.expires,
    }
    made = api.call("POST", "/api/tokens", {name: value for name, value in wanted.items() if value is not None})
    # Alone on its stream, so that a script has nothing to cut off.
    print(made["secret"])
    print(one_line(f"This is its secret, shown only now. Its id is {made['id']}."), file=sys.stderr)
    return 0


def _line(token: dict[str, Any]) -> str:
    limits = [*(token.get("operations") or []), *(f"card {card}" for card in token.get("cards") or [])]
    parts = [token["id"], token["role"], token["name"], f"used {token.get('lastUsedAt', 'never')}"]
    if "expiresAt" in token:
        parts.append(f"ends {token['expiresAt']}")
    every = [*parts, *([f"only {', '.join(limits)}"] if limits else [])]
    return "  ".join(one_line(part) for part in every)
