"""`deckhand enrol`: a code that lets whoever runs the laptop stack add a passkey as its owner, once, for a day.

Also the way back in for an owner who lost every device: who may read the data folder may come in anyway.
"""

import argparse
import contextlib
import secrets
import time
import uuid
from pathlib import Path

from deckhand.domain.account import OWNER_ID
from deckhand.storage.invites import CODE_BYTES, Invite, Invites
from deckhand.storage.sqlite import SqliteStore
from infra.local.command_error import CommandError
from infra.local.data_folder import DATABASE, DataFolder

ROOT = Path(__file__).resolve().parents[2]
LIFE_S = 24 * 3600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, default=ROOT / ".deckhand", help="the laptop stack's data folder")


def run(options: argparse.Namespace) -> int:
    """The exit code. Raises CommandError."""
    # Looked at before it is taken for one: a data folder is closed to others.
    if not (options.data / DATABASE).is_file():
        raise CommandError(f"No stack has run in {options.data}: start one there once (python3 infra/dev.py up).")
    print(enrolment_code(DataFolder(options.data)))
    return 0


def enrolment_code(data: DataFolder) -> str:
    code = secrets.token_urlsafe(CODE_BYTES)
    with contextlib.closing(SqliteStore(str(data.database), now=time.time)) as store:
        invites = Invites(store, "main", new_id=lambda: uuid.uuid4().hex)
        invites.add(code, Invite(role="owner", user=OWNER_ID), expires=int(time.time()) + LIFE_S)
    return code
