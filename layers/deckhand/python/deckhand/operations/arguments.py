"""What inputs of operations share."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

HTTP_ONLY = {"x-http-only": True}


class Arguments(BaseModel):
    """Closed: a name that is not known is a fault, not something to ignore."""

    model_config = ConfigDict(extra="forbid")


class Nothing(Arguments):
    """No arguments."""


IfMatch = Annotated[
    int | None,
    Field(description="The version that was read (header If-Match).", json_schema_extra=HTTP_ONLY),
]


class CardId(Arguments):
    id: str = Field(description="The card's id, as list_manifests shows it.")


class ChangedCard(CardId):
    """A change of a card; over HTTP `If-Match` may bind it to the version that was read."""

    if_match: IfMatch = None
