"""Conversations on the store: headers in one partition a user, messages and tool exchanges in one partition a
conversation.

    deck  <tenant>#u#<user>   conv#<id>                          header
    deck  <tenant>#conv#<id>  m#<generation>#<seq>               message
    deck  <tenant>#conv#<id>  x#<generation>#<anchor>#<step>     tool exchange
    deck  <tenant>#conv#<id>  q#<number>                         message that waits for its turn

A transcript that is replaced is written under a new generation, and the header's pointer moves in one write:
readers never see a mix.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deckhand.domain.conversation import MAX_MESSAGES, Exchange, Header, Message, Queued
from deckhand.domain.errors import ConditionFailed, UnknownConversation
from deckhand.storage.parts import MARK, join, split
from deckhand.storage.port import ABSENT, Condition, Item, ItemStore, Key, Op, Put, VersionIs


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose conversations: every key is led by the tenant, which comes from the principal."""

    tenant: str
    user: str


@dataclass(frozen=True, slots=True)
class StoredHeader:
    header: Header
    version: int


def header_key(owner: Owner, conversation: str) -> Key:
    return Key("deck", f"{owner.tenant}#u#{owner.user}", f"conv#{conversation}")


def transcript_pk(owner: Owner, conversation: str) -> str:
    return f"{owner.tenant}#conv#{conversation}"


def put_header(owner: Owner, header: Header, *, after: StoredHeader | None) -> Put:
    """Creates the header (`after` None) or moves it from the version that was read."""
    key = header_key(owner, header.id)
    condition: Condition = ABSENT if after is None else VersionIs(after.version)
    version = 1 if after is None else after.version + 1
    return Put(Item(key.table, key.pk, key.sk, header.to_json(), version), condition)


def put_messages(owner: Owner, header: Header, messages: Iterable[Message]) -> list[Put]:
    """The seq comes from the header, whose version is checked in the same transaction, so it is never taken twice."""
    pk = transcript_pk(owner, header.id)
    puts = []
    for message in messages:
        item = Item("deck", pk, f"m#{header.generation}#{message.seq:010d}", message.to_json())
        puts += [Put(part, ABSENT) for part in split(item)]
    return puts


def put_exchange(owner: Owner, header: Header, exchange: Exchange) -> list[Put]:
    sk = f"x#{header.generation}#{exchange.anchor:010d}#{exchange.step:04d}"
    return [Put(part) for part in split(Item("deck", transcript_pk(owner, header.id), sk, exchange.to_json()))]


