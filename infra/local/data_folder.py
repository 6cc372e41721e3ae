"""The folder that holds everything the laptop stack keeps: database, token, logs. Only its owner may read it."""

import os
from collections.abc import Callable
from pathlib import Path

from infra.local.template import Function

DATABASE = "deckhand.sqlite3"


class DataFolder:
    """Made on first use. Raises OSError when it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        self._logs = self.path / "logs"
        self._logs.mkdir(mode=0o700, exist_ok=True)

    def token(self) -> str | None:
        """The token that was kept on an earlier start."""
        return _read(self.path / "token")

    def keep_token(self, token: str) -> None:
        _keep(self.path / "token", token)

    def vapid_key(self, make: Callable[[], str]) -> str:
        """The key that pushes are signed with: made once, for devices are subscribed to it."""
        file = self.path / "vapid-key"
        kept = _read(file)
        if kept is None:
            kept = make()
            _keep(file, kept)
        return kept

    def log_of(self, function: Function) -> Path:
        return self._logs / f"{function.name}.log"

    @property
    def database(self) -> Path:
        return self.path / DATABASE

    @property
    def own_log(self) -> Path:
        return self._logs / "front.log"


def _read(file: Path) -> str | None:
    """None when it is missing or empty."""
    try:
        return file.read_text(encoding="ascii").strip() or None
    except FileNotFoundError:
        return None


def _keep(file: Path, secret: str) -> None:
    """Never there in part, and never readable by others."""
    draft = file.with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as out:
        out.write(secret + "\n")
    draft.replace(file)
