"""How a route that is no operation is described in the OpenAPI document."""

from typing import Any

from deckhand.edge.openapi_shapes import Shape

ERROR = {"$ref": "#/components/responses/Error"}


def answer(description: str, shape: Any, **other_media: Any) -> dict[str, Any]:
    """`shape` is the type of the JSON; `other_media` describes what else it may be."""
    return {"description": description, "content": {"application/json": {"schema": Shape(shape)}, **other_media}}


def described(name: str, summary: str, answers: dict[str, Any], *, tag: str, **more: Any) -> dict[str, Any]:
    return {"operationId": name, "summary": summary, "tags": [tag], "responses": {**answers, "default": ERROR}, **more}
