"""A transcript from its end: newest first, in pages, so that a reader who needs few pays for few.

Messages are read at half the price, from a replica that may lag. That is safe because a message is written once and
never changed, its seq is the one before its neighbour's, and the header, which its reader has written or read
consistently, says which are there: what a replica does not have yet is missed, and then read consistently.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from deckhand.domain.conversation import Exchange, Header, Message
from deckhand.storage.conversations import Owner, transcript_pk
from deckhand.storage.parts import MARK, join
from deckhand.storage.port import Item, ItemStore

FIRST_PAGE = 12
"""More items than one message can have parts."""
FIRST_EXCHANGES = 4


def newest_messages(store: ItemStore, owner: Owner, header: Header, chars: int) -> Iterator[Message]:
    """At most the newest 200. `chars` is how much text the reader is going to take: pages are sized by it."""
    oldest = header.next_seq - header.message_count
    tail = _Tail(store, transcript_pk(owner, header.id), f"m#{header.generation}#", oldest)
    due, limit, told, count = header.next_seq - 1, FIRST_PAGE, 0, 0
    while due >= oldest:
        found = tail.replica_page(due, limit) or tail.page(due, limit)
        if not found:
            return
        yield from found
        due = found[-1].seq - 1
        told, count = told + sum(len(message.content) for message in found), count + len(found)
        limit = max(FIRST_PAGE, (chars - told) * count // max(told, 1) + 1)


def newest_exchanges(store: ItemStore, owner: Owner, header: Header) -> Iterator[Exchange]:
    """Every exchange. Their results change, so they are read consistently."""
    before, limit, waiting = None, FIRST_EXCHANGES, list[Item]()
    while True:
        page = store.query(
            "deck",
            transcript_pk(owner, header.id),
            prefix=f"x#{header.generation}#",
            before=before,
            backwards=True,
            limit=limit,
        )
        for item in page.items:
            # The parts of a large one come before its first part.
            waiting.insert(0, item)
            for whole in join(waiting):
                yield Exchange.model_validate_json(whole.body)
                waiting = []
        if page.cursor is None:
            return
        before, limit = page.items[-1].sk, limit * 2


@dataclass(frozen=True, slots=True)
class _Tail:
    """The messages from seq `oldest` on."""

    store: ItemStore
    pk: str
    prefix: str
    oldest: int

    def page(self, newest: int, limit: int, *, consistent: bool = True) -> list[Message]:
        """Newest first, from seq `newest` down. A message that is cut by the page's end is left to the next one."""
        page = self.store.query(
            "deck",
            self.pk,
            prefix=self.prefix,
            after=f"{self.prefix}{self.oldest - 1:010d}{MARK}{MARK}",
            before=f"{self.prefix}{newest + 1:010d}",
            backwards=True,
            limit=limit,
            consistent=consistent,
        )
        return [Message.model_validate_json(whole.body) for whole in join(reversed(page.items))][::-1]

    def replica_page(self, newest: int, limit: int) -> list[Message]:
        """Empty when the replica lags."""
        try:
            found = self.page(newest, limit, consistent=False)
        except ValueError:
            # A part is missing.
            return []
        whole = [message.seq for message in found] == list(range(newest, newest - len(found), -1))
        return found if whole else []
