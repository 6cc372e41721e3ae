"""A reminder from the laptop stack to a notification in a browser.

Chromium takes pushes from its maker's service only, which is out of reach here: `pushManager.subscribe()` asks it and
does not end (Chromium 156, tried for 40 s). So the push goes to a push service of the test's own, is decrypted there
as a browser would, and is handed to Chromium's service worker by its debugger.
"""

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome

from tests.deck import manifest
from tests.integration.test_push_delivery import REMINDERS
from tests.laptop import Laptop, until
from tests.push_service import PushService

PAGE = Path(__file__).parent / "push_page"
GENERIC = {"title": "Deckhand", "body": "You have a reminder.", "tag": "", "navigate": "/"}
FIRST_REGISTRATION = "0"
"""The id that Chromium gives to the first service worker of a fresh profile."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


class Browser:
    """A page with its service worker, allowed to notify."""

    def __init__(self, driver: Chrome, origin: str) -> None:
        self._driver, self._origin = driver, origin
        granted = {"origin": origin, "permissions": ["notifications"]}
        driver.execute_cdp_cmd("Browser.grantPermissions", granted)
        driver.get(f"{origin}/index.html")
        self._run("const [done] = arguments; clear().then(done);")
        driver.execute_cdp_cmd("ServiceWorker.enable", {})
        self._pushes = 0

    def push(self, data: str) -> None:
        """Returns when the worker has shown something for it."""
        given = {"origin": self._origin, "registrationId": FIRST_REGISTRATION, "data": data}
        self._driver.execute_cdp_cmd("ServiceWorker.deliverPushMessage", given)
        self._pushes += 1
        until(lambda: self._driver.execute_script("return pushes") == self._pushes)

    def shown(self) -> list[dict[str, Any]]:
        """The notifications that are there, newest first."""
        found: list[dict[str, Any]] = self._run("const [done] = arguments; shown().then(done);")
        return found

    def _run(self, script: str) -> Any:
        return self._driver.execute_async_script(script)


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """Where the pages are."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(PAGE)))
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    try:
        yield f"http://localhost:{server.server_address[1]}"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


@pytest.fixture
def browser(chrome: Chrome, origin: str) -> Browser:
    return Browser(chrome, origin)


def test_a_reminder_that_the_stack_fires_is_shown(browser: Browser, tmp_path: Path) -> None:
    allowed = {"DECKHAND_PUSH_ALLOW_LOOPBACK": "1"}
    laptop = Laptop(tmp_path, "http://127.0.0.1:1/v1/chat/completions", settings=allowed)
    with PushService() as service:
        phone = service.device("phone")
        try:
            with laptop.start().api() as api:
                assert len(api.call("GET", "/api/push/vapid-public-key")["keyId"]) == 8
                api.call("POST", "/api/manifests", manifest("weight", notifications={"items": REMINDERS}))
                api.call("POST", "/api/push/subscribe", phone.body)
                api.call("POST", "/api/notifications/test", {"id": "weight#am"})
                until(lambda: status(api, "weight#am") == "sent")
        finally:
            laptop.end()
    (taken,) = phone.received
    browser.push(taken.text.decode())
    (note,) = browser.shown()
    assert (note["title"], note["body"], note["tag"]) == ("Weigh in", "Step on the scale", taken.headers["topic"])
    assert note["navigate"].endswith("/?card=weight")


def status(api: Any, reminder: str) -> str | None:
    for one in api.call("GET", "/api/notifications")["notifications"]:
        if one["id"] == reminder:
            found: str | None = one["last_fire_status"]
            return found
    return None


def test_case_64_the_worker_shows_a_notification_for_every_push(browser: Browser) -> None:
    """With the page in view, which it is."""
    bad = ("not json", "", json.dumps({"badge": 3}), "null", json.dumps({"notification": {"title": 3}}))
    for count, data in enumerate(bad, start=1):
        browser.push(data)
        assert browser.shown() == [GENERIC] * count


def test_a_second_push_under_the_same_tag_replaces_the_first(browser: Browser) -> None:
    for title in ("First", "Second"):
        browser.push(json.dumps({"web_push": 8030, "notification": {"title": title, "tag": "t1", "navigate": "/"}}))
    assert [note["title"] for note in browser.shown()] == ["Second"]
