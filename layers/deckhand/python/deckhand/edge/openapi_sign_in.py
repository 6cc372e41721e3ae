"""The sign-in routes, as OpenAPI describes them."""

from typing import Any

from deckhand.edge.openapi_route import answer, described
from deckhand.edge.shapes import Enrolled, SignedIn, SignInStatus
from deckhand.operations.shapes import Done

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


_CHALLENGE = {"type": "string", "description": "In base64url; it can be answered once, within 5 minutes."}


def _options(of: str, properties: dict[str, Any]) -> dict[str, Any]:
    """What the browser is handed; its parts are WebAuthn's, and more may come."""
    return {
        "description": f"For `navigator.credentials.{of}`.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["challenge", *properties],
                    "properties": {"challenge": _CHALLENGE, **properties},
                }
            }
        },
    }


def _named(*names: str) -> dict[str, Any]:
    return {"type": "object", "required": list(names), "properties": {name: {"type": "string"} for name in names}}


_CREATION = _options(
    "create",
    {
        "rp": _named("id", "name"),
        "user": _named("id", "name", "displayName"),
        "pubKeyCredParams": {"type": "array", "items": {"type": "object"}},
    },
)
_REQUEST = _options("get", {"rpId": {"type": "string"}, "userVerification": {"const": "required"}})


def _route(name: str, summary: str, said: dict[str, Any], *, status: str = "200", **more: Any) -> dict[str, Any]:
    return described(name, summary, {status: said}, tag="sign-in", security=[], **more)


def _body(schema: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    return {"required": required, "content": {"application/json": {"schema": schema}}}


SIGN_IN_PATHS: dict[str, dict[str, Any]] = {
    "/auth/status": {"get": _route("sign_in_status", "Who is signed in", answer("OK", SignInStatus))},
    "/auth/register/options": {
        "post": _route(
            "register_options",
            "Begin to add a passkey: by an invite, or on one more device",
            _CREATION,
            requestBody=_body({"type": "object", "properties": {"invite": _INVITE, "name": _NAME}}, required=False),
        )
    },
    "/auth/register/verify": {
        "post": _route(
            "register_verify",
            "Keep the new passkey",
            answer("Who came by an invite is signed in.", Enrolled),
            status="201",
            requestBody=_body({**_PASSKEY, "properties": {"name": _NAME}}),
        )
    },
    "/auth/login/options": {"post": _route("login_options", "Begin to sign in", _REQUEST)},
    "/auth/login/verify": {
        "post": _route("login_verify", "Sign in with a passkey", answer("OK", SignedIn), requestBody=_body(_PASSKEY))
    },
    "/auth/login/recovery": {
        "post": _route(
            "login_recovery",
            "Sign in with a recovery code, which is spent",
            answer("OK", SignedIn),
            requestBody=_body(
                {"type": "object", "required": ["code"], "properties": {"code": {"type": "string", "maxLength": 200}}}
            ),
        )
    },
    "/auth/logout": {
        "post": _route(
            "logout",
            "Sign out of this session",
            answer("OK", Done),
            requestBody=_body({"type": "object", "properties": {"endpoint": _ENDPOINT}}, required=False),
        )
    },
}