def put_queued(owner: Owner, conversation: str, number: int, queued: Queued) -> list[Put]:
    item = Item("deck", transcript_pk(owner, conversation), f"q#{number:010d}", queued.to_json())
    return [Put(part, ABSENT) for part in split(item)]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queued message and the items that it is stored in."""

    queued: Queued
    keys: tuple[Key, ...]


class Conversations:
    """Reads and the writes that concern conversations alone. Blocking. Raises `UnknownConversation` and storage
    errors.
    """

    def __init__(self, store: ItemStore) -> None:
        self._store = store

    def headers(self, owner: Owner) -> list[StoredHeader]:
        """All of a user's conversations, newest activity first."""
        key = header_key(owner, "")
        found = [_stored(item) for item in self._store.query("deck", key.pk, prefix=key.sk).items]
        return sorted(found, key=lambda s: (s.header.updated_at, s.header.id), reverse=True)

    def find(self, owner: Owner, conversation: str) -> StoredHeader:
        item = self._store.get(header_key(owner, conversation)) if _plausible(conversation) else None
        if item is None:
            raise UnknownConversation()
        return _stored(item)

    def messages(self, owner: Owner, header: Header) -> list[Message]:
        """The newest 200, oldest first."""
        items = self._items(owner, header, "m")
        return [Message.model_validate_json(item.body) for item in items][-MAX_MESSAGES:]

    def texts(self, owner: Owner, header: Header) -> list[str]:
        """The contents of the newest 200 messages, and nothing else of them: what a search reads."""
        return [json.loads(item.body)["content"] for item in self._items(owner, header, "m")[-MAX_MESSAGES:]]

    def exchanges(self, owner: Owner, header: Header) -> list[Exchange]:
        return [Exchange.model_validate_json(item.body) for item in self._items(owner, header, "x")]

    def queue(self, owner: Owner, conversation: str) -> list[Waiting]:
        """The messages that wait, in the order in which they came."""
        items = self._store.query("deck", transcript_pk(owner, conversation), prefix="q#").items
        return [
            Waiting(
                Queued.model_validate_json(whole.body),
                tuple(Key(item.table, item.pk, item.sk) for item in items if item.sk.partition(MARK)[0] == whole.sk),
            )
            for whole in join(items)
        ]

    def create(
        self, owner: Owner, header: Header, messages: Sequence[Message], *, token: str, beside: Sequence[Op] = ()
    ) -> None:
        """Messages first: they are not reachable before the header is there. `beside` is written with the header, all
        or nothing; when its condition fails, nothing is left and `ConditionFailed` is raised.
        """
        self._write_all(put_messages(owner, header, messages), token)
        try:
            self._store.write([put_header(owner, header, after=None), *beside], token=token)
        except ConditionFailed:
            self._drop(owner, header, header.generation)
            raise

    def move(self, owner: Owner, header: Header, *, after: StoredHeader, token: str) -> None:
        """Writes a changed header on the condition that it is still the one that was read."""
        self._store.write([put_header(owner, header, after=after)], token=token)

    def replace(
        self, owner: Owner, header: Header, messages: Sequence[Message], *, after: StoredHeader, token: str
    ) -> None:
        """Writes the new generation, moves the pointer, then removes the old one. Raises `ConditionFailed` when the
        header is no longer the one that was read; the new generation is removed then.
        """
        self._write_all(put_messages(owner, header, messages), token)
        try:
            self.move(owner, header, after=after, token=token)
        except ConditionFailed:
            self._drop(owner, header, header.generation)
            raise
        self._drop(owner, after.header, after.header.generation)

    def trim(self, owner: Owner, header: Header) -> None:
        """Removes what is older than the newest 200 messages. Missing it does no harm: reads stop at 200."""
        oldest = header.next_seq - MAX_MESSAGES
        if oldest <= 1:
            return
        pk = transcript_pk(owner, header.id)
        old: list[Key] = []
        for kind in ("m", "x"):
            prefix = f"{kind}#{header.generation}#"
            # What a replica does not show yet is found the next time.
            page = self._store.query(
                "deck", pk, prefix=prefix, before=f"{prefix}{oldest:010d}", limit=100, consistent=False
            )
            old += [Key("deck", pk, item.sk) for item in page.items]
        self._store.delete_many(old)

    def _items(self, owner: Owner, header: Header, kind: str) -> list[Item]:
        prefix = f"{kind}#{header.generation}#"
        return list(join(self._store.query("deck", transcript_pk(owner, header.id), prefix=prefix).items))

    def _drop(self, owner: Owner, header: Header, generation: str) -> None:
        pk = transcript_pk(owner, header.id)
        for kind in ("m", "x"):
            page = self._store.query("deck", pk, prefix=f"{kind}#{generation}#")
            self._store.delete_many([Key("deck", pk, item.sk) for item in page.items])

    def _write_all(self, puts: Sequence[Op], token: str) -> None:
        for start in range(0, len(puts), 25):
            self._store.write(puts[start : start + 25], token=f"{token}.{start}")


def _stored(item: Item) -> StoredHeader:
    return StoredHeader(Header.model_validate_json(item.body), item.version)


def _plausible(conversation: str) -> bool:
    """Ids of ours are short and plain; anything else is unknown without asking the store (bug case 54)."""
    return 0 < len(conversation) <= 64 and conversation.isascii() and conversation.replace("-", "").isalnum()
