"""Proposals on the store, beside the log of the turn that made them; they expire some time after they could be decided.

    turns  <tenant>#conv#<id>            p#<random>  a conversation's, removed with it
    turns  <tenant>#u#<user>#proposals   p#<random>  of turns that belong to no conversation
    turns  <tenant>#u#<user>#open        <made>#<id> names one that has not come to its end
    turns  <tenant>#expiring             <ends>#<conversation>#<turn id>  a turn of which a call is decided

An id names its place: `<conversation>.<random>`, `none.<random>`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deckhand.domain.audit import AuditOutcome, entry
from deckhand.domain.errors import UnknownProposal
from deckhand.domain.model import Model
from deckhand.domain.principal import Channel, Principal
from deckhand.domain.proposal import EXECUTING_S, KEPT_S, Proposal
from deckhand.domain.times import iso
from deckhand.storage.audit import put_entry
from deckhand.storage.conversations import Owner, transcript_pk
from deckhand.storage.port import ABSENT, Check, Condition, Delete, Item, ItemStore, Key, Op, Put, VersionIs

NOWHERE = "none"
MAX_ID = 130


@dataclass(frozen=True, slots=True)
class StoredProposal:
    proposal: Proposal
    version: int


def proposal_id(conversation: str, unique: str) -> str:
    return f"{conversation or NOWHERE}.{unique}"


class Expiring(Model):
    """A turn whose last calls may end by time alone."""

    user: str
    conversation: str
    turn_id: str


@dataclass(frozen=True, slots=True)
class StoredExpiring:
    key: Key
    expiring: Expiring


def put_proposal(owner: Owner, proposal: Proposal, *, after: StoredProposal | None = None) -> list[Op]:
    """Creates it, or moves it from the version that was read (the first op's condition); while it has not come to its
    end its user finds it among all that waits.
    """
    return [_put(owner, proposal, after), *_listed(owner, proposal, after)]


def _listed(owner: Owner, proposal: Proposal, after: StoredProposal | None) -> list[Op]:
    place = Key("turns", f"{owner.tenant}#u#{owner.user}#open", f"{iso(proposal.created_at)}#{proposal.id}")
    if proposal.is_over:
        return [Delete(place)]
    if after is not None:
        return []
    # One that is being done at its end comes to its end later.
    expires = int(proposal.expires_at + 2 * EXECUTING_S) + 1
    return [Put(Item(place.table, place.pk, place.sk, "{}", expires=expires))]


def put_expiring(owner: Owner, proposal: Proposal) -> list[Op]:
    """For the sweep, when one is decided: nobody may ever touch the others of its step, and whoever decides may die
    before the turn goes on.
    """
    if not proposal.conversation:
        return []
    entry = Expiring(user=owner.user, conversation=proposal.conversation, turn_id=proposal.turn_id)
    # All of a step end within the same second or two.
    ends = int(proposal.expires_at) + 2
    sk = f"{iso(ends)}#{proposal.conversation}#{proposal.turn_id}"
    return [Put(Item("turns", f"{owner.tenant}#expiring", sk, entry.to_json(), expires=ends + KEPT_S))]


def _put(owner: Owner, proposal: Proposal, after: StoredProposal | None) -> Put:
    key = _key(owner, proposal.id)
    condition: Condition = ABSENT if after is None else VersionIs(after.version)
    version = 1 if after is None else after.version + 1
    expires = int(proposal.expires_at) + KEPT_S
    return Put(Item(key.table, key.pk, key.sk, proposal.to_json(), version, expires), condition)


def put_opening(owner: Owner, proposal: Proposal) -> Put:
    """The audit's entry of a new proposal."""
    at, policies = proposal.created_at, proposal.policies
    return put_told(owner, proposal, "proposed", id=f"{proposal.id}.proposed", at=at, policies=policies)


def put_told(
    owner: Owner,
    proposal: Proposal,
    outcome: AuditOutcome,
    *,
    id: str,
    at: float,
    by: tuple[Principal, Channel] | None = None,
    **more: Any,
) -> Put:
    """The audit's entry of what became of a proposal: done by whoever made it, in their way, unless `by` others; `more`
    goes before the proposal's own.
    """
    principal, channel = by or (proposal.actor.principal(), proposal.channel)
    own: dict[str, Any] = {
        "arguments_hash": proposal.arguments_hash,
        "card": proposal.card,
        "conversation": proposal.conversation or None,
        "turn_id": proposal.turn_id,
        "call_id": proposal.call_id,
        "proposal_id": proposal.id,
    }
    return put_entry(owner.tenant, entry(principal, channel, proposal.tool, outcome, id=id, at=at, **own | more))


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

    def of_turn(self, owner: Owner, conversation: str, turn_id: str) -> list[StoredProposal]:
        """Those that a turn asked for, as `all` has them."""
        return [stored for stored in self.all(owner, conversation) if stored.proposal.turn_id == turn_id]

    def listed(self, owner: Owner, limit: int) -> list[StoredProposal]:
        """The newest of a user's that have not come to their end, wherever they were made, at most so many. A read for
        each, and one.
        """
        place = f"{owner.tenant}#u#{owner.user}#open"
        newest = self._store.query("turns", place, backwards=True, limit=limit).items
        found = [self._store.get(_key(owner, item.sk.partition("#")[2])) for item in newest]
        # Those of a conversation that was deleted went with it.
        return [_stored(item) for item in found if item is not None]

    def expiring(self, tenant: str, now: float) -> list[StoredExpiring]:
        """The turns whose undecided calls have ended by now. One query."""
        items = self._store.query("turns", f"{tenant}#expiring", before=iso(now)).items
        return [
            StoredExpiring(Key(item.table, item.pk, item.sk), Expiring.model_validate_json(item.body)) for item in items
        ]

    def move(self, owner: Owner, proposal: Proposal, *, after: StoredProposal, token: str) -> StoredProposal:
        """Raises `ConditionFailed` when it is no longer the one that was read."""
        self._store.write(put_proposal(owner, proposal, after=after), token=token)
        return StoredProposal(proposal, after.version + 1)

    def add(self, owner: Owner, proposals: Sequence[Proposal], *, token: str) -> None:
        made = [op for proposal in proposals for op in put_proposal(owner, proposal)]
        self._store.write([*made, *(put_opening(owner, proposal) for proposal in proposals)], token=token)


def _key(owner: Owner, id: str) -> Key:
    place, _, unique = id.rpartition(".")
    return Key("turns", _pk(owner, place), f"p#{unique}")


def _pk(owner: Owner, place: str) -> str:
    return f"{owner.tenant}#u#{owner.user}#proposals" if place == NOWHERE else transcript_pk(owner, place)


def _stored(item: Item) -> StoredProposal:
    return StoredProposal(Proposal.model_validate_json(item.body), item.version)
