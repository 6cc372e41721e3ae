"""The policy documents of a tenant: the one in force, and every one that was.

identity  <tenant>#policy  current        the document in force
identity  <tenant>#policy  v#<version>    the same, kept
"""

from collections.abc import Sequence

from pydantic import ValidationError

from deckhand.domain.errors import ConditionFailed, StaleVersion
from deckhand.domain.policy_document import PolicyDocument
from deckhand.storage.port import ABSENT, Check, Item, ItemStore, Key, Put, VersionIs


class Policies:
    """Blocking; raises storage errors."""

    def __init__(self, store: ItemStore, tenant: str) -> None:
        self._store, self._pk = store, f"{tenant}#policy"

    def current(self) -> PolicyDocument | None:
        """One read. None: there never was one, and only what ships holds."""
        return self._read("current")

    def version(self, number: int) -> PolicyDocument | None:
        return self._read(_sk(number))

    def unchanged(self, found: PolicyDocument | None) -> Check:
        """As a condition of another write: the document in force is still the one that was read."""
        return Check(Key("identity", self._pk, "current"), ABSENT if found is None else VersionIs(found.version))

    def put(self, document: PolicyDocument, *, token: str, given: Sequence[Check] = ()) -> None:
        """Puts the version after the present one in force. Raises `StaleVersion` when another came first, or
        something `given` is not so any more.
        """
        before, body = document.version - 1, document.to_json()
        current = Item("identity", self._pk, "current", body, version=document.version)
        kept = Item("identity", self._pk, _sk(document.version), body)
        try:
            puts = [Put(current, VersionIs(before) if before else ABSENT), Put(kept, ABSENT)]
            self._store.write([*puts, *given], token=token)
        except ConditionFailed:
            raise StaleVersion("The policy changed since you read it.") from None

    def _read(self, sk: str) -> PolicyDocument | None:
        item = self._store.get(Key("identity", self._pk, sk))
        return None if item is None else _document(item)


def _document(item: Item) -> PolicyDocument:
    try:
        return PolicyDocument.model_validate_json(item.body)
    except ValidationError:
        # No policy begins so: an owner sees what there is, can replace it, and nothing else is allowed.
        text = f"unreadable: {item.body}"
        return PolicyDocument(version=item.version, policy=text, written_by="", written_at="")


def _sk(number: int) -> str:
    return f"v#{number:010d}"
