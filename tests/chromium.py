"""A headless Chromium for tests, with passkey devices made of software."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

WAIT_S = 30
"""Ends a test that hangs; no test waits that long."""
QUIET = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Nothing but the machine itself is there.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
)


@contextmanager
def running_chromium(folder: Path, *arguments: str) -> Iterator[Chrome]:
    """One that keeps everything in `folder`. Skips the test where none is installed; nothing is ever downloaded."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed: apt-get install chromium chromium-driver")
    options = ChromeOptions()
    options.binary_location = browser
    for argument in (*QUIET, f"--user-data-dir={folder / 'profile'}", *arguments):
        options.add_argument(argument)
    service = ChromeService(driver, env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder)})
    chrome = Chrome(options, service)
    try:
        chrome.set_script_timeout(WAIT_S)
        chrome.set_page_load_timeout(WAIT_S)
        yield chrome
    finally:
        chrome.quit()


def told(chrome: Chrome, script: str, *arguments: Any) -> Any:
    """What an asynchronous function of that body gives in the page; `arguments` are its arguments."""
    program = """
        const [script, given, done] = arguments;
        const run = new (Object.getPrototypeOf(async function () {}).constructor)("...given", script);
        run(...given).then(value => done({value}), error => done({error: String(error)}));
    """
    answer: dict[str, Any] = chrome.execute_async_script(program, script, list(arguments))
    assert "error" not in answer, answer["error"]
    return answer.get("value")


class Device:
    """A passkey device of this browser: only one is plugged in at a time."""

    def __init__(self, chrome: Chrome) -> None:
        self._chrome, self._kept = chrome, list[dict[str, Any]]()
        self._id: str | None = None

    def plug_in(self) -> None:
        self._chrome.execute_cdp_cmd("WebAuthn.enable", {})
        options = {
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": True,
            "hasUserVerification": True,
            "isUserVerified": True,
            "automaticPresenceSimulation": True,
        }
        made = self._chrome.execute_cdp_cmd("WebAuthn.addVirtualAuthenticator", {"options": options})
        self._id = made["authenticatorId"]
        for credential in self._kept:
            self._call("addCredential", credential=credential)

    def unplug(self) -> None:
        if self._id is not None:
            self._kept = self._call("getCredentials")["credentials"]
            self._call("removeVirtualAuthenticator")
            self._id = None

    def _call(self, command: str, **given: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._chrome.execute_cdp_cmd(
            f"WebAuthn.{command}", {"authenticatorId": self._id, **given}
        )
        return answer
