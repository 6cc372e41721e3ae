"""Which message of a direct session is in the foreground of this machine: the newest one, in whatever terminal.

A file a session under the data folder holds the mark of its newest message, and nothing of what it says.
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from infra.local.command_error import CommandError


class Foreground:
    """One message's claim. `mark` is an id of its own; `take` ends the claims of the session's older messages."""

    def __init__(self, folder: Path, *, url: str, session: str, mark: str) -> None:
        name = hashlib.sha256(f"{url}\n{session}".encode("utf-8", "replace")).hexdigest()[:32]
        self._path, self._mark = folder / "direct" / name, mark

    def take(self) -> None:
        """Raises CommandError when the folder cannot be used."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked():
                self._path.write_text(self._mark, encoding="utf-8")
        except OSError as failed:
            raise CommandError(f"{self._path.parent} cannot be used: {failed.strerror}.") from None

    def is_ours(self) -> bool:
        """Whether the session's newest message is still this one, and was not sent again."""
        try:
            return self._path.read_text(encoding="utf-8") == self._mark
        except (OSError, ValueError):
            return False

    def consume(self) -> bool:
        """True exactly once, and only while it is ours: whoever gets it may send."""
        with contextlib.suppress(OSError), self._locked():
            if self.is_ours():
                self._path.unlink()
                return True
        return False

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time; the lock goes with the process that held it."""
        descriptor = os.open(self._path.parent / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
