"""The cookie that holds a session's secret, out of reach of scripts and of other sites' requests that change things."""

from aws_lambda_powertools.shared.cookies import Cookie, SameSite

from deckhand.domain.account import SESSION_LIFE_S

HOST_PREFIX = "__Host-"
"""Browsers take such a cookie only over https, for one host and all its paths (RFC 6265bis section 4.1.3.2)."""


def session_cookie(name: str, secret: str) -> Cookie:
    return Cookie(
        name,
        secret,
        path="/",
        secure=name.startswith(HOST_PREFIX),
        http_only=True,
        max_age=SESSION_LIFE_S,
        same_site=SameSite.LAX_MODE,
    )


def no_cookie(name: str) -> Cookie:
    """Makes the browser forget it."""
    return Cookie(
        name,
        "",
        path="/",
        secure=name.startswith(HOST_PREFIX),
        http_only=True,
        max_age=0,
        same_site=SameSite.LAX_MODE,
    )
