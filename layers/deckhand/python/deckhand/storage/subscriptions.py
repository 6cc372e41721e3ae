"""Push subscriptions on the store.

    identity  <tenant>#push#<user>         <subscription id>  subscription
    identity  <tenant>#device#<subscription id>  user         whose it is

A device belongs to whoever subscribed on it last: nobody's reminders are shown to the next person who signs in there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from deckhand.domain.errors import ConditionFailed, StorageUnavailable, UnknownSubscription
from deckhand.domain.json_text import dumps, loads
from deckhand.domain.subscription import MAX_SUBSCRIPTIONS, Subscription, subscription_id
from deckhand.storage.port import ABSENT, Delete, Item, ItemStore, Key, Op, Put, VersionIs

TRIES = 5


@dataclass(frozen=True, slots=True)
class StoredSubscription:
    subscription: Subscription
    version: int


class Subscriptions:
    """Blocking; raises storage errors. Tokens name single writes."""

    def __init__(self, store: ItemStore, tenant: str) -> None:
        self._store, self._tenant = store, tenant

    def all(self, user: str) -> list[StoredSubscription]:
        items = self._store.query("identity", self._partition(user)).items
        return [StoredSubscription(Subscription.model_validate_json(item.body), item.version) for item in items]

    def put(self, user: str, subscription: Subscription, *, token: str) -> bool:
        """Whether it is new; a known one gets the new keys. Above the most that a user may have, those that were seen
        least recently go.
        """
        for number in range(TRIES):
            try:
                created = self._put(user, subscription, token=f"{token}-{number}")
            except ConditionFailed:
                continue
            if created:
                self._trim(user)
            return created
        raise StorageUnavailable()

    def seen(self, user: str, endpoint: str, *, at: str, token: str) -> None:
        """Raises `UnknownSubscription`."""
        for number in range(TRIES):
            item = self._store.get(self._key(user, subscription_id(endpoint)))
            if item is None:
                raise UnknownSubscription()
            body = Subscription.model_validate_json(item.body).model_copy(update={"seen_at": at}).to_json()
            moved = Item(item.table, item.pk, item.sk, body, item.version + 1)
            try:
                self._store.write([Put(moved, VersionIs(item.version))], token=f"{token}-{number}")
            except ConditionFailed:
                continue
            return
        raise StorageUnavailable()

    def drop(self, user: str, endpoint: str) -> None:
        """The device gets nothing more; one that is not known is no error."""
        self._drop(user, [subscription_id(endpoint)])

    def drop_dead(self, user: str, stored: StoredSubscription, *, token: str) -> None:
        """One that its push service does not know any more, unless it was made anew meanwhile."""
        key = self._key(user, stored.subscription.id)
        ops: list[Op] = [Delete(key, VersionIs(stored.version))]
        owner = self._store.get(self._owner_key(stored.subscription.id))
        if owner is not None and loads(owner.body)["user"] == user:
            ops.append(Delete(self._owner_key(stored.subscription.id), VersionIs(owner.version)))
        try:
            self._store.write(ops, token=token)
        except ConditionFailed:
            return

    def drop_all(self, user: str) -> None:
        """For a user who is disabled or gone."""
        self._drop(user, [stored.subscription.id for stored in self.all(user)])

    def _put(self, user: str, subscription: Subscription, *, token: str) -> bool:
        key, owner_key = self._key(user, subscription.id), self._owner_key(subscription.id)
        known, owner = self._store.get(key), self._store.get(owner_key)
        if known is not None:
            before = Subscription.model_validate_json(known.body)
            subscription = subscription.model_copy(update={"created_at": before.created_at})
        ops: list[Op] = [_put(key, subscription.to_json(), known), _put(owner_key, dumps({"user": user}), owner)]
        last = loads(owner.body)["user"] if owner is not None else user
        if last != user:
            ops.append(Delete(self._key(last, subscription.id)))
        self._store.write(ops, token=token)
        return known is None

    def _trim(self, user: str) -> None:
        """After the write, in one order for all: of several at once the last sees them all, and none drops too many."""
        found = [stored.subscription for stored in self.all(user)]
        found.sort(key=lambda one: (one.seen_at, one.id), reverse=True)
        self._drop(user, [one.id for one in found[MAX_SUBSCRIPTIONS:]])

    def _drop(self, user: str, ids: Sequence[str]) -> None:
        keys = []
        for one in ids:
            owner = self._store.get(self._owner_key(one))
            keys.append(self._key(user, one))
            if owner is not None and loads(owner.body)["user"] == user:
                keys.append(self._owner_key(one))
        if keys:
            self._store.delete_many(keys)

    def _partition(self, user: str) -> str:
        return f"{self._tenant}#push#{user}"

    def _key(self, user: str, subscription: str) -> Key:
        return Key("identity", self._partition(user), subscription)

    def _owner_key(self, subscription: str) -> Key:
        return Key("identity", f"{self._tenant}#device#{subscription}", "user")


def _put(key: Key, body: str, known: Item | None) -> Put:
    version = 1 if known is None else known.version + 1
    return Put(Item(key.table, key.pk, key.sk, body, version), ABSENT if known is None else VersionIs(known.version))
