"""The audit log: who changed, decided or was refused what. Owners read it; nobody writes it by hand."""

from typing import Literal

from pydantic import Field
from typing_extensions import TypedDict

from deckhand.domain.audit import AuditRecord
from deckhand.operations.arguments import Arguments
from deckhand.operations.caller import Caller
from deckhand.operations.registry import Http, operation
from deckhand.storage.audit import read_entries


class AuditRange(Arguments):
    after: str | None = Field(default=None, max_length=200, description="The `next` of the page before.")
    limit: int = Field(default=100, ge=1, le=500)
    order: Literal["asc", "desc"] = Field(default="asc", description="desc: the newest first.")


class AuditRecords(TypedDict):
    """`next` is the `after` of the next page, null at the end."""

    entries: list[AuditRecord]
    next: str | None


@operation(summary="Read the audit log", input=AuditRange, http=Http("GET", "/api/audit"))
def list_audit(caller: Caller, given: AuditRange) -> AuditRecords:
    """In the order of time, page by page."""
    page = read_entries(
        caller.store,
        caller.principal.tenant,
        after=given.after or None,
        limit=given.limit,
        newest_first=given.order == "desc",
    )
    return {"entries": [entry.shown() for entry in page.entries], "next": page.next}
