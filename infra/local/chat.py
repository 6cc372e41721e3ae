"""`deckhand chat`: a conversation in the terminal, or one message."""

import argparse
import contextlib
import sys

from infra.local.api_client import Api, ApiError
from infra.local.dialogue import Dialogue
from infra.local.server_address import add_server_arguments, find_token

INTERRUPTED = 130
HELP = "/new starts a conversation, /list shows all, /open N opens one, /quit leaves. Ctrl-C stops an answer."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="*", help="one message: its answer is printed, then it ends")
    add_server_arguments(parser)
    parser.add_argument(
        "--continue",
        dest="resume",
        nargs="?",
        const="",
        metavar="ID",
        help="go on in the newest conversation, or in the named one, and rejoin a turn that runs",
    )


def run(options: argparse.Namespace) -> int:
    """The exit code: 0, 1 when something failed, 130 when the answer was stopped. Raises ApiError."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    api = Api(options.url, find_token(options.token, options.data))
    with contextlib.closing(api):
        dialogue = Dialogue(api, options.resume or None)
        if options.resume == "":
            dialogue.open_newest()
        if options.text:
            screen = dialogue.say(" ".join(options.text))
            return INTERRUPTED if screen.stopped else int(screen.failed)
        if options.resume is not None:
            dialogue.resume()
        return converse(dialogue)


def converse(dialogue: Dialogue) -> int:
    """Reads lines until the end of input or /quit. From a pipe, 1 when any of them failed."""
    person = sys.stdin.isatty()
    if person:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - line editing and history for input()
        print(HELP)
    failed = False
    while True:
        try:
            line = input("> " if person and sys.stdout.isatty() else "").strip()
        except EOFError:
            print(end="\n" if person else "")
            return int(failed and not person)
        except UnicodeDecodeError:
            print("This line is not in the terminal's encoding.", file=sys.stderr)
            failed = True
            continue
        if line == "/quit":
            return int(failed and not person)
        try:
            failed |= obey(dialogue, line)
        except ApiError as refused:
            print(refused, file=sys.stderr)
            failed = True


def obey(dialogue: Dialogue, line: str) -> bool:
    """Does what a line says. Whether a turn failed. Raises ApiError."""
    command, _, rest = line.partition(" ")
    if command == "/new":
        dialogue.conversation = None
    elif command == "/list":
        dialogue.show_all()
    elif command == "/open":
        dialogue.open(rest.strip())
    elif command.startswith("/"):
        print(HELP)
    elif line:
        return dialogue.say(line).failed
    return False
