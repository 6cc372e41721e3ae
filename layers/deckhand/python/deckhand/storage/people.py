"""What users set for all of their reminders, in one partition a tenant: it also tells whom reminders reach.

deck  <tenant>#people  <user>  zone, quiet hours, pause
"""

from collections.abc import Callable
from dataclasses import dataclass

from deckhand.domain.errors import ConditionFailed, StorageUnavailable
from deckhand.domain.reminders import Person
from deckhand.storage.port import ABSENT, Check, Item, ItemStore, Key, Op, Put, VersionIs

FIRST_USER = "owner"
ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class StoredPerson:
    """`version` 0: nothing is stored, the person has set nothing yet."""

    user: str
    person: Person
    version: int = 0


class People:
    """Blocking; raises storage errors."""

    def __init__(self, store: ItemStore, tenant: str) -> None:
        self._store, self._pk = store, f"{tenant}#people"

    def all(self) -> list[StoredPerson]:
        """Everybody whom reminders reach: the first user, and all who have set anything."""
        found = {item.sk: _stored(item) for item in self._store.query("deck", self._pk).items}
        return list({FIRST_USER: StoredPerson(FIRST_USER, Person()), **found}.values())

    def find(self, user: str) -> StoredPerson:
        item = self._store.get(self._key(user))
        return StoredPerson(user, Person()) if item is None else _stored(item)

    def change(
        self,
        user: str,
        edit: Callable[[Person], Person],
        *,
        token: str,
        beside: Callable[[int], list[Op]],
    ) -> StoredPerson:
        """Applies `edit`, again when somebody was quicker. `beside` gives what is written in the same transaction, for
        the new version.
        """
        for attempt in range(ATTEMPTS):
            found = self.find(user)
            wanted = edit(found.person)
            version = found.version + 1
            condition = VersionIs(found.version) if found.version else ABSENT
            put = Put(Item("deck", self._pk, user, wanted.to_json(), version), condition)
            try:
                self._store.write([put, *beside(version)], token=f"{token}.{attempt}")
            except ConditionFailed:
                continue
            return StoredPerson(user, wanted, version)
        raise StorageUnavailable()

    def unchanged(self, stored: StoredPerson) -> Check:
        """Holds while the person is as it was read."""
        return Check(self._key(stored.user), VersionIs(stored.version) if stored.version else ABSENT)

    def _key(self, user: str) -> Key:
        return Key("deck", self._pk, user)


def _stored(item: Item) -> StoredPerson:
    return StoredPerson(item.sk, Person.model_validate_json(item.body), item.version)
