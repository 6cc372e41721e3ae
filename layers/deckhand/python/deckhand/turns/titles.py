"""The title job: after the first exchange an untitled conversation gets a made title, unless a person is quicker."""

import asyncio

from deckhand.agent.chat import ChatGateway
from deckhand.agent.title import ask_title
from deckhand.domain.errors import ConditionFailed, UnknownConversation
from deckhand.storage.conversations import Owner, StoredHeader
from deckhand.turns.context import TurnContext
from deckhand.turns.start import ATTEMPTS


async def make_title(context: TurnContext, gateway: ChatGateway, owner: Owner, conversation: str) -> str | None:
    """The title that was set, or None. Raises gateway errors, so that the queue tries again."""
    try:
        stored = await asyncio.to_thread(context.conversations.find, owner, conversation)
    except UnknownConversation:
        return None
    if not _wanted(stored):
        return None
    messages = await asyncio.to_thread(context.conversations.messages, owner, stored.header)
    question = next((message.content for message in messages if message.role == "user"), "")
    reply = next((message.content for message in messages if message.role == "assistant"), "")
    title = await ask_title(gateway, question, reply)
    return None if title is None else await asyncio.to_thread(_set, context, owner, conversation, title)


def _wanted(stored: StoredHeader) -> bool:
    return stored.header.title is None


def _set(context: TurnContext, owner: Owner, conversation: str, title: str) -> str | None:
    """A title that a person set in the meantime is never replaced; neither is activity moved."""
    for _ in range(ATTEMPTS):
        try:
            stored = context.conversations.find(owner, conversation)
            if not _wanted(stored):
                return None
            header = stored.header.model_copy(update={"title": title, "titled_by": "made"})
            context.conversations.move(owner, header, after=stored, token=context.new_id())
        except UnknownConversation:
            return None
        except ConditionFailed:
            continue
        return title
    return None
