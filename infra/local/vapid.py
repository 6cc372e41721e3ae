"""Makes a key for pushes: the secret alone on standard output, fit for `--value "$(deckhand vapid)"`."""

import argparse
import sys

from deckhand.push.vapid import new_key, public_key


def add_arguments(_: argparse.ArgumentParser) -> None:
    """None."""


def run(_: argparse.Namespace) -> int:
    secret = new_key()
    print(secret)
    print(f"The public key, which anybody may know: {public_key(secret)}", file=sys.stderr)
    return 0
