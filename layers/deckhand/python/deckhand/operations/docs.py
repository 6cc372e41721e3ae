"""The documents that ship with Deckhand, for people and for the agent."""

from functools import cache
from importlib import resources

from pydantic import Field
from typing_extensions import TypedDict

from deckhand.domain.errors import UnknownDocument
from deckhand.operations.arguments import Arguments, Nothing
from deckhand.operations.caller import Caller
from deckhand.operations.registry import Http, operation
from deckhand.operations.text_part import TextPart, text_part

DOCS = {
    "README.md": "What Deckhand is and how to run it",
    "CARDS.md": "The card schema: every field of a manifest, renderers, inputs, schedules, with examples",
    "CHAT.md": "How chat works: turns, streaming, reattaching, tools, settings",
    "API.md": "The HTTP API: routes, statuses, errors",
}
"""An exact list: nothing else can be read, whatever the path says."""


class DocPart(Arguments):
    path: str = Field(description="One of the documents of the catalogue, such as CARDS.md.")
    offset: int = Field(default=0, ge=0, description="Where to go on reading, in characters.")


class Document(TypedDict):
    path: str
    summary: str


class Documents(TypedDict):
    docs: list[Document]


class DocumentPart(TextPart):
    path: str


@operation(summary="List the documents", input=Nothing, http=Http("GET", "/api/docs"))
def list_docs(_: Caller, __: Nothing) -> Documents:
    """All that `read_doc` can read."""
    return {"docs": [{"path": path, "summary": summary} for path, summary in DOCS.items()]}


@operation(
    summary="Read a document",
    description="Reads one of Deckhand's own documents. Read CARDS.md before you claim what a renderer can do.",
    input=DocPart,
    http=Http("GET", "/api/docs/{path}"),
    agent=True,
    label="Reading the documentation",
)
def read_doc(_: Caller, given: DocPart) -> DocumentPart:
    """Raises `UnknownDocument`."""
    if given.path not in DOCS:
        raise UnknownDocument(f"The documents are {', '.join(DOCS)}.")
    return {"path": given.path, **text_part(_text(given.path), given.offset)}


@cache
def _text(path: str) -> str:
    return (resources.files("deckhand") / "docs" / path).read_text(encoding="utf-8")
