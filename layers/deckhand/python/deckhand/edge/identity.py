"""The sign-in routes: who is signed in, a new passkey, in by a passkey or a recovery code, and out."""

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aws_lambda_powertools.event_handler import Response

from deckhand.domain.account import MAX_NAME, OWNER_ID, Account, shown_credential
from deckhand.domain.errors import NotConfigured, SignInFailed, Unauthenticated, ValidationFailed
from deckhand.domain.principal import Principal
from deckhand.edge.answer import json_answer
from deckhand.edge.app import Route
from deckhand.edge.auth import Sessions, check_origin, session_secret
from deckhand.edge.enrolment import Enrolments
from deckhand.edge.request import Request
from deckhand.edge.session_cookie import no_cookie, session_cookie
from deckhand.edge.session_opening import Opened
from deckhand.edge.shapes import Enrolled, SignedIn, SignedInUser, SignInStatus
from deckhand.edge.sign_in import SignIns
from deckhand.storage.attempts import Attempts

BODY_BYTES = 64 * 1024
MAX_CODE = 200
MAX_ENDPOINT = 2048
HOUSEHOLD_BITS = 64
"""Of an IPv6 address: who has one has all that share them."""

Step = Callable[[Request], "Response[Any]"]


@dataclass(frozen=True, slots=True)
class IdentityRoutes:
    """`authenticate` finds the principal of a request, or raises as it does for every other route. `forget_device`
    takes a principal and the address at which their device gets pushes.
    """

    enrolments: Enrolments
    sign_ins: SignIns
    attempts: Attempts
    sessions: Sessions
    authenticate: Callable[[Request], Principal]
    forget_device: Callable[[Principal, str], None]

    def routes(self) -> list[Route]:
        return [
            self._route("GET", "/auth/status", self._status),
            self._route("POST", "/auth/register/options", self._guarded("ask", self._enrolment_options)),
            self._route("POST", "/auth/register/verify", self._guarded("try", self._enrol)),
            self._route("POST", "/auth/login/options", self._guarded("ask", self._sign_in_options)),
            self._route("POST", "/auth/login/verify", self._guarded("try", self._sign_in)),
            self._route("POST", "/auth/login/recovery", self._guarded("try", self._recover)),
            self._route("POST", "/auth/logout", self._sign_out),
        ]

    def _route(self, method: str, path: str, step: Step) -> Route:
        def endpoint(request: Request, parts: Mapping[str, str], context: Any) -> "Response[Any]":
            return step(request)

        return Route(method, path, endpoint)

    def _guarded(self, kind: str, step: Step) -> Step:
        """Only from pages of ours, and ten times a minute from one address; there is no cookie that would say so."""

        def guarded(request: Request) -> "Response[Any]":
            if not self.sessions.origins:
                raise NotConfigured("No origin of pages is set, so nobody can sign in.")
            if "origin" in request.headers:
                check_origin(request, self.sessions.origins)
            self.attempts.count(f"{kind} {network(request.source_ip)}")
            return step(request)

        return guarded

    def _status(self, request: Request) -> "Response[Any]":
        accounts = self.sign_ins.accounts
        principal = self._signed_in(request)
        found = accounts.find(principal.user) if principal is not None else None
        enrolled = accounts.find(OWNER_ID) is not None
        status: SignInStatus = {"signedIn": found is not None, "enrolled": enrolled}
        if found is not None:
            status["user"] = shown_user(found.account)
        return json_answer(200, status)

    def _enrolment_options(self, request: Request) -> "Response[Any]":
        body = _optional(request)
        invite, name = _text(body, "invite", MAX_CODE), _text(body, "name", MAX_NAME)
        signed_in = self._signed_in(request)
        return json_answer(200, self.enrolments.options(invite=invite, name=name, signed_in=signed_in))

    def _enrol(self, request: Request) -> "Response[Any]":
        body = request.json_object(BODY_BYTES)
        name = _text(body, "name", MAX_NAME)
        return self._in(201, self.enrolments.enrol(body, name=name, signed_in=self._signed_in(request)))

    def _sign_in_options(self, request: Request) -> "Response[Any]":
        return json_answer(200, self.sign_ins.options())

    def _sign_in(self, request: Request) -> "Response[Any]":
        return self._in(200, self.sign_ins.by_passkey(request.json_object(BODY_BYTES)))

    def _recover(self, request: Request) -> "Response[Any]":
        code = _text(request.json_object(BODY_BYTES), "code", MAX_CODE)
        if code is None:
            raise SignInFailed()
        return self._in(200, self.sign_ins.by_recovery_code(code))

    def _sign_out(self, request: Request) -> "Response[Any]":
        """The browser forgets the cookie whether it was still good or not; its device gets no more pushes."""
        endpoint = _text(_optional(request), "endpoint", MAX_ENDPOINT)
        principal = self._signed_in(request)
        secret = session_secret(request, self.sessions.cookie)
        if principal is not None and secret is not None:
            if endpoint is not None:
                self.forget_device(principal, endpoint)
            self.sign_ins.opening.close(principal.user, secret)
        answer = json_answer(200, {"ok": True})
        answer.cookies.append(no_cookie(self.sessions.cookie))
        return answer

    def _signed_in(self, request: Request) -> Principal | None:
        """Whose session the cookie opens; a token signs nobody in."""
        try:
            principal = self.authenticate(request)
        except (Unauthenticated, NotConfigured):
            return None
        return principal if principal.kind == "user" else None

    def _in(self, status: int, opened: Opened) -> "Response[Any]":
        told: SignedIn = {"user": shown_user(opened.account)}
        if opened.credential is not None:
            told = Enrolled(user=told["user"], credential=shown_credential(opened.credential))
        answer = json_answer(status, told)
        if opened.secret is not None:
            answer.cookies.append(session_cookie(self.sessions.cookie, opened.secret))
        return answer


def network(address: str) -> str:
    """Whom an address stands for; what is none stands for itself."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv6Address) and known.ipv4_mapped is None:
        return str(ipaddress.ip_network((known, HOUSEHOLD_BITS), strict=False))
    return str(known.ipv4_mapped if isinstance(known, ipaddress.IPv6Address) else known)


def shown_user(account: Account) -> SignedInUser:
    return {"id": account.id, "name": account.name, "role": account.role}


def _optional(request: Request) -> dict[str, Any]:
    """No body, and null, ask for nothing."""
    return {} if request.body.strip() in (b"", b"null") else request.json_object(BODY_BYTES)


def _text(body: Mapping[str, Any], name: str, limit: int) -> str | None:
    """Raises `ValidationFailed`."""
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value.strip()) <= limit:
        raise ValidationFailed(errors=[{"path": name, "message": f"must be a text of 1 to {limit} characters"}])
    return value.strip()
