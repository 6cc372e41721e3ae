"""What must hold of a conversation in the store, whatever was done to its processes."""

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from deckhand.agent.history import transcript
from deckhand.agent.window import replayed
from deckhand.domain.conversation import Message
from deckhand.domain.turn import Head
from deckhand.storage.conversations import Conversations, Owner, transcript_pk
from deckhand.storage.parts import join
from deckhand.storage.port import ItemStore
from deckhand.storage.turns import Turns, unpack


def check_invariants(
    store: ItemStore, owner: Owner, conversation: str, *, now: float, asked: Iterable[str], replies: Iterable[str]
) -> None:
    """`asked` are the texts that a person sent and saw accepted; each is there once. Every reply in the store begins
    one of `replies`, so none comes from elsewhere or from a process that had lost its turn.
    """
    conversations, turns = Conversations(store), Turns(store)
    header = conversations.find(owner, conversation).header
    messages = conversations.messages(owner, header)
    head = turns.head(owner, conversation)
    waiting = conversations.queue(owner, conversation)
    _check_messages(messages, [one.queued.message for one in waiting], list(asked), list(replies))
    assert header.queued == len(waiting), "the header counts what waits"
    assert not messages or messages[-1].seq < header.next_seq, "the next message does not overwrite one"
    assert len(messages) == header.message_count
    _check_log(store, owner, conversation, head.head if head else None)
    entries = {entry.conversation for entry in turns.running(owner.tenant)}
    if head is not None:
        open_turn = head.head.status is None
        assert conversation in entries or not (open_turn or waiting), "the sweep finds what is left to do"
    check_request(transcript(messages, replayed(reversed(conversations.exchanges(owner, header)))))


def check_ended(store: ItemStore, owner: Owner, conversation: str, *, now: float) -> None:
    """The head is free, or its lease says until when it is not."""
    stored = Turns(store).head(owner, conversation)
    assert stored is None or stored.head.status is not None or stored.head.running(now)


def check_request(messages: Sequence[dict[str, Any]]) -> None:
    """What strict gateways ask of a history: each call has its one result, behind it and in order; plain roles
    alternate; arguments are JSON objects.
    """
    at = 0
    plain = ""
    while at < len(messages):
        message = messages[at]
        at += 1
        assert message["role"] in ("user", "assistant"), "no result without its call"
        calls = message.get("tool_calls")
        if calls is None:
            assert message["role"] != plain, "plain messages of one role are joined"
            plain = message["role"]
            continue
        plain = ""
        for call in calls:
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            result = messages[at]
            assert (result["role"], result["tool_call_id"]) == ("tool", call["id"])
            assert isinstance(result["content"], str)
            at += 1


def log_ids(store: ItemStore, owner: Owner, conversation: str) -> list[int]:
    """The ids of every event in the log, as they lie."""
    items = store.query("turns", transcript_pk(owner, conversation), prefix="e#").items
    return [numbered.id for item in join(items) for numbered in unpack(item.body)]


def _check_messages(messages: list[Message], waiting: list[Message], asked: list[str], replies: list[str]) -> None:
    seqs = [message.seq for message in messages]
    assert seqs == sorted(set(seqs)), "places are taken once, in order"
    ids = [message.id for message in [*messages, *waiting]]
    assert len(ids) == len(set(ids))
    said = [message.content for message in [*messages, *waiting] if message.role == "user"]
    assert Counter(said) == Counter(asked), "every message of the person is there once"
    before = ""
    for message in messages:
        if message.role == "assistant":
            assert before != "assistant", "a turn has one reply at most"
            assert message.content.strip()
            assert any(reply.startswith(message.content) for reply in replies), f"a ghost's reply: {message.content}"
        before = message.role


def _check_log(store: ItemStore, owner: Owner, conversation: str, head: Head | None) -> None:
    ids = log_ids(store, owner, conversation)
    assert all(first < second for first, second in itertools.pairwise(ids)), "ids rise, and none is used twice"
    if head is not None and head.status is not None and ids:
        assert ids[-1] == head.last_event_id, "the head knows the last id that was handed out"
        events = Turns(store).events(owner, conversation, after=ids[-1] - 1, start=head.first_event_id)
        assert [numbered.event.name for numbered in events] == ["done"], "an ended turn's log ends with done"
