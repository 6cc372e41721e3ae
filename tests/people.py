"""A deployment in this process to which people sign in: its identity routes, and the cookies of a browser each."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from unittest.mock import patch

from deckhand.bootstrap import Parts
from deckhand.edge.app import App
from deckhand.settings import read_settings
from deckhand.storage.port import ItemStore
from infra.local.events import Request, proxy_event
from tests.answers import check_answer
from tests.authenticator import Authenticator
from tests.deck import MOMENT
from tests.fakes import FakeQueue
from tests.stores import Clock

ORIGIN = "https://deck.example.test"
ENROL_CODE = "the first owner's code"


@dataclass(frozen=True)
class Answer:
    """`headers` have lower-case names and all their values."""

    status: int
    headers: Mapping[str, list[str]]
    body: Any

    @property
    def refusal(self) -> tuple[int, str]:
        assert isinstance(self.body["error"], str)
        return self.status, self.body["code"]


class Deployment:
    """`clock` is the clock of everything in it, the store's included when it was made with it."""

    def __init__(self, store: ItemStore, clock: Clock, **settings: str) -> None:
        environment = {
            "DECKHAND_SQLITE": "unused",
            "DECKHAND_REPORTS": "/nonexistent",
            "DECKHAND_ORIGINS": ORIGIN,
            "DECKHAND_ENROL_CODE": ENROL_CODE,
            **settings,
        }
        self.store, self.clock = store, clock
        self.parts = Parts(read_settings(environment), store=store)
        self.parts.__dict__["jobs"] = FakeQueue()
        with self.on_time():
            self.identity: App = self.parts.identity_app()
            self.manifests: App = self.parts.manifests_app()

    @contextmanager
    def on_time(self) -> Iterator[None]:
        with patch("time.time", self.clock):
            yield

    def browser(self, address: str = "203.0.113.7", **headers: str) -> "Browser":
        return Browser(self, address, {"Origin": self.parts.settings.deckhand_origins[0], **headers})

    def owner(self) -> "Browser":
        """The first owner, signed in."""
        browser = self.browser()
        answer = browser.enrol(invite=ENROL_CODE, name="Ada")
        assert answer.status == 201, answer
        return browser

    def guest(self, owner: "Browser", role: str, address: str = "203.0.113.8") -> "Browser":
        """Somebody whom the owner invited, signed in."""
        code = owner("POST", "/api/invites", {"role": role}).body["code"]
        browser = self.browser(address)
        answer = browser.enrol(invite=code, name=role.title())
        assert answer.status == 201, answer
        return browser


@dataclass
class Browser:
    """Keeps cookies, and has one passkey authenticator."""

    deployment: Deployment
    address: str
    headers: dict[str, str]
    cookies: dict[str, str] = field(default_factory=dict)
    device: Authenticator = field(default_factory=lambda: Authenticator(ORIGIN))

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """`body` is sent as JSON, `raw` as it is."""
        given = {**self.headers, **(headers or {})}
        if self.cookies:
            given["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        request = Request(
            method=method,
            path=path,
            resource=path,
            headers=list(given.items()),
            body=raw if raw is not None else b"" if body is None else json.dumps(body).encode(),
            source_ip=self.address,
        )
        event = proxy_event(request, request_id="r", now=MOMENT)
        app = self.deployment.manifests if path.startswith("/api/manifests") else self.deployment.identity
        with self.deployment.on_time():
            answer = app(event, None)
        check_answer(method, path, answer["statusCode"], answer["body"])
        found = {name.lower(): values for name, values in answer["multiValueHeaders"].items()}
        for line in found.get("set-cookie", []):
            self._keep(line)
        return Answer(answer["statusCode"], found, json.loads(answer["body"]))

    def enrol(self, **wish: str) -> Answer:
        """Options, then the device's answer to them."""
        options = self("POST", "/auth/register/options", wish)
        if options.status != 200:
            return options
        return self("POST", "/auth/register/verify", self.device.create(options.body))

    def sign_in_options(self) -> Any:
        answer = self("POST", "/auth/login/options")
        assert answer.status == 200, answer
        return answer.body

    def sign_in(self) -> Answer:
        return self("POST", "/auth/login/verify", self.device.get(self.sign_in_options()))

    def sign_out(self) -> Answer:
        return self("POST", "/auth/logout")

    @property
    def signed_in(self) -> bool:
        """Whether a private route answers."""
        status = self("GET", "/api/manifests").status
        assert status in (200, 401)
        return status == 200

    @property
    def user(self) -> str:
        found: str = self("GET", "/auth/status").body["user"]["id"]
        return found

    def _keep(self, line: str) -> None:
        for name, cookie in SimpleCookie(line).items():
            self.cookies.pop(name, None)
            if cookie["max-age"] != "0":
                self.cookies[name] = cookie.value
