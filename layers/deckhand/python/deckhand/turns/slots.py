"""How many direct sessions may chat at once: leased slots, which a process that dies cannot leak.

    turns  <tenant>#slots  <number>  who holds it, until when

An expired item counts as absent, so taking a slot is one conditional write, and so is keeping it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deckhand.domain.errors import ConditionFailed, StorageError, TooManyChats
from deckhand.domain.json_text import dumps
from deckhand.storage.port import ABSENT, Delete, Item, Key, Put, VersionIs
from deckhand.turns.context import TurnContext

SLOT_LEASE_S = 30
RENEW_S = 10.0


def take_slot(context: TurnContext, tenant: str, limit: int) -> Key:
    """A slot that nobody holds. Raises `TooManyChats` at once when all are taken: nothing is queued."""
    for number in range(limit):
        key = Key("turns", f"{tenant}#slots", f"{number:04d}")
        try:
            context.store.write([Put(_slot(context, key, 1), ABSENT)], token=context.new_id())
        except ConditionFailed:
            continue
        return key
    raise TooManyChats()


@asynccontextmanager
async def holding(context: TurnContext, key: Key) -> AsyncIterator[None]:
    """Keeps the slot while the block runs, and gives it back on every way out."""
    keeper = asyncio.create_task(_keep(context, key))
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
        await asyncio.to_thread(context.store.write, [Delete(key)], token=context.new_id())


async def _keep(context: TurnContext, key: Key) -> None:
    version = 1
    while True:
        await asyncio.sleep(RENEW_S)
        put = Put(_slot(context, key, version + 1), VersionIs(version))
        try:
            await asyncio.to_thread(context.store.write, [put], token=context.new_id())
        except ConditionFailed:
            return
        except StorageError:
            continue
        version += 1


def _slot(context: TurnContext, key: Key, version: int) -> Item:
    expires = int(context.now()) + SLOT_LEASE_S
    return Item(key.table, key.pk, key.sk, dumps({"until": expires}), version, expires)
