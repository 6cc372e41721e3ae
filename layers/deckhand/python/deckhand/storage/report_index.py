"""What lists and the prompt say of reports, so that neither reads a text.

deck  <tenant>#reports  <name>  the report's head
"""

from deckhand.domain.report import Report
from deckhand.storage.port import Delete, Item, ItemStore, Key, Put


class ReportIndex:
    """Blocking; raises storage errors."""

    def __init__(self, store: ItemStore, tenant: str) -> None:
        self._store, self._pk = store, f"{tenant}#reports"

    def all(self) -> list[Report]:
        """Without their texts, newest document first."""
        items = self._store.query("deck", self._pk).items
        heads = [Report.model_validate_json(item.body) for item in items]
        return sorted(heads, key=lambda report: (report.date, report.name), reverse=True)

    def put(self, report: Report, *, token: str) -> None:
        head = report.model_copy(update={"text": ""})
        self._store.write([Put(Item("deck", self._pk, report.name, head.to_json()))], token=token)

    def remove(self, name: str, *, token: str) -> None:
        self._store.write([Delete(Key("deck", self._pk, name))], token=token)
