"""What happened in a conversation, told behind the queue: ids and actors, never a word of content."""

import logging

from deckhand.domain.errors import StorageError
from deckhand.domain.job import Actor, Job, Notice
from deckhand.domain.principal import Principal
from deckhand.storage.queue import JobQueue

logger = logging.getLogger(__name__)


def announce(jobs: JobQueue, principal: Principal, *notices: Notice) -> None:
    """Nobody's turn fails because nobody could be told."""
    if not notices:
        return
    try:
        jobs.send(Job(kind="notices", actor=Actor.of(principal), notices=notices))
    except StorageError:
        logger.warning("notices not sent", extra={"names": [notice.name for notice in notices]})


def message_created(conversation: str, message_id: str, author: str) -> Notice:
    return Notice(name="chat.message-created", conversation=conversation, message=message_id, author=author)


def proposal_opened(conversation: str, proposal_id: str) -> Notice:
    return Notice(name="chat.proposal-opened", conversation=conversation, proposal=proposal_id)


def proposal_decided(conversation: str, proposal_id: str, outcome: str) -> Notice:
    return Notice(name="chat.proposal-decided", conversation=conversation, proposal=proposal_id, outcome=outcome)
