"""`deckhand policy test`: run cases against the policies that ship, with a document added to them."""

import argparse
import contextlib
from pathlib import Path

from infra.local.api_client import Api
from infra.local.command_error import CommandError
from infra.local.server_address import add_server_arguments, find_token


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    test = actions.add_parser("test", help="run cases; fails when one is decided otherwise than it expects")
    test.add_argument("file", type=Path, help="the cases, in TOML or JSON")
    source = test.add_mutually_exclusive_group()
    source.add_argument("--policy", type=Path, help="a document to add to what ships")
    source.add_argument("--running", action="store_true", help="add the document of the running stack")
    source.add_argument("--shadow", action="store_true", help="add the shadow document of the running stack")
    test.add_argument("--confirm-writes", choices=("all", "destructive", "none"), default="destructive")
    add_server_arguments(test)


def run(options: argparse.Namespace) -> int:
    """Exit code 1 when a case fails, or the document has a fault. Raises CommandError for an unusable file."""
    # They load all of Deckhand, which a conversation need not wait for.
    from deckhand.operations.policy import faults_of
    from deckhand.policy.rules import Rules
    from infra.local.policy.cases import read_cases

    cases, document = read_cases(options.file), _document(options)
    if faults := faults_of(document):
        for fault in faults:
            print(f"{options.policy or 'policy'}:{fault.line}:{fault.column}: {fault.message}")
        return 1
    rules = Rules(document, confirm_writes=options.confirm_writes)
    failed = 0
    for number, case in enumerate(cases, start=1):
        if failure := case.failure(rules):
            failed += 1
            print(f"{case.name or f'case {number}'}: {failure}")
    print(f"{len(cases) - failed} of {len(cases)} cases are as expected")
    return 1 if failed else 0


def _document(options: argparse.Namespace) -> str:
    if options.policy is not None:
        try:
            return str(options.policy.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CommandError(f"{options.policy} cannot be read: {error}") from None
    if not (options.running or options.shadow):
        return ""
    with contextlib.closing(Api(options.url, find_token(options.token, options.data))) as api:
        return str(api.call("GET", "/api/policy").get("shadow" if options.shadow else "policy") or "")
