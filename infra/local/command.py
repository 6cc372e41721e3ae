"""The console command `deckhand`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.local.api_client import Api, ApiError
from infra.local.chat import Chat, converse, find_token

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="deckhand", description="Talk to Deckhand, and measure it.")
    commands = parser.add_subparsers(dest="command", required=True)
    chat = commands.add_parser("chat", help="a conversation in the terminal, or one message")
    chat.add_argument("text", nargs="*", help="one message: its answer is printed, then it ends")
    chat.add_argument("--url", default=os.environ.get("DECKHAND_URL", "http://127.0.0.1:8787"))
    chat.add_argument("--token", help="default: DECKHAND_TOKEN, AGENT_API_TOKEN, or the data folder's")
    chat.add_argument("--data", type=Path, default=ROOT / ".deckhand", help="the laptop stack's folder")
    chat.add_argument(
        "--continue",
        dest="resume",
        nargs="?",
        const="",
        metavar="ID",
        help="go on in the newest conversation, or in the named one, and rejoin a turn that runs",
    )
    bench = commands.add_parser("bench", help="measure this machine")
    bench.add_argument("--quick", action="store_true", help="leave out what takes a minute")
    bench.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(arguments)
    try:
        return _bench(options) if options.command == "bench" else _chat(options)
    except ApiError as failed:
        print(failed, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print()
        return 130


def _chat(options: argparse.Namespace) -> int:
    api = Api(options.url, find_token(options.token, options.data))
    try:
        chat = Chat(api)
        if options.resume is not None:
            chat.conversation = options.resume or chat.newest()
            if not options.text:
                chat.resume()
        if options.text:
            return 0 if chat.say(" ".join(options.text)) else 1
        converse(chat)
        return 0
    finally:
        api.close()


def _bench(options: argparse.Namespace) -> int:
    from infra.local.bench.report import run

    return run(quick=options.quick, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
