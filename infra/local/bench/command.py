"""`deckhand bench`: measure latency, throughput and storage cost on this machine."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="leave out what takes a minute")
    parser.add_argument("--json", action="store_true", help="for programs")


def run(options: argparse.Namespace) -> int:
    from infra.local.bench.report import run  # it loads all of Deckhand, which a conversation need not wait for

    return run(quick=options.quick, as_json=options.json)
