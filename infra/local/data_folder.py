"""The folder that holds everything the laptop stack keeps: database, token, logs. Only its owner may read it."""

import os
import secrets
from pathlib import Path

from infra.local.template import Function


class DataFolder:
    """Made on first use. Raises OSError when it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        self._logs = self.path / "logs"
        self._logs.mkdir(mode=0o700, exist_ok=True)

    def token(self) -> str:
        """The API token: made once, then the same on every start."""
        file = self.path / "token"
        try:
            kept = file.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            kept = ""
        if not kept:
            kept = secrets.token_urlsafe(32)
            draft = file.with_suffix(".new")
            draft.unlink(missing_ok=True)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as out:
                out.write(kept + "\n")
            draft.replace(file)
        file.chmod(0o600)
        return kept

    def log_of(self, function: Function) -> Path:
        return self._logs / f"{function.name}.log"

    @property
    def database(self) -> Path:
        return self.path / "deckhand.sqlite3"

    @property
    def own_log(self) -> Path:
        return self._logs / "front.log"
