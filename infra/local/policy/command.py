"""`deckhand policy test`: run cases against the policies that ship, with a document added to them."""

import argparse
import contextlib
from pathlib import Path
from typing import get_args

from deckhand.domain.access import ConfirmWrites
from infra.local.api_client import Api
from infra.local.command_error import CommandError
from infra.local.server_address import add_server_arguments, find_token

SWITCHES = get_args(ConfirmWrites)
ASSUMED: ConfirmWrites = "destructive"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    test = actions.add_parser("test", help="run cases; fails when one is decided otherwise than it expects")
    test.add_argument("file", type=Path, help="the cases, in TOML or JSON")
    source = test.add_mutually_exclusive_group()
    source.add_argument("--policy", type=Path, help="a document to add to what ships")
    source.add_argument("--running", action="store_true", help="add the document of the running stack")
    source.add_argument("--shadow", action="store_true", help="add the shadow document of the running stack")
    test.add_argument(
        "--confirm-writes",
        choices=SWITCHES,
        help="the switch CONFIRM_WRITES; left out: the running stack's, where its document is asked for, "
        "else destructive",
    )
    add_server_arguments(test)


def run(options: argparse.Namespace) -> int:
    """Exit code 1 when a case fails, or the document has a fault. Raises CommandError for an unusable file."""
    # They load all of Deckhand, which a conversation need not wait for.
    from deckhand.operations.policy import faults_of
    from deckhand.policy.rules import Rules
    from infra.local.policy.cases import read_cases

    cases, (document, switch) = read_cases(options.file), _found(options)
    if faults := faults_of(document):
        for fault in faults:
            print(f"{options.policy or 'policy'}:{fault.line}:{fault.column}: {fault.message}")
        return 1
    rules = Rules(document, confirm_writes=options.confirm_writes or switch)
    failed = 0
    for number, case in enumerate(cases, start=1):
        if failure := case.failure(rules):
            failed += 1
            print(f"{case.name or f'case {number}'}: {failure}")
    print(f"{len(cases) - failed} of {len(cases)} cases are as expected, with {_assumed(options, switch)}")
    return 1 if failed else 0


def _assumed(options: argparse.Namespace, switch: ConfirmWrites) -> str:
    if options.confirm_writes is not None:
        return f"CONFIRM_WRITES={options.confirm_writes}"
    where = "the running stack's" if options.running or options.shadow else "assumed; --confirm-writes says otherwise"
    return f"CONFIRM_WRITES={switch} ({where})"


def _found(options: argparse.Namespace) -> tuple[str, ConfirmWrites]:
    """The document, and which changes need a yes where it holds."""
    if options.policy is not None:
        try:
            return str(options.policy.read_text(encoding="utf-8")), ASSUMED
        except (OSError, ValueError) as error:
            raise CommandError(f"{options.policy} cannot be read: {error}") from None
    if not (options.running or options.shadow):
        return "", ASSUMED
    with contextlib.closing(Api(options.url, find_token(options.token, options.data))) as api:
        told = api.call("GET", "/api/policy")
    switch: ConfirmWrites = told.get("confirmWrites") if told.get("confirmWrites") in SWITCHES else ASSUMED
    return str(told.get("shadow" if options.shadow else "policy") or ""), switch
