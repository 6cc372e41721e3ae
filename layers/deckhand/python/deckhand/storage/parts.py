"""Bodies that may be larger than an item: split on write, joined on read, nothing lost (bug case 43).

The first part keeps the item's own `sk`; the following ones append `~001`, `~002`, …, which sort right behind it and
in their order. Such items are never overwritten by fewer parts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from deckhand.storage.port import Item

PART_BYTES = 380_000
MARK = "~"


def split(item: Item) -> list[Item]:
    """The items to write: one, unless the body is over the part size."""
    data = item.body.encode()
    if len(data) <= PART_BYTES:
        return [item]
    return [
        replace(item, sk=item.sk if n == 0 else _part_key(item.sk, n), body=text) for n, text in enumerate(_texts(data))
    ]


def _part_key(sk: str, n: int) -> str:
    return f"{sk}{MARK}{n:03d}"


def _texts(data: bytes) -> Iterator[str]:
    start = 0
    while start < len(data):
        end = min(start + PART_BYTES, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:  # never inside a character
            end -= 1
        yield data[start:end].decode()
        start = end


def join(items: Iterable[Item]) -> Iterator[Item]:
    """Whole items, in the order given by `items`, which must be ascending by `sk`. Parts without their first one
    are left out.
    """
    current: Item | None = None
    bodies: list[str] = []
    for item in items:
        if current is not None and item.sk == _part_key(current.sk, len(bodies)):
            bodies.append(item.body)
            continue
        if current is not None:
            yield replace(current, body="".join(bodies))
        current, bodies = (None, []) if MARK in item.sk else (item, [item.body])
    if current is not None:
        yield replace(current, body="".join(bodies))
