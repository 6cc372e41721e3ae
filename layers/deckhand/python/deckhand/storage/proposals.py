"""Proposals on the store, beside the log of the turn that made them; they expire some time after they could be decided.

    turns  <tenant>#conv#<id>            p#<random>  a conversation's, removed with it
    turns  <tenant>#u#<user>#proposals   p#<random>  of turns that belong to no conversation

An id names its place: `<conversation>.<random>`, `none.<random>`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from deckhand.domain.audit import entry
from deckhand.domain.errors import UnknownProposal
from deckhand.domain.proposal import KEPT_S, Proposal
from deckhand.domain.times import iso
from deckhand.storage.audit import put_entry
from deckhand.storage.conversations import Owner, transcript_pk
from deckhand.storage.port import ABSENT, Check, Condition, Item, ItemStore, Key, Put, VersionIs

NOWHERE = "none"
MAX_ID = 130


@dataclass(frozen=True, slots=True)
class StoredProposal:
    proposal: Proposal
    version: int


def proposal_id(conversation: str, unique: str) -> str:
    return f"{conversation or NOWHERE}.{unique}"


def put_proposal(owner: Owner, proposal: Proposal, *, after: StoredProposal | None = None) -> Put:
    """Creates it, or moves it from the version that was read."""
    key = _key(owner, proposal.id)
    condition: Condition = ABSENT if after is None else VersionIs(after.version)
    version = 1 if after is None else after.version + 1
    expires = int(proposal.expires_at) + KEPT_S
    return Put(Item(key.table, key.pk, key.sk, proposal.to_json(), version, expires), condition)


def put_opening(owner: Owner, proposal: Proposal) -> Put:
    """The audit's entry of a new proposal."""
    opened = entry(
        proposal.actor.principal(),
        proposal.channel,
        proposal.tool,
        "proposed",
        id=f"{proposal.id}.proposed",
        at=iso(proposal.created_at),
        arguments_hash=proposal.arguments_hash,
        card=proposal.card,
        policies=proposal.policies,
        conversation=proposal.conversation or None,
        turn_id=proposal.turn_id,
        call_id=proposal.call_id,
        proposal_id=proposal.id,
    )
    return put_entry(owner.tenant, opened)


def check_proposal(owner: Owner, stored: StoredProposal) -> Check:
    return Check(_key(owner, stored.proposal.id), VersionIs(stored.version))


class Proposals:
    """Blocking; raises storage errors."""

    def __init__(self, store: ItemStore) -> None:
        self._store = store

    def find(self, owner: Owner, id: str) -> StoredProposal:
        """Raises `UnknownProposal`, for another person's as well."""
        if not (0 < len(id) <= MAX_ID and id.isascii() and id.replace("-", "").replace(".", "").isalnum()):
            raise UnknownProposal()
        item = self._store.get(_key(owner, id))
        if item is None:
            raise UnknownProposal()
        stored = _stored(item)
        if stored.proposal.actor.user != owner.user or stored.proposal.id != id:
            raise UnknownProposal()
        return stored

    def all(self, owner: Owner, conversation: str) -> list[StoredProposal]:
        """Those of a conversation (empty: of none) in the order in which they were made, decided ones too."""
        items = self._store.query("turns", _pk(owner, conversation or NOWHERE), prefix="p#").items
        found = [_stored(item) for item in items]
        mine = [stored for stored in found if stored.proposal.actor.user == owner.user]
        return sorted(mine, key=lambda stored: (stored.proposal.created_at, stored.proposal.call_id))

    def move(self, owner: Owner, proposal: Proposal, *, after: StoredProposal, token: str) -> StoredProposal:
        """Raises `ConditionFailed` when it is no longer the one that was read."""
        self._store.write([put_proposal(owner, proposal, after=after)], token=token)
        return StoredProposal(proposal, after.version + 1)

    def add(self, owner: Owner, proposals: Sequence[Proposal], *, token: str) -> None:
        made = [put_proposal(owner, proposal) for proposal in proposals]
        self._store.write([*made, *(put_opening(owner, proposal) for proposal in proposals)], token=token)


def _key(owner: Owner, id: str) -> Key:
    place, _, unique = id.rpartition(".")
    return Key("turns", _pk(owner, place), f"p#{unique}")


def _pk(owner: Owner, place: str) -> str:
    return f"{owner.tenant}#u#{owner.user}#proposals" if place == NOWHERE else transcript_pk(owner, place)


def _stored(item: Item) -> StoredProposal:
    return StoredProposal(Proposal.model_validate_json(item.body), item.version)
