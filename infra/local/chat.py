"""`deckhand chat`: a conversation in the terminal, one message, or one decision on what waits for a yes."""

import argparse
import contextlib
import re
import sys

from infra.local.api_client import Api, ApiError
from infra.local.command_error import CommandError
from infra.local.dialogue import Dialogue
from infra.local.question import Read, read_line
from infra.local.screen import Screen
from infra.local.server_address import add_server_arguments, find_token

ID = re.compile("[0-9a-f]{32}")
ID_LIKE = re.compile("(?=.*[0-9])[0-9a-fA-F-]{8,}")
INTERRUPTED = 130
WAITS = 3
HELP = (
    "/new starts a conversation, /list shows all, /open N opens one, /waiting asks again about what waits for a yes, "
    "/quit leaves. Ctrl-C stops an answer."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="*", help="one message: its answer is printed, then it ends")
    add_server_arguments(parser)
    decision = parser.add_mutually_exclusive_group()
    decision.add_argument("--confirm", metavar="ID", help="says yes to what waits under this id, and prints the answer")
    decision.add_argument("--reject", metavar="ID", help="says no to it")
    parser.add_argument("--reason", metavar="TEXT", help="why not, with --reject")
    parser.add_argument(
        "--continue",
        dest="resume",
        nargs="?",
        const="",
        metavar="ID",
        help="go on in the newest conversation, or in the named one, and rejoin a turn that runs; a word that is no id "
        "begins the message",
    )


def run(options: argparse.Namespace) -> int:
    """The exit code: 0, 1 when something failed, 3 when something waits for a yes, 130 when the answer was stopped.
    Raises ApiError.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    _part_id_from_text(options)
    api = Api(options.url, find_token(options.token, options.data))
    with contextlib.closing(api):
        dialogue = Dialogue(api, options.resume or None, _reader())
        if options.confirm or options.reject or options.reason:
            return _decide(dialogue, options)
        if options.resume == "":
            dialogue.open_newest()
        if options.text:
            return _code(dialogue, dialogue.say(" ".join(options.text)))
        if options.resume is not None:
            dialogue.resume()
        return converse(dialogue)


def _part_id_from_text(options: argparse.Namespace) -> None:
    """`--continue TEXT` is what people type: only what can be an id is one. Raises CommandError for what seems to be
    half of one, which must not be said to the model.
    """
    given = options.resume
    if not given or ID.fullmatch(given):
        return
    if ID_LIKE.fullmatch(given):
        raise CommandError(
            f"{given} is no conversation's id: those have 32 characters. For the newest conversation type "
            f"deckhand chat --continue (/list and /open N lead to the others); to say it, --continue -- {given}."
        )
    options.resume, options.text = "", [given, *options.text]


def _reader() -> Read | None:
    return read_line if sys.stdin.isatty() and sys.stdout.isatty() else None


def _decide(dialogue: Dialogue, options: argparse.Namespace) -> int:
    if options.text or options.resume is not None:
        raise CommandError("--confirm and --reject stand alone, without a message and --continue.")
    if options.reason and not options.reject:
        raise CommandError("--reason goes with --reject.")
    try:
        if options.confirm:
            return _code(dialogue, dialogue.decide(options.confirm, "confirm", {}))
        more = {"reason": options.reason} if options.reason else {}
        return _code(dialogue, dialogue.decide(options.reject, "reject", more))
    except ApiError as refused:
        # Said again, it is still what came of it.
        if refused.outcome != ("succeeded" if options.confirm else "rejected"):
            raise
        print(refused, file=sys.stderr)
        return 0


def _code(dialogue: Dialogue, screen: Screen) -> int:
    if screen.stopped:
        return INTERRUPTED
    return int(screen.failed) or (WAITS if dialogue.waits else 0)


def converse(dialogue: Dialogue) -> int:
    """Reads lines until the end of input or /quit. From a pipe, 1 when any of them failed, 3 when the last waits."""
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
            break
        except UnicodeDecodeError:
            print("This line is not in the terminal's encoding.", file=sys.stderr)
            failed = True
            continue
        if line == "/quit":
            break
        try:
            failed |= obey(dialogue, line)
        except ApiError as refused:
            print(refused, file=sys.stderr)
            failed = True
    return 0 if person else int(failed) or (WAITS if dialogue.waits else 0)


def obey(dialogue: Dialogue, line: str) -> bool:
    """Does what a line says. Whether a turn failed. Raises ApiError."""
    command, _, rest = line.partition(" ")
    if command == "/new":
        dialogue.conversation = None
    elif command == "/list":
        dialogue.show_all()
    elif command == "/open":
        dialogue.open(rest.strip())
    elif command == "/waiting":
        dialogue.waiting()
    elif command.startswith("/"):
        print(HELP)
    elif line:
        return dialogue.say(line).failed
    return False
