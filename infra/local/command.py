"""The console command `deckhand`."""

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.local import agent_switch, audit, chat, direct, enrol, tokens, turns, vapid
from infra.local.bench import command as bench
from infra.local.command_error import CommandError
from infra.local.policy import command as policy

UNWRITTEN = (errno.EPIPE, errno.ENOSPC)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code; also where nobody reads what is written, or there is no room for it."""
    # Absent where the shell closed it (`>&-`).
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process
    try:
        try:
            return _run(arguments)
        finally:
            # Here, as Python's own last flush would complain with a traceback.
            sys.stdout.flush()
    except OSError as failed:
        if failed.errno not in UNWRITTEN:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if failed.errno != errno.EPIPE:
            print(f"Not all could be written: {os.strerror(failed.errno)}.", file=sys.stderr)
        return 1


def _run(arguments: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(prog="deckhand", description="Talk to Deckhand, and measure it.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, module, text in (
        ("chat", chat, "a conversation in the terminal, one message, or one decision"),
        ("turns", turns, "the turns that run, and how to stop them"),
        ("agent", agent_switch, "switch the assistant off and on"),
        ("audit", audit, "who changed, decided or was refused what"),
        ("tokens", tokens, "make, list and revoke the tokens of programs and devices"),
        ("enrol", enrol, "print a code that lets the laptop's owner add a passkey"),
        ("direct", direct, "one message by the direct form of chat, waiting for a model that sleeps"),
        ("vapid", vapid, "make a key for pushes"),
        ("policy", policy, "try a policy document on cases before it is put in force"),
        ("bench", bench, "measure latency, throughput and storage cost on this machine"),
    ):
        command = commands.add_parser(name, help=text, description=module.__doc__)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except CommandError as failed:
        print(failed, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return chat.INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
