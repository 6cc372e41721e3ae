"""Ingested reports: list, read, put, remove."""

from pydantic import Field
from typing_extensions import TypedDict

from deckhand.domain.errors import BodyTooLarge, InvalidRequest, ReportNotVerified, UnknownDocument
from deckhand.domain.report import MAX_BYTES, parse, valid_name
from deckhand.domain.times import iso
from deckhand.operations.arguments import Arguments, Nothing
from deckhand.operations.caller import Caller
from deckhand.operations.registry import Http, operation
from deckhand.operations.shapes import Done
from deckhand.operations.text_part import TextPart, text_part
from deckhand.storage.report_index import ReportIndex


class ReportName(Arguments):
    name: str = Field(description="The report's name, as the catalogue shows it.")


class ReportPart(ReportName):
    offset: int = Field(default=0, ge=0, description="Where to go on reading, in characters.")


class ReportText(ReportName):
    text: str


class ReportEntry(TypedDict):
    """`date` is the document's, else the day on which it was taken in. `verified` is false for a scan that nobody has
    checked: its text is withheld. `bytes` counts the text.
    """

    name: str
    title: str
    date: str
    format: str
    verified: bool
    ingestedAt: str
    bytes: int


class ReportEntries(TypedDict):
    reports: list[ReportEntry]


class PartOfReport(TextPart):
    """`sourceFormat` is what it was taken from, such as `text` or `scan`."""

    name: str
    path: str
    ingestedAt: str
    sourceFormat: str


class NamedReport(Done):
    name: str


class StoredReport(NamedReport):
    """`created`: there was none of the name."""

    created: bool


def index(caller: Caller) -> ReportIndex:
    return ReportIndex(caller.store, caller.principal.tenant)


@operation(summary="List the reports", input=Nothing, http=Http("GET", "/api/reports"))
def list_reports(caller: Caller, _: Nothing) -> ReportEntries:
    """Newest document first."""
    shown: list[ReportEntry] = [
        {
            "name": report.name,
            "title": report.title,
            "date": report.date,
            "format": report.format,
            "verified": report.verified,
            "ingestedAt": report.ingested_at,
            "bytes": report.size,
        }
        for report in index(caller).all()
    ]
    return {"reports": shown}


@operation(
    summary="Read a report",
    description="Reads an ingested report. Read it before you quote figures from it; say which date it is of.",
    input=ReportPart,
    http=Http("GET", "/api/reports/{name}"),
    agent=True,
    label="Reading a report",
)
def read_report(caller: Caller, given: ReportPart) -> PartOfReport:
    """Raises `UnknownDocument`, `ReportNotVerified`."""
    stored = caller.reports.get(given.name) if valid_name(given.name) else None
    if stored is None:
        raise UnknownDocument("There is no report of this name.")
    report = parse(stored.name, stored.text, stored.ingested_at)
    if not report.verified or report.rejected:
        raise ReportNotVerified()
    return {
        "name": report.name,
        "path": f"reports/{report.name}",
        "ingestedAt": report.ingested_at,
        "sourceFormat": report.format,
        **text_part(report.text, given.offset),
    }


@operation(
    summary="Put a report",
    input=ReportText,
    mutates=True,
    http=Http("PUT", "/api/reports/{name}", body="text", text=True, limit=MAX_BYTES),
)
def put_report(caller: Caller, given: ReportText) -> StoredReport:
    """Raises `InvalidRequest` (the name, or text that is not UTF-8), `BodyTooLarge` over 1 MB."""
    if not valid_name(given.name):
        raise InvalidRequest("A report's name has letters, digits, dots, dashes and underscores, at most 128 of them.")
    if not given.text.strip():
        raise InvalidRequest("The report is empty.")
    if len(given.text.encode()) > MAX_BYTES:
        raise BodyTooLarge()
    created = caller.reports.put(given.name, given.text)
    index(caller).put(parse(given.name, given.text, iso(caller.now())), token=caller.new_id())
    return {"ok": True, "name": given.name, "created": created}


@operation(
    summary="Remove a report",
    input=ReportName,
    mutates=True,
    destructive=True,
    http=Http("DELETE", "/api/reports/{name}"),
)
def remove_report(caller: Caller, given: ReportName) -> NamedReport:
    """Raises `UnknownDocument`."""
    if not valid_name(given.name):
        raise UnknownDocument("There is no report of this name.")
    removed = caller.reports.remove(given.name)
    # Also when the text is gone already: an earlier removal may have been killed in between.
    index(caller).remove(given.name, token=caller.new_id())
    if not removed:
        raise UnknownDocument("There is no report of this name.")
    return {"ok": True, "name": given.name}
