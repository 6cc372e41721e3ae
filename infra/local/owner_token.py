"""The token that the laptop stack prints: an owner's, kept in the data folder and, hashed, in the database."""

import secrets
import time
import uuid

from deckhand.domain.access_token import PREFIX, SECRET_BYTES, AccessToken
from deckhand.domain.times import iso
from deckhand.storage.sqlite import SqliteStore
from deckhand.storage.tokens import Tokens
from infra.local.data_folder import DataFolder


def owner_token(data: DataFolder) -> str:
    """The same on every start, as long as nobody revoked it; a new one then. Raises OSError, `StorageError`."""
    store = SqliteStore(str(data.database), now=time.time)
    try:
        tokens = Tokens(store, now=time.time, new_id=lambda: uuid.uuid4().hex)
        kept = data.token()
        if kept is not None and tokens.find(kept) is not None:
            return kept
        secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        token = AccessToken(
            id=uuid.uuid4().hex,
            name="laptop",
            role="owner",
            user="owner",
            tenant="main",
            created_at=iso(time.time()),
        )
        tokens.add(token, secret=secret, expires=None)
        data.keep_token(secret)
        return secret
    finally:
        store.close()
