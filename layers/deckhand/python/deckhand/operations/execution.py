"""Running an operation, the same way from everywhere: may the caller, then the operation itself, and the audit of what
it changed.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from deckhand.domain.access import Decision
from deckhand.domain.audit import AuditEntry, AuditOutcome, entry, hash_of
from deckhand.domain.cards import id_only
from deckhand.domain.errors import DeckhandError, NotAllowed, StorageError, UnknownManifest
from deckhand.operations.caller import Caller
from deckhand.operations.permission import card_of, permission
from deckhand.operations.registry import Operation
from deckhand.storage.audit import RecordingStore, put_entry
from deckhand.storage.port import Op


def perform(
    caller: Caller,
    operation: Operation,
    given: BaseModel,
    *,
    audit: AuditEntry | None = None,
    beside: Sequence[Op] = (),
) -> Any:
    """The operation's result. `audit` is the entry to write, where its id must be known before; `beside` goes into the
    transaction of the effect.

    Raises `NotAllowed`, `AlreadyApplied` when that entry is there, and what the operation raises.
    """
    looking = caller.looking()
    caller = replace(caller, bound=_bound(looking, operation, given))
    decision = permission(looking, operation, given, confirmed=caller.confirmed)
    if not operation.mutates:
        if decision.verdict != "allow":
            raise NotAllowed()
        return operation.run(caller, given)
    if decision.verdict != "allow":
        with suppress(StorageError):
            note(caller, describe(caller, operation, given, "denied", decision))
        raise NotAllowed()
    if not operation.recorded:
        return operation.run(caller, given)
    wanted = audit or describe(caller, operation, given, "succeeded", decision)
    recording = RecordingStore(caller.store, put_entry(caller.principal.tenant, wanted), beside)
    try:
        result = operation.run(replace(caller, store=recording), given)
    except DeckhandError as failed:
        if not recording.recorded:
            refused = describe(caller, operation, given, "failed", decision, code=failed.code)
            with suppress(StorageError):
                # Where it would have succeeded: behind the decision that it follows from.
                note(caller, refused.model_copy(update={"at": wanted.at}))
        raise
    if not recording.recorded:
        # It had nothing to change, or changed what lies outside the store.
        note(caller, wanted)
    return result


def _bound(caller: Caller, operation: Operation, given: BaseModel) -> tuple[str, int] | None:
    """Whether a call destroys anything is looked at before it runs: the card must then still be what was looked at."""
    card = card_of(operation, given)
    if operation.destroys is None or card is None or caller.confirmed or caller.channel == "api":
        return caller.bound
    try:
        return card, caller.cards.state(card).version
    except UnknownManifest:
        return caller.bound


def describe(
    caller: Caller,
    operation: Operation,
    given: BaseModel,
    outcome: AuditOutcome,
    decision: Decision,
    *,
    code: str | None = None,
) -> AuditEntry:
    return entry(
        caller.principal,
        caller.channel,
        operation.name,
        outcome,
        id=caller.new_id(),
        at=caller.now(),
        arguments_hash=hash_of(given.model_dump()),
        card=id_only(card_of(operation, given)),
        policies=decision.policies,
        code=code,
        **caller.origin.model_dump(),
    )


def note_refusal(caller: Caller, operation: Operation, arguments: str, *, code: str) -> None:
    """That an operation was asked for which is out of the caller's reach, or with a yes that is none; `arguments` as
    they were sent.
    """
    refused = entry(
        caller.principal,
        caller.channel,
        operation.name,
        "denied",
        id=caller.new_id(),
        at=caller.now(),
        arguments_hash=hash_of(arguments),
        code=code,
        **caller.origin.model_dump(),
    )
    note(caller, refused)


def note(caller: Caller, wanted: AuditEntry) -> None:
    """An entry by itself."""
    caller.store.write([put_entry(caller.principal.tenant, wanted)], token=wanted.id)
