"""A turn's head and its event log, in one partition a conversation.

    turns  <tenant>#conv#<id>  head         lock and state of the newest turn
    turns  <tenant>#conv#<id>  c#<turn id>  the turn was gone on from after its last decision
    turns  <tenant>#conv#<id>  e#<event id> a batch of events, named by its first
    turns  <tenant>#running    <id>         the turns that run, and the conversations with queued messages

Event ids rise for the life of the conversation, so one partition holds the logs of all its turns in order, a turn is a
range of it, and deleting a conversation finds every log. A batch is `[[id, "token", [texts]], [id, name, data], …]`:
neighbouring fragments are packed, and unpack to the same events.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from deckhand.domain.events import Event
from deckhand.domain.json_text import dumps
from deckhand.domain.model import Model
from deckhand.domain.turn import Head
from deckhand.storage.conversations import Owner, transcript_pk
from deckhand.storage.parts import MARK, join, split
from deckhand.storage.port import ABSENT, Check, Item, ItemStore, Key, Put, VersionIs

LOG_LIFE_S = 25 * 3600
"""A repeated request may join its turn for 24 hours."""
HEAD_KEY = "head"
READ_LIMIT = 200


@dataclass(frozen=True, slots=True)
class StoredHead:
    head: Head
    version: int


@dataclass(frozen=True, slots=True)
class Numbered:
    """An event of the log with its id."""

    id: int
    event: Event


def head_key(owner: Owner, conversation: str) -> Key:
    return Key("turns", transcript_pk(owner, conversation), HEAD_KEY)


def put_head(owner: Owner, conversation: str, head: Head, *, after: StoredHead | None) -> Put:
    key = head_key(owner, conversation)
    version = 1 if after is None else after.version + 1
    condition = ABSENT if after is None else VersionIs(after.version)
    return Put(Item(key.table, key.pk, key.sk, head.to_json(), version), condition)


def check_head(owner: Owner, conversation: str, stored: StoredHead) -> Check:
    return Check(head_key(owner, conversation), VersionIs(stored.version))


def put_batch(owner: Owner, conversation: str, events: Sequence[Numbered], now: float) -> list[Put]:
    sk = f"e#{events[0].id:012d}"
    item = Item("turns", transcript_pk(owner, conversation), sk, pack(events), expires=int(now) + LOG_LIFE_S)
    return [Put(part) for part in split(item)]


def pack(events: Iterable[Numbered]) -> str:
    rows: list[list[object]] = []
    for n in events:
        text = n.event.data.get("text") if n.event.name == "token" else None
        last = rows[-1] if rows else None
        if text is None:
            rows.append([n.id, n.event.name, n.event.data])
        elif last is not None and last[1] == "token" and isinstance(last[2], list) and _follows(last, n.id):
            last[2].append(text)
        else:
            rows.append([n.id, "token", [text]])
    return dumps(rows)


def _follows(row: list[object], event_id: int) -> bool:
    texts = row[2]
    return isinstance(texts, list) and isinstance(row[0], int) and row[0] + len(texts) == event_id


def unpack(body: str) -> Iterator[Numbered]:
    for first, name, data in json.loads(body):
        if name == "token":
            for offset, text in enumerate(data):
                yield Numbered(first + offset, Event("token", {"text": text}))
        else:
            yield Numbered(first, Event(name, data))


class Running(Model):
    """Where a running turn is found without knowing its conversation."""

    conversation: str
    user: str
    turn_id: str
    started_at: float


def running_key(owner: Owner, conversation: str) -> Key:
    return Key("turns", f"{owner.tenant}#running", conversation)


def put_running(owner: Owner, conversation: str, head: Head) -> Put:
    key = running_key(owner, conversation)
    entry = Running(conversation=conversation, user=owner.user, turn_id=head.turn_id, started_at=head.started_at)
    return Put(Item(key.table, key.pk, key.sk, entry.to_json(), expires=int(head.started_at) + LOG_LIFE_S))


def put_continued(owner: Owner, conversation: str, turn_id: str, now: float, *, first: bool = True) -> Put:
    """Whoever writes it first goes on from that turn; it outlives the decisions that could."""
    key = continued_key(owner, conversation, turn_id)
    item = Item(key.table, key.pk, key.sk, "{}", expires=int(now) + LOG_LIFE_S)
    return Put(item, ABSENT if first else None)


def continued_key(owner: Owner, conversation: str, turn_id: str) -> Key:
    return Key("turns", transcript_pk(owner, conversation), f"c#{turn_id}")


class Turns:
    """Blocking. All reads are strongly consistent."""

    def __init__(self, store: ItemStore) -> None:
        self._store = store

    def head(self, owner: Owner, conversation: str) -> StoredHead | None:
        item = self._store.get(head_key(owner, conversation))
        return None if item is None else StoredHead(Head.model_validate_json(item.body), item.version)

    def move(self, owner: Owner, conversation: str, head: Head, *, after: StoredHead, token: str) -> StoredHead:
        """Raises `ConditionFailed` when the head is no longer the one that was read."""
        self._store.write([put_head(owner, conversation, head, after=after)], token=token)
        return StoredHead(head, after.version + 1)

    def append(self, owner: Owner, conversation: str, events: Sequence[Numbered], now: float, *, token: str) -> None:
        self._store.write(put_batch(owner, conversation, events, now), token=token)

    def events(
        self, owner: Owner, conversation: str, *, after: int, start: int, batches: int = READ_LIMIT
    ) -> list[Numbered]:
        """Events with ids above `after` of the turn that begins at id `start`, at most a page of batches; empty at
        the end of the log.
        """
        pk = transcript_pk(owner, conversation)
        first = f"e#{start:012d}"
        known = self._store.query("turns", pk, prefix="e#", before=f"e#{after + 1:012d}", backwards=True, limit=1)
        # The batch that holds `after` may hold its successors too.
        held = known.items[0].sk.partition(MARK)[0] if known.items else ""
        page = self._store.query("turns", pk, prefix="e#", after=_just_before(max(held, first)), limit=batches)
        items = page.items
        if page.cursor is not None:
            # The page may end between the parts of one batch; that batch is read by the next call.
            last = items[-1].sk.partition(MARK)[0]
            items = [item for item in items if item.sk.partition(MARK)[0] != last]
        return [n for item in join(items) for n in unpack(item.body) if n.id > after]

    def last_event_id(self, owner: Owner, conversation: str, start: int) -> int:
        """The newest id in the log of the turn that begins at id `start`; `start - 1` when nothing is stored yet."""
        pk = transcript_pk(owner, conversation)
        newest = self._store.query("turns", pk, prefix="e#", backwards=True, limit=1).items
        if not newest:
            return start - 1
        first = int(newest[0].sk[2:].partition(MARK)[0])
        found = self.events(owner, conversation, after=first - 1, start=start)
        return found[-1].id if found else start - 1

    def forget_events(self, owner: Owner, conversation: str, first: int, last: int) -> None:
        """Removes the batches that begin in the given ids, both included."""
        pk = transcript_pk(owner, conversation)
        items = self._store.query("turns", pk, after=_just_before(f"e#{first:012d}"), before=f"e#{last + 1:012d}").items
        self._store.delete_many([Key("turns", pk, item.sk) for item in items])

    def running(self, tenant: str) -> list[Running]:
        """The entries of one tenant; some may have ended or been lost, their heads say."""
        items = self._store.query("turns", f"{tenant}#running").items
        return [Running.model_validate_json(item.body) for item in items]

    def forget_log(self, owner: Owner, conversation: str) -> None:
        """Removes every batch of a conversation that was deleted."""
        pk = transcript_pk(owner, conversation)
        self._store.delete_many([Key("turns", pk, item.sk) for item in self._store.query("turns", pk).items])


def _just_before(sk: str) -> str:
    """The greatest bound that still lets `sk` itself through an exclusive `after`."""
    return sk[:-1] + chr(ord(sk[-1]) - 1) + "\uffff"
