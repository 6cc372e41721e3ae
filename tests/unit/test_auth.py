"""Who is calling: closed unless a configured token is shown."""

import pytest

from deckhand.domain.errors import NotConfigured, Unauthenticated
from deckhand.edge.auth import Authenticator, session_secret
from deckhand.edge.request import Request


def request(**headers: str) -> Request:
    return Request("GET", "/", headers, {}, b"", "r1")


@pytest.mark.parametrize("configured", [None, ""])
@pytest.mark.parametrize("sent", [{}, {"authorization": "Bearer "}, {"authorization": "Bearer x"}])
def test_while_nothing_is_configured_nobody_is_answered(configured: str | None, sent: dict[str, str]) -> None:
    with pytest.raises(NotConfigured):
        Authenticator(configured).principal(request(**sent))


@pytest.mark.parametrize("sent", ["Bearer t0ken", "bearer t0ken", "BEARER  t0ken "])
def test_the_token_of_the_environment_is_the_agent_that_acts_for_the_owner(sent: str) -> None:
    principal = Authenticator("t0ken").principal(request(authorization=sent))
    assert (principal.kind, principal.user, principal.role, principal.tenant) == ("token", "owner", "agent", "main")


@pytest.mark.parametrize(
    "sent", ["", "t0ken", "Bearer", "Bearer ", "Bearer t0ke", "Bearer t0kenn", "Basic t0ken", "Bearer tökén \ud800"]
)
def test_any_other_header_is_refused(sent: str) -> None:
    with pytest.raises(Unauthenticated):
        Authenticator("t0ken").principal(request(authorization=sent))


def test_without_a_header_nobody_is_let_in() -> None:
    with pytest.raises(Unauthenticated):
        Authenticator("t0ken").principal(request())


def test_the_operators_token_opens_nothing_but_the_operators_routes() -> None:
    both = Authenticator("t0ken", "adm1n")
    assert both.operator(request(authorization="Bearer adm1n")).role == "operator"
    with pytest.raises(Unauthenticated):
        both.principal(request(authorization="Bearer adm1n"))
    with pytest.raises(Unauthenticated):
        both.operator(request(authorization="Bearer t0ken"))


def test_without_an_operators_token_nobody_is_the_operator() -> None:
    with pytest.raises(Unauthenticated):
        Authenticator("t0ken", None).operator(request(authorization="Bearer "))


@pytest.mark.parametrize(
    "cookies",
    [
        "deckhand=s3cret",
        'prefs={"a":1,"b":[2]}; deckhand=s3cret',
        "a b=c; deckhand=s3cret",
        "flag; deckhand=s3cret; path",
        "=v; =; deckhand=s3cret",
        'open="un;deckhand=s3cret',
        "foo[bar]=1;deckhand=s3cret",
        "nom=J\xe9r\xf4me;  deckhand=s3cret ",
        'deckhand="s3cret"',
        "deckhand=s3cret; deckhand=other",
    ],
)
def test_a_session_is_found_whatever_cookies_of_others_stand_beside_it(cookies: str) -> None:
    assert session_secret(request(cookie=cookies), "deckhand") == "s3cret"


@pytest.mark.parametrize("space", ["\u00a0", "\u0085", "\u2000", "\u3000", "\x1c", "\x0b", "\x0c"])
def test_no_other_space_makes_a_name_ours_that_browsers_did_not_guard(space: str) -> None:
    cookies = f"{space}__Host-deckhand=planted; __Host-deckhand{space}=planted; __Host-deckhand=s3cret"
    assert session_secret(request(cookie=cookies), "__Host-deckhand") == "s3cret"


@pytest.mark.parametrize(
    "cookies", ["", "deckhand", "deckhand=", "Deckhand=s", "xdeckhand=s", "x=deckhand=s", "deckhand=" + "s" * 201]
)
def test_what_is_no_session_cookie_opens_nothing(cookies: str) -> None:
    assert session_secret(request(cookie=cookies), "deckhand") is None
