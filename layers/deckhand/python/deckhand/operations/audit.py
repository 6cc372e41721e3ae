"""The audit log: who changed, decided or was refused what. Owners read it; nobody writes it by hand."""

from typing import Any, Literal

from pydantic import Field

from deckhand.operations.arguments import Arguments
from deckhand.operations.caller import Caller
from deckhand.operations.registry import Http, operation
from deckhand.storage.audit import read_entries


class AuditRange(Arguments):
    after: str | None = Field(default=None, max_length=200, description="The `next` of the page before.")
    limit: int = Field(default=100, ge=1, le=500)
    order: Literal["asc", "desc"] = Field(default="asc", description="desc: the newest first.")


@operation(summary="Read the audit log", input=AuditRange, http=Http("GET", "/api/audit"))
def list_audit(caller: Caller, given: AuditRange) -> dict[str, Any]:
    """`{entries: [{at, principal, user, role, channel, operation, outcome, argumentsHash?, card?, policies, code?,
    conversation?, turnId?, callId?, proposalId?}], next}`; `next` is null at the end.
    """
    page = read_entries(
        caller.store,
        caller.principal.tenant,
        after=given.after or None,
        limit=given.limit,
        newest_first=given.order == "desc",
    )
    shown = [entry.model_dump(mode="json", by_alias=True, exclude_none=True) for entry in page.entries]
    return {"entries": shown, "next": page.next}
