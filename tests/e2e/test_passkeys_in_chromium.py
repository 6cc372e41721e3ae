"""Passkeys in a real browser against the laptop stack: what a person does with one device, with two, and without."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from selenium.webdriver import Chrome

from deckhand.storage.attempts import attempts_key
from deckhand.storage.sqlite import SqliteStore
from tests.chromium import Device, told
from tests.laptop import ROOT, Laptop

POST = """
    const post = async (path, body) => {
        const answer = await fetch(path, {method: "POST", body: JSON.stringify(body)});
        return [answer.status, await answer.json()];
    };
"""
ENROL = """
    const [wish] = given;
    const [status, options] = await post("/auth/register/options", wish);
    if (status !== 200) return [status, options];
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
    const made = await navigator.credentials.create({publicKey});
    return await post("/auth/register/verify", made.toJSON());
"""
ASSERTION = """
    const [, options] = await post("/auth/login/options");
    const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options);
    return (await navigator.credentials.get({publicKey})).toJSON();
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    laptop = Laptop(tmp_path_factory.mktemp("stack"), "http://127.0.0.1:9/v1/chat/completions")
    try:
        yield laptop.start()
    finally:
        laptop.end()


@dataclass
class Person:
    """At the stack's own address, in a browser without cookies."""

    chrome: Chrome
    stack: Laptop
    device: Device = field(init=False)

    def __post_init__(self) -> None:
        self.chrome.get(self.origin + "/healthz")
        self.chrome.delete_all_cookies()
        self.device = Device(self.chrome)
        self.device.plug_in()

    @property
    def origin(self) -> str:
        return self.stack.url.replace("127.0.0.1", "localhost")

    def enrol(self, **wish: str) -> tuple[int, Any]:
        status, body = self._run(ENROL, wish)
        return status, body

    def enrol_as_owner(self) -> dict[str, Any]:
        """With a code of `deckhand enrol`; the answer."""
        command = [sys.executable, "-m", "infra.local.command", "enrol", "--data", str(self.stack.data)]
        code = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
        status, body = self.enrol(invite=code, name="Ada")
        assert status == 201, body
        made: dict[str, Any] = body
        return made

    def assertion(self) -> dict[str, Any]:
        made: dict[str, Any] = self._run(ASSERTION)
        return made

    def post(self, path: str, body: Any = None) -> tuple[int, Any]:
        status, answer = self._run("return await post(...given);", path, body)
        return status, answer

    def sign_in(self) -> tuple[int, Any]:
        return self.post("/auth/login/verify", self.assertion())

    @property
    def user(self) -> str | None:
        found: str | None = self._run('return (await (await fetch("/auth/status")).json()).user?.id ?? null;')
        return found

    def status_of(self, method: str, path: str) -> int:
        script = "const [method, path] = given; return (await fetch(path, {method})).status;"
        status: int = self._run(script, method, path)
        return status

    @contextmanager
    def other_device(self) -> Iterator[Device]:
        """In place of the own one, for the block."""
        self.device.unplug()
        other = Device(self.chrome)
        other.plug_in()
        try:
            yield other
        finally:
            other.unplug()
            self.device.plug_in()

    def _run(self, script: str, *given: Any) -> Any:
        return told(self.chrome, POST + script, *given)


@pytest.fixture
def person(chrome: Chrome, stack: Laptop) -> Iterator[Person]:
    """Of all that try from this machine the first, as the limit sees it: no test waits for a minute to pass."""
    with closing(SqliteStore(stack.data / "deckhand.sqlite3", now=time.time)) as store:
        store.delete_many([attempts_key("main", what) for what in ("ask 127.0.0.1", "try 127.0.0.1", "account owner")])
    made = Person(chrome, stack)
    yield made
    made.device.unplug()


def test_the_owner_enrols_signs_out_and_signs_in_again(person: Person) -> None:
    assert person.enrol_as_owner()["user"]["id"] == "owner"
    assert person.user == "owner"
    assert person.status_of("GET", "/api/manifests") == 200
    assert person.post("/auth/logout")[0] == 200
    assert person.status_of("GET", "/api/manifests") == 401
    assert person.sign_in()[0] == 200
    assert person.user == "owner"


def test_scripts_cannot_read_the_cookie(person: Person) -> None:
    person.enrol_as_owner()
    assert told(person.chrome, "return document.cookie;") == ""
    (cookie,) = person.chrome.get_cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("deckhand", True, "Lax")


def test_a_second_device_signs_in_until_it_is_revoked(person: Person) -> None:
    person.enrol_as_owner()
    with person.other_device():
        status, body = person.enrol(name="phone")
        assert status == 201
        person.post("/auth/logout")
        assert person.sign_in()[0] == 200
        lost = person.assertion()
    assert lost["id"] == body["credential"]["id"]
    phones_cookies = person.chrome.get_cookies()
    person.chrome.delete_all_cookies()
    assert person.sign_in()[0] == 200
    assert person.status_of("DELETE", f"/api/credentials/{lost['id']}") == 200
    assert person.user == "owner", "the device at hand opened this session"
    assert person.post("/auth/login/verify", lost)[0] == 401
    person.chrome.delete_all_cookies()
    for cookie in phones_cookies:
        person.chrome.add_cookie(cookie)
    assert person.user is None, "the session of the lost device is gone"


def test_a_sent_assertion_that_is_sent_again_is_refused(person: Person) -> None:
    person.enrol_as_owner()
    person.post("/auth/logout")
    captured = person.assertion()
    assert person.post("/auth/login/verify", captured)[0] == 200
    person.post("/auth/logout")
    status, body = person.post("/auth/login/verify", captured)
    assert (status, body["code"], person.user) == (401, "sign_in_failed", None)


def test_an_invited_person_comes_in_by_a_passkey_of_their_own(person: Person) -> None:
    person.enrol_as_owner()
    _, invite = person.post("/api/invites", {"role": "viewer"})
    person.chrome.delete_all_cookies()
    with person.other_device():
        status, body = person.enrol(invite=invite["code"], name="Grace")
        assert (status, body["user"]["name"], body["user"]["role"]) == (201, "Grace", "viewer")
        assert person.status_of("GET", "/api/users") == 403
