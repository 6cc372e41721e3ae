"""How a route that is no operation is described in the OpenAPI document."""

from typing import Any

ERROR = {"$ref": "#/components/responses/Error"}


def object_answer(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": {"type": "object"}}}}


def described(name: str, summary: str, answers: dict[str, Any], *, tag: str, **more: Any) -> dict[str, Any]:
    return {"operationId": name, "summary": summary, "tags": [tag], "responses": {**answers, "default": ERROR}, **more}
