"""`deckhand agent`: switch the assistant off and on again, for all, for one user, for one token; or see where it is
off. Reading and everything else goes on.
"""

import argparse
import contextlib

from infra.local.api_client import Api
from infra.local.command_error import CommandError
from infra.local.server_address import add_server_arguments, find_token
from infra.local.terminal_text import one_line

PATH = "/api/agent/switches"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    parser.add_argument(
        "to", nargs="?", choices=("off", "on"), metavar="on|off", help="without it, what is off is listed"
    )
    # --token is the caller's own, as in all commands: a secret must not be taken for an id.
    whom = parser.add_mutually_exclusive_group()
    whom.add_argument("--user", metavar="ID", help="only for this user")
    whom.add_argument("--token-id", metavar="ID", help="only for this token (deckhand tokens list)")


def run(options: argparse.Namespace) -> int:
    """The exit code. Raises CommandError."""
    if options.to is None and (options.user or options.token_id):
        raise CommandError("Say off or on.")
    with contextlib.closing(Api(options.url, find_token(options.token, options.data))) as api:
        if options.to is None:
            _list(api)
        else:
            _switch(api, options)
    return 0


def _list(api: Api) -> None:
    found = api.call("GET", PATH)["off"]
    for one in found:
        whom = f"{one['scope']} {one['id']}" if "id" in one else one["scope"]
        print(one_line(f"off for {whom}, by {one['by']}, {one['at']}"))
    if not found:
        print("The assistant is on for everybody.")


def _switch(api: Api, options: argparse.Namespace) -> None:
    scope, id = "all", ""
    if options.user:
        scope, id = "user", options.user
    elif options.token_id:
        scope, id = "token", options.token_id
    whom = {"scope": scope, **({"id": id} if id else {})}
    stopped = api.call("PUT", PATH, {**whom, "enabled": options.to == "on"})["stopped"]
    print(one_line(f"The assistant is {options.to} for {scope} {id}".rstrip() + "."))
    if stopped:
        print(f"Turns that were stopped: {stopped}.")
