"""Which device has had which push: a job that comes twice, or is tried again, sends to none a second time.

turns  <tenant>#push#<user>#<fire>  <subscription id>  state, until
"""

from dataclasses import dataclass
from typing import Literal

from deckhand.domain.errors import ConditionFailed
from deckhand.domain.json_text import dumps, loads
from deckhand.storage.port import ABSENT, Condition, Item, ItemStore, Put, VersionIs
from deckhand.storage.repeat import write_surely

LEASE_S = 120
"""Longer than a send may take. Whoever dies in the middle of one is followed after it: the device may then get the
push again, under the same topic and tag, which replaces the first."""
KEPT_S = 24 * 3600

Settled = Literal["sent", "gone", "failed"]
"""`gone`: the push service knows the device no more. `failed`: it will never take this push."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A device that is ours to send to."""

    item: Item


class PushClaims:
    """`fire` names the push. Blocking; raises storage errors."""

    def __init__(self, store: ItemStore, tenant: str, user: str, *, fire: str) -> None:
        self._store, self._pk = store, f"{tenant}#push#{user}#{fire}"

    def take(self, subscription: str, *, now: float, token: str) -> Claim | Settled | None:
        """The claim; or how it ended before; or None while another worker is at it."""
        fresh = self._item(subscription, "sending", now + LEASE_S, version=1)
        try:
            return self._write(fresh, ABSENT, token=token)
        except ConditionFailed as taken:
            stored: Item | None = taken.item
        if stored is None:
            return None
        known = loads(stored.body)
        if known["state"] in ("sent", "gone", "failed"):
            ended: Settled = known["state"]
            return ended
        if known["until"] > now:
            return None
        again = self._item(subscription, "sending", now + LEASE_S, version=stored.version + 1)
        try:
            return self._write(again, VersionIs(stored.version), token=f"{token}-again")
        except ConditionFailed:
            return None

    def settle(self, claim: Claim, state: Settled, *, now: float, token: str) -> None:
        self._finish(claim, self._item(claim.item.sk, state, now, version=claim.item.version + 1), token)

    def give_back(self, claim: Claim, *, now: float, token: str) -> None:
        """Nothing was sent: the next try takes it at once."""
        self._finish(claim, self._item(claim.item.sk, "waiting", now, version=claim.item.version + 1), token)

    def _finish(self, claim: Claim, item: Item, token: str) -> None:
        try:
            write_surely(self._store, [Put(item, VersionIs(claim.item.version))], token=token)
        except ConditionFailed:
            return  # the lease ran out and another worker has it

    def _write(self, item: Item, condition: Condition, *, token: str) -> Claim:
        self._store.write([Put(item, condition)], token=token)
        return Claim(item)

    def _item(self, subscription: str, state: str, until: float, *, version: int) -> Item:
        body = dumps({"state": state, "until": until})
        return Item("turns", self._pk, subscription, body, version, int(until) + KEPT_S)
