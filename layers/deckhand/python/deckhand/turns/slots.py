"""How many direct sessions may chat at once: leased slots, which a process that dies cannot leak.

    turns  <tenant>#slots  <number>  until when; its version counts up from a number of the holder's own

An expired item counts as absent, so taking a slot is one conditional write, and so is keeping it. The version names the
holder: who lost a slot to its expiry can neither keep nor give back what another holds now.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from deckhand.domain.errors import ConditionFailed, StorageError, TooManyChats
from deckhand.domain.json_text import dumps
from deckhand.storage.port import ABSENT, Delete, Item, Key, Put, VersionIs
from deckhand.storage.repeat import write_surely
from deckhand.turns.context import TurnContext

SLOT_LEASE_S = 30
RENEW_S = 10.0


@dataclass(slots=True)
class Slot:
    """What one chat holds."""

    key: Key
    version: int


def take_slot(context: TurnContext, tenant: str, limit: int) -> Slot:
    """A slot that nobody holds. Raises `TooManyChats` at once when all are taken: nothing is queued."""
    token = context.new_id()
    first = int.from_bytes(hashlib.sha256(token.encode()).digest()[:6])
    for number in range(limit):
        slot = Slot(Key("turns", f"{tenant}#slots", f"{number:04d}"), first)
        try:
            write_surely(context.store, [Put(_item(context, slot), ABSENT)], token=f"{token}.{number}")
        except ConditionFailed:
            continue
        return slot
    raise TooManyChats()


def give_back(context: TurnContext, slot: Slot) -> None:
    """One that is no longer ours is left as it is; one that cannot be reached expires."""
    with suppress(StorageError):
        write_surely(context.store, [Delete(slot.key, VersionIs(slot.version))], token=context.new_id())


@asynccontextmanager
async def holding(context: TurnContext, slot: Slot) -> AsyncIterator[None]:
    """Keeps the slot while the block runs, and gives it back on every way out."""
    over = asyncio.Event()
    keeper = asyncio.create_task(_keep(context, slot, over))
    try:
        yield
    finally:
        # Not cancelled: a renewal that is on its way must be known before the slot can be given back.
        over.set()
        await asyncio.gather(keeper, return_exceptions=True)
        await asyncio.to_thread(give_back, context, slot)


async def _keep(context: TurnContext, slot: Slot, over: asyncio.Event) -> None:
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), RENEW_S)
            return
        following = Slot(slot.key, slot.version + 1)
        put = Put(_item(context, following), VersionIs(slot.version))
        try:
            await asyncio.to_thread(write_surely, context.store, [put], token=context.new_id())
        except ConditionFailed:
            return
        except StorageError:
            continue
        slot.version = following.version


def _item(context: TurnContext, slot: Slot) -> Item:
    expires = int(context.now()) + SLOT_LEASE_S
    return Item(slot.key.table, slot.key.pk, slot.key.sk, dumps({"until": expires}), slot.version, expires)
