"""The sign-in routes, as OpenAPI describes them."""

from typing import Any

from deckhand.edge.openapi_route import described, object_answer

_PASSKEY = {
    "type": "object",
    "description": "A `PublicKeyCredential` as JSON.",
    "required": ["id", "rawId", "response"],
}
_NAME = {"type": "string", "minLength": 1, "maxLength": 80}
_INVITE = {"type": "string", "minLength": 1, "maxLength": 200, "description": "An invite, or the first owner's code."}

_ENDPOINT = {
    "type": "string",
    "minLength": 1,
    "maxLength": 2048,
    "description": "Where this device gets pushes; it gets none any more.",
}


def _route(name: str, summary: str, answer: str, *, status: str = "200", **more: Any) -> dict[str, Any]:
    return described(name, summary, {status: object_answer(answer)}, tag="sign-in", security=[], **more)


def _body(schema: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    return {"required": required, "content": {"application/json": {"schema": schema}}}


SIGN_IN_PATHS: dict[str, dict[str, Any]] = {
    "/auth/status": {
        "get": _route("sign_in_status", "Who is signed in", "`{signedIn, enrolled, user?: {id, name, role}}`.")
    },
    "/auth/register/options": {
        "post": _route(
            "register_options",
            "Begin to add a passkey: by an invite, or on one more device",
            "For `navigator.credentials.create`.",
            requestBody=_body({"type": "object", "properties": {"invite": _INVITE, "name": _NAME}}, required=False),
        )
    },
    "/auth/register/verify": {
        "post": _route(
            "register_verify",
            "Keep the new passkey",
            "`{user, credential}`; who came by an invite is signed in.",
            status="201",
            requestBody=_body({**_PASSKEY, "properties": {"name": _NAME}}),
        )
    },
    "/auth/login/options": {"post": _route("login_options", "Begin to sign in", "For `navigator.credentials.get`.")},
    "/auth/login/verify": {
        "post": _route("login_verify", "Sign in with a passkey", "`{user}`.", requestBody=_body(_PASSKEY))
    },
    "/auth/login/recovery": {
        "post": _route(
            "login_recovery",
            "Sign in with a recovery code, which is spent",
            "`{user}`.",
            requestBody=_body(
                {"type": "object", "required": ["code"], "properties": {"code": {"type": "string", "maxLength": 200}}}
            ),
        )
    },
    "/auth/logout": {
        "post": _route(
            "logout",
            "Sign out of this session",
            "`{ok}`.",
            requestBody=_body({"type": "object", "properties": {"endpoint": _ENDPOINT}}, required=False),
        )
    },
}
