"""Standing yeses on the store.

deck  <tenant>#u#<user>#grants  <id>  grant; past its time it counts as absent
"""

from deckhand.domain.errors import TooManyGrants, UnknownGrant
from deckhand.domain.grant import MAX_GRANTS, Grant
from deckhand.storage.conversations import Owner
from deckhand.storage.port import Delete, Item, ItemStore, Key, Put


class Grants:
    """One person's. Blocking; raises storage errors."""

    def __init__(self, store: ItemStore, owner: Owner) -> None:
        self._store, self._pk = store, f"{owner.tenant}#u#{owner.user}#grants"

    def all(self) -> list[Grant]:
        return [Grant.model_validate_json(item.body) for item in self._store.query("deck", self._pk).items]

    def add(self, grant: Grant, *, token: str) -> None:
        """Raises `TooManyGrants`."""
        if len(self.all()) >= MAX_GRANTS:
            raise TooManyGrants()
        item = Item("deck", self._pk, grant.id, grant.to_json(), expires=int(grant.until))
        self._store.write([Put(item)], token=token)

    def revoke(self, id: str, *, token: str) -> None:
        """Raises `UnknownGrant`."""
        key = Key("deck", self._pk, id)
        if not 0 < len(id) <= 64 or self._store.get(key) is None:
            raise UnknownGrant()
        self._store.write([Delete(key)], token=token)
