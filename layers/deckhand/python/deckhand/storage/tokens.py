"""Bearer tokens on the store.

identity  token#<sha256 of the secret>   token  the token; found before any tenant is known
identity  <tenant>#tokens                <id>   {hash, token}: the list, and the way from an id to its token
deck      <tenant>#token-use             <id>   {at}: when it was last used
deck      <tenant>#token-used            <id>   there while a use was written within the hour
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from deckhand.domain import json_text
from deckhand.domain.access_token import AccessToken, fingerprint
from deckhand.domain.errors import ConditionFailed, StorageError, TooManyTokens, UnknownToken
from deckhand.domain.times import iso
from deckhand.storage.endings import token_ended
from deckhand.storage.port import ABSENT, Check, Delete, Item, ItemStore, Key, Put

MAX_TOKENS = 200
USE_EVERY_S = 3600


@dataclass(frozen=True, slots=True)
class Listed:
    """`last_used_at` is right to the hour; None: never."""

    token: AccessToken
    last_used_at: str | None


class Tokens:
    """Blocking; raises storage errors. `now` gives epoch seconds."""

    def __init__(self, store: ItemStore, *, now: Callable[[], float], new_id: Callable[[], str]) -> None:
        self._store, self._now, self._new_id = store, now, new_id
        self._used: dict[str, float] = {}

    def add(self, token: AccessToken, *, secret: str, expires: int | None, given: Sequence[Check] = ()) -> None:
        """`expires` is epoch seconds. Raises `TooManyTokens`, and `ConditionFailed` by something `given`."""
        if len(self._store.query("identity", _list(token.tenant)).items) >= MAX_TOKENS:
            raise TooManyTokens()
        digest = fingerprint(secret)
        entry = json_text.dumps({"hash": digest, "token": json_text.loads(token.to_json())})
        self._store.write(
            [
                Put(Item("identity", f"token#{digest}", "token", token.to_json(), expires=expires), ABSENT),
                Put(Item("identity", _list(token.tenant), token.id, entry, expires=expires), ABSENT),
                somebody_is_known(),
                *given,
            ],
            token=self._new_id(),
        )

    def find(self, secret: str) -> AccessToken | None:
        """One read. None for a secret that is not known, was revoked or has expired."""
        item = self._store.get(Key("identity", f"token#{fingerprint(secret)}", "token"))
        return None if item is None else AccessToken.model_validate_json(item.body)

    def all(self, tenant: str) -> list[Listed]:
        items = self._store.query("identity", _list(tenant)).items
        uses = {item.sk: json_text.loads(item.body)["at"] for item in self._store.query("deck", _uses(tenant)).items}
        return [Listed(_token(item), uses.get(item.sk)) for item in items]

    def named(self, tenant: str, token_id: str) -> AccessToken:
        """Raises `UnknownToken`."""
        return _token(self._entry(tenant, token_id))

    def revoke(self, tenant: str, token_id: str) -> None:
        """From now on it opens nothing. Raises `UnknownToken`."""
        entry = self._entry(tenant, token_id)
        self._store.write(
            [
                Delete(Key("identity", f"token#{json_text.loads(entry.body)['hash']}", "token")),
                Delete(Key("identity", _list(tenant), token_id)),
                Delete(Key("deck", _uses(tenant), token_id)),
                Delete(Key("deck", f"{tenant}#token-used", token_id)),
                token_ended(tenant, token_id, self._now()),
            ],
            token=self._new_id(),
        )

    def note_use(self, token: AccessToken) -> None:
        """Written at most once an hour, whichever process sees it; a store that fails costs nobody the access."""
        now = self._now()
        if now - self._used.get(token.id, -USE_EVERY_S) < USE_EVERY_S:
            return
        self._used[token.id] = now
        mark = Item("deck", f"{token.tenant}#token-used", token.id, "{}", expires=int(now) + USE_EVERY_S)
        use = Item("deck", _uses(token.tenant), token.id, json_text.dumps({"at": iso(now)}))
        with suppress(ConditionFailed, StorageError):
            self._store.write([Put(mark, ABSENT), Put(use)], token=self._new_id())

    def anyone(self) -> bool:
        """Whether a token or a passkey was ever made here."""
        return self._store.get(Key("identity", "configured", "yes")) is not None

    def _entry(self, tenant: str, token_id: str) -> Item:
        # An id comes from a request: what no key can hold is no id of ours.
        item = self._store.get(Key("identity", _list(tenant), token_id)) if 0 < len(token_id) <= 64 else None
        if item is None:
            raise UnknownToken()
        return item


def somebody_is_known() -> Put:
    """To be written with the first credentials: from then on strangers are refused by 401, not by 503."""
    return Put(Item("identity", "configured", "yes", "{}"))


def _list(tenant: str) -> str:
    return f"{tenant}#tokens"


def _uses(tenant: str) -> str:
    return f"{tenant}#token-use"


def _token(entry: Item) -> AccessToken:
    return AccessToken.model_validate(json_text.loads(entry.body)["token"])
