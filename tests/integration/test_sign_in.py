"""Signing in over events of API Gateway: passkeys, sessions, invites, recovery codes (seed 002, api.md section 6)."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain.account import MAX_SESSIONS, Account
from deckhand.domain.base64url import from_base64, to_base64url
from deckhand.storage.accounts import Accounts, Edit
from deckhand.storage.attempts import ATTEMPTS
from deckhand.storage.port import ItemStore
from deckhand.storage.sqlite import SqliteStore
from tests.authenticator import Authenticator
from tests.people import ENROL_CODE, ORIGIN, Browser, Deployment
from tests.stores import Clock

FAILED = (401, "sign_in_failed")
DAY_S = 24 * 3600


# -- the first owner


def test_the_first_owner_enrols_with_the_code_and_is_signed_in(deployment: Deployment) -> None:
    browser = deployment.browser()
    assert browser("GET", "/auth/status").body == {"signedIn": False, "enrolled": False}
    answer = browser.enrol(invite=ENROL_CODE, name="Ada")
    assert (answer.status, answer.body["user"]) == (201, {"id": "owner", "name": "Ada", "role": "owner"})
    assert answer.body["credential"]["id"] == browser.device.id
    assert browser.signed_in
    status = browser("GET", "/auth/status").body
    assert status == {"signedIn": True, "enrolled": True, "user": {"id": "owner", "name": "Ada", "role": "owner"}}


def test_once_there_is_an_owner_their_code_is_not_even_asked_for_a_passkey(deployment: Deployment) -> None:
    deployment.owner()
    answer = deployment.browser()("POST", "/auth/register/options", {"invite": ENROL_CODE})
    assert answer.refusal == (401, "sign_in_failed")


def test_the_first_owners_code_lets_in_nobody_else(deployment: Deployment) -> None:
    deployment.owner()
    assert deployment.browser().enrol(invite=ENROL_CODE).refusal == FAILED


def test_of_two_who_have_the_first_owners_code_one_becomes_the_owner(deployment: Deployment) -> None:
    first, second = deployment.browser(), deployment.browser()
    asked = [one("POST", "/auth/register/options", {"invite": ENROL_CODE}).body for one in (first, second)]
    answers = [
        one("POST", "/auth/register/verify", one.device.create(options))
        for one, options in zip((first, second), asked, strict=True)
    ]
    assert answers[0].status == 201
    assert answers[1].refusal == FAILED
    assert not second.signed_in


@pytest.mark.parametrize("wish", [{}, {"invite": "wrong"}, {"invite": ENROL_CODE + "x"}])
def test_without_the_code_nobody_enrols(deployment: Deployment, wish: dict[str, str]) -> None:
    assert deployment.browser()("POST", "/auth/register/options", wish).refusal == FAILED


def test_without_a_code_in_the_settings_no_code_enrols(clocked_store: ItemStore, clock: Clock) -> None:
    deployment = Deployment(clocked_store, clock, DECKHAND_ENROL_CODE="")
    assert deployment.browser()("POST", "/auth/register/options", {"invite": ""}).status == 422
    assert deployment.browser()("POST", "/auth/register/options", {"invite": "None"}).refusal == FAILED


def test_options_ask_for_a_verified_person_and_a_passkey_that_needs_no_name(deployment: Deployment) -> None:
    options = deployment.browser()("POST", "/auth/register/options", {"invite": ENROL_CODE, "name": "Ada"}).body
    selection = options["authenticatorSelection"]
    assert (selection["userVerification"], selection["residentKey"]) == ("required", "required")
    assert (options["rp"]["id"], options["user"]["name"]) == ("deck.example.test", "Ada")
    assert len(from_base64(options["challenge"]) or b"") == 32
    asked = deployment.browser()("POST", "/auth/login/options").body
    assert (asked["userVerification"], asked["rpId"]) == ("required", "deck.example.test")
    assert not asked.get("allowCredentials")


# -- signing in


def test_a_passkey_signs_in_again_after_signing_out(deployment: Deployment) -> None:
    owner = deployment.owner()
    kept = dict(owner.cookies)
    assert owner.sign_out().status == 200
    assert not owner.cookies
    owner.cookies = kept
    assert not owner.signed_in, "the session is gone on the server, too"
    owner.cookies = {}
    answer = owner.sign_in()
    assert (answer.status, answer.body) == (200, {"user": {"id": "owner", "name": "Ada", "role": "owner"}})
    assert owner.signed_in


@pytest.mark.parametrize("body", [b"", b"null", b"{}"])
def test_signing_out_takes_no_body(deployment: Deployment, body: bytes) -> None:
    owner = deployment.owner()
    assert owner("POST", "/auth/logout", raw=body).status == 200
    assert not owner.signed_in


def test_signing_out_ends_this_session_only(deployment: Deployment) -> None:
    owner = deployment.owner()
    elsewhere = deployment.browser()
    elsewhere.device = owner.device
    assert elsewhere.sign_in().status == 200
    owner.sign_out()
    assert (owner.signed_in, elsewhere.signed_in) == (False, True)


def test_two_people_sign_in_at_once(deployment: Deployment) -> None:
    owner = deployment.owner()
    guest = deployment.guest(owner, "viewer")
    first, second = owner.sign_in_options(), guest.sign_in_options()
    assert guest("POST", "/auth/login/verify", guest.device.get(second)).body["user"]["name"] == "Viewer"
    assert owner("POST", "/auth/login/verify", owner.device.get(first)).body["user"]["name"] == "Ada"


def test_case_68_an_assertion_that_is_sent_again_is_refused(deployment: Deployment) -> None:
    owner = deployment.owner()
    answer = owner.device.get(owner.sign_in_options())
    assert owner("POST", "/auth/login/verify", answer).status == 200
    stranger = deployment.browser()
    assert stranger("POST", "/auth/login/verify", answer).refusal == FAILED
    assert not stranger.cookies


def test_a_challenge_is_spent_by_an_attempt_that_fails(deployment: Deployment) -> None:
    owner = deployment.owner()
    options = owner.sign_in_options()
    unverified = Authenticator(
        ORIGIN, verifies=False, credential_id=owner.device.credential_id, key=owner.device.key, user=owner.device.user
    )
    assert owner("POST", "/auth/login/verify", unverified.get(options)).refusal == FAILED
    assert owner("POST", "/auth/login/verify", owner.device.get(options)).refusal == FAILED


def test_a_challenge_lasts_five_minutes(deployment: Deployment, clock: Clock) -> None:
    owner = deployment.owner()
    early, late = owner.sign_in_options(), owner.sign_in_options()
    clock.time += 299
    assert owner("POST", "/auth/login/verify", owner.device.get(early)).status == 200
    clock.time += 1
    assert owner("POST", "/auth/login/verify", owner.device.get(late)).refusal == FAILED


def test_a_challenge_of_one_ceremony_is_none_for_the_other(deployment: Deployment) -> None:
    owner = deployment.owner()
    for_sign_in = owner.sign_in_options()
    enrolment = owner("POST", "/auth/register/options", {}).body
    assert owner("POST", "/auth/login/verify", owner.device.get({**for_sign_in, **_only(enrolment)})).refusal == FAILED
    second = Authenticator(ORIGIN)
    crossed = second.create({**enrolment, **_only(for_sign_in)})
    assert owner("POST", "/auth/register/verify", crossed).refusal == FAILED


def _only(options: dict[str, Any]) -> dict[str, Any]:
    return {"challenge": options["challenge"]}


@pytest.mark.parametrize(
    ("stored", "new", "passes"), [(0, 0, True), (0, 1, True), (5, 6, True), (5, 5, False), (5, 0, False)]
)
def test_case_66_a_counter_that_is_in_use_must_rise(
    deployment: Deployment, stored: int, new: int, *, passes: bool
) -> None:
    owner = deployment.browser()
    owner.device.counter = stored
    assert owner.enrol(invite=ENROL_CODE).status == 201
    owner.device.counter = new
    answer = owner.sign_in()
    assert answer.status == 200 if passes else answer.refusal == FAILED


@pytest.mark.parametrize(
    "origin",
    [
        "https://deck.example.test:8443",
        "https://deck.example.test.evil.test",
        "http://deck.example.test",
        "https://DECK.example.test",
        "https://evil.test",
        "null",
    ],
)
def test_case_67_a_page_of_another_origin_is_refused_whatever_the_request_says(
    deployment: Deployment, origin: str
) -> None:
    owner = deployment.owner()
    owner.device.origin = origin
    forged = {"Host": "evil.test", "X-Forwarded-Host": "evil.test", "X-Forwarded-Proto": "https"}
    options = owner.sign_in_options()
    assert owner("POST", "/auth/login/verify", owner.device.get(options), headers=forged).refusal == FAILED


def test_case_67_the_origin_of_the_request_plays_no_part_in_what_a_passkey_proves(deployment: Deployment) -> None:
    owner = deployment.owner()
    options = owner("POST", "/auth/login/options", headers={"Host": "evil.test"}).body
    assert options["rpId"] == "deck.example.test"
    assert owner("POST", "/auth/login/verify", owner.device.get(options), headers={"Host": "evil.test"}).status == 200


Tamper = Callable[[Browser], None]


def _frame(browser: Browser) -> None:
    browser.device.cross_origin = True


def _unverified(browser: Browser) -> None:
    browser.device.verifies = False


def _other_party(browser: Browser) -> None:
    browser.device.rp_id = "evil.test"


def _other_key(browser: Browser) -> None:
    browser.device.key = Authenticator(ORIGIN).key


def _other_id(browser: Browser) -> None:
    browser.device.credential_id = b"unknown"


def _other_user(browser: Browser) -> None:
    browser.device.user = b"somebody else"


@pytest.mark.parametrize(
    "tamper", [_frame, _unverified, _other_party, _other_key, _other_id, _other_user], ids=lambda found: found.__name__
)
def test_whatever_is_wrong_is_the_same_refusal(deployment: Deployment, tamper: Tamper) -> None:
    owner = deployment.owner()
    owner.sign_out()
    tamper(owner)
    answer = owner.sign_in()
    assert answer.refusal == FAILED
    assert answer.body["error"] == "This did not work. Try again, or with another passkey."
    assert not owner.cookies


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """`act` comes between the proof of the next one who signs in and what is written for it."""
    real = Accounts.change

    def change(self: Accounts, user: str, edit: Callable[[Account], Edit]) -> Account:
        monkeypatch.setattr(Accounts, "change", real)
        act()
        return real(self, user, edit)

    monkeypatch.setattr(Accounts, "change", change)


def test_case_66_of_two_with_one_count_the_second_is_refused(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a copy of the device would have it."""
    owner, thief = deployment.owner(), deployment.browser()
    owner.device.counter = 5
    thief.device = replace(owner.device)
    stolen, own = thief.device.get(thief.sign_in_options()), owner.device.get(owner.sign_in_options())
    statuses = []
    meanwhile(monkeypatch, lambda: statuses.append(owner("POST", "/auth/login/verify", own).status))
    assert thief("POST", "/auth/login/verify", stolen).refusal == (401, "sign_in_failed")
    assert statuses == [200]


def test_of_two_with_one_recovery_code_the_second_is_refused(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, thief = deployment.owner(), deployment.browser()
    code = {"code": owner("POST", "/api/recovery-codes").body["codes"][0]}
    statuses = []
    meanwhile(monkeypatch, lambda: statuses.append(owner("POST", "/auth/login/recovery", code).status))
    assert thief("POST", "/auth/login/recovery", code).refusal == (401, "sign_in_failed")
    assert statuses == [200]


def test_an_empty_bearer_is_not_rescued_by_a_session(deployment: Deployment) -> None:
    owner = deployment.owner()
    for header in ("", " ", "Bearer", "Bearer "):
        answer = owner("GET", "/api/credentials", headers={"Authorization": header})
        assert answer.refusal == (401, "unauthenticated")


@pytest.mark.parametrize("tamper", [_frame, _unverified, _other_party], ids=lambda found: found.__name__)
def test_a_new_passkey_is_checked_as_strictly(deployment: Deployment, tamper: Tamper) -> None:
    browser = deployment.browser()
    tamper(browser)
    assert browser.enrol(invite=ENROL_CODE).refusal == FAILED
    assert not browser("GET", "/auth/status").body["enrolled"]


def test_case_68_an_id_is_known_in_every_form_of_base64(deployment: Deployment) -> None:
    owner = deployment.browser()
    owner.device.credential_id = bytes.fromhex("fbfffbfffe") * 4
    assert owner.enrol(invite=ENROL_CODE).status == 201
    plain = owner.device.id
    assert "-" in plain or "_" in plain
    padded = plain + "=" * (-len(plain) % 4)
    standard = padded.replace("-", "+").replace("_", "/")
    for form in (plain, padded, standard, standard.rstrip("=")):
        answer = owner.device.get(owner.sign_in_options())
        assert owner("POST", "/auth/login/verify", {**answer, "id": form, "rawId": form}).status == 200
    answer = owner.device.get(owner.sign_in_options())
    assert owner("POST", "/auth/login/verify", {**answer, "id": to_base64url(b"other")}).refusal == FAILED


@pytest.mark.parametrize("path", ["/auth/login/verify", "/auth/register/verify"])
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"id": 1, "rawId": None, "response": []},
        {"id": "a", "rawId": "a", "type": "public-key", "response": {"clientDataJSON": "e30"}},
        {"id": "a", "rawId": "a", "type": "public-key", "response": {"clientDataJSON": "W10"}},
        {"id": "a", "rawId": "a", "type": "public-key", "response": {"clientDataJSON": "ï"}},
    ],
)
def test_what_is_no_passkey_at_all_is_refused_alike(deployment: Deployment, path: str, body: dict[str, Any]) -> None:
    assert deployment.browser()("POST", path, body).refusal == FAILED


# -- more devices


def test_a_second_device_is_added_while_signed_in_and_signs_in(deployment: Deployment) -> None:
    owner = deployment.owner()
    first = owner.device
    owner.device = Authenticator(ORIGIN)
    answer = owner.enrol(name="phone")
    assert (answer.status, answer.body["credential"]["nickname"]) == (201, "phone")
    assert "set-cookie" not in answer.headers, "the session that is open goes on"
    owner.sign_out()
    for device in (first, owner.device):
        owner.device = device
        assert owner.sign_in().status == 200


def test_options_for_a_second_device_name_those_that_are_there(deployment: Deployment) -> None:
    owner = deployment.owner()
    options = owner("POST", "/auth/register/options", {}).body
    assert [one["id"] for one in options["excludeCredentials"]] == [owner.device.id]
    assert options["user"]["id"] == to_base64url(b"owner")


def test_a_passkey_belongs_to_one_user_only(deployment: Deployment) -> None:
    owner = deployment.owner()
    guest = deployment.guest(owner, "viewer")
    guest.device = owner.device
    assert guest.enrol().refusal == FAILED
    owner.sign_out()
    owner.device.user = b"owner"
    assert owner.sign_in().body["user"]["id"] == "owner"


def test_a_passkey_that_is_there_is_not_added_again(deployment: Deployment) -> None:
    owner = deployment.owner()
    assert owner.enrol(name="again").refusal == FAILED
    assert len(owner("GET", "/api/credentials").body["credentials"]) == 1


def test_a_second_device_needs_the_session_that_asked_for_it(deployment: Deployment) -> None:
    owner = deployment.owner()
    guest = deployment.guest(owner, "viewer")
    options = owner("POST", "/auth/register/options", {}).body
    for browser in (guest, deployment.browser()):
        assert browser("POST", "/auth/register/verify", Authenticator(ORIGIN).create(options)).refusal == FAILED


def test_removing_a_device_ends_the_sessions_that_it_opened_and_no_others(deployment: Deployment) -> None:
    owner = deployment.owner()
    first = owner.device
    phone = deployment.browser()
    owner.device = phone.device
    assert owner.enrol(name="phone").status == 201
    assert phone.sign_in().status == 200
    assert owner("DELETE", f"/api/credentials/{phone.device.id}").body == {"ok": True}
    assert (phone.signed_in, owner.signed_in) == (False, True)
    phone.cookies = {}
    assert phone.sign_in().refusal == FAILED
    assert [one["id"] for one in owner("GET", "/api/credentials").body["credentials"]] == [first.id]


def test_a_removed_passkey_can_be_enrolled_again(deployment: Deployment) -> None:
    owner = deployment.owner()
    first, owner.device = owner.device, Authenticator(ORIGIN)
    owner.enrol()
    assert owner.sign_in().status == 200
    assert owner("DELETE", f"/api/credentials/{first.id}").status == 200
    owner.device = first
    assert owner.enrol(name="again").status == 201


def test_a_user_has_at_most_twenty_passkeys(deployment: Deployment, clock: Clock) -> None:
    owner = deployment.owner()
    for _ in range(19):
        clock.time += 60
        owner.device = Authenticator(ORIGIN)
        assert owner.enrol().status == 201
    clock.time += 60
    owner.device = Authenticator(ORIGIN)
    assert owner.enrol().refusal == (409, "too_many_credentials")


# -- sessions


def test_a_session_ends_after_seven_idle_days(deployment: Deployment, clock: Clock) -> None:
    owner = deployment.owner()
    clock.time += 7 * DAY_S - 1
    assert owner.signed_in
    clock.time += 7 * DAY_S - 1
    assert owner.signed_in, "it was used in between"
    clock.time += 7 * DAY_S
    assert not owner.signed_in


def test_a_session_ends_after_thirty_days_however_much_it_is_used(deployment: Deployment, clock: Clock) -> None:
    owner = deployment.owner()
    for _ in range(29):
        clock.time += DAY_S
        assert owner.signed_in
    clock.time += DAY_S
    assert not owner.signed_in


def test_a_user_has_at_most_thirty_sessions_and_the_oldest_ends(deployment: Deployment, clock: Clock) -> None:
    owner = deployment.owner()
    browsers = [owner]
    for _ in range(MAX_SESSIONS):
        clock.time += 60
        browsers.append(deployment.browser())
        browsers[-1].device = owner.device
        assert browsers[-1].sign_in().status == 200
    assert [browser.signed_in for browser in browsers] == [False] + [True] * MAX_SESSIONS


def test_the_cookie_is_out_of_reach_of_scripts_other_hosts_and_other_sites(deployment: Deployment) -> None:
    (line,) = deployment.browser().enrol(invite=ENROL_CODE).headers["set-cookie"]
    name, _, rest = line.partition("=")
    assert name == "__Host-deckhand"
    assert {part.strip() for part in rest.split(";")[1:]} == {
        "Path=/",
        "HttpOnly",
        "Secure",
        "SameSite=Lax",
        "Max-Age=2592000",
    }
    assert len(from_base64(rest.partition(";")[0]) or b"") == 32


def test_without_https_the_cookie_has_a_name_and_form_that_browsers_take(
    clocked_store: ItemStore, clock: Clock
) -> None:
    deployment = Deployment(clocked_store, clock, DECKHAND_ORIGINS="http://localhost:8787")
    browser = deployment.browser()
    browser.device.origin = "http://localhost:8787"
    (line,) = browser.enrol(invite=ENROL_CODE).headers["set-cookie"]
    assert line.startswith("deckhand=")
    assert "Secure" not in line
    assert browser.signed_in


@pytest.mark.parametrize("origin", [None, "https://evil.test", "null", f"{ORIGIN}.evil.test", f"{ORIGIN}:8443"])
def test_a_change_with_the_cookie_must_come_from_a_page_of_ours(deployment: Deployment, origin: str | None) -> None:
    owner = deployment.owner()
    del owner.headers["Origin"]
    if origin is not None:
        owner.headers["Origin"] = origin
    for method, path in (
        ("POST", "/api/invites"),
        ("POST", "/auth/logout"),
        ("POST", "/auth/register/options"),
        ("POST", "/api/manifests"),
    ):
        assert owner(method, path, {}).refusal == (403, "origin_not_allowed")
    assert owner.signed_in, "reading needs none"


def test_another_sites_page_cannot_sign_a_browser_in(deployment: Deployment) -> None:
    owner = deployment.owner()
    victim = deployment.browser(Origin="https://evil.test")
    answer = victim("POST", "/auth/login/verify", owner.device.get(owner.sign_in_options()))
    assert answer.refusal == (403, "origin_not_allowed")
    assert not victim.cookies


def test_without_an_origin_in_the_settings_nobody_signs_in(clocked_store: ItemStore, clock: Clock) -> None:
    deployment = Deployment(clocked_store, clock, DECKHAND_ORIGINS="")
    browser = Browser(deployment, "203.0.113.7", {})
    assert browser("POST", "/auth/login/options").refusal == (503, "not_configured")
    assert browser("GET", "/auth/status").body == {"signedIn": False, "enrolled": False}


def test_nobody_is_signed_in_by_a_token(clocked_store: ItemStore, clock: Clock) -> None:
    deployment = Deployment(clocked_store, clock, AGENT_API_TOKEN="agent")
    deployment.owner()
    agent = deployment.browser(Authorization="Bearer agent")
    assert agent("GET", "/auth/status").body == {"signedIn": False, "enrolled": True}
    assert agent("POST", "/auth/register/options", {}).refusal == FAILED


# -- recovery codes


def codes_of(browser: Browser) -> list[str]:
    answer = browser("POST", "/api/recovery-codes")
    assert answer.status == 201
    found: list[str] = answer.body["codes"]
    return found


def test_each_of_ten_recovery_codes_signs_in_once(deployment: Deployment, clock: Clock) -> None:
    owner = deployment.owner()
    codes = codes_of(owner)
    assert len(set(codes)) == 10
    for code in (codes[0], codes[9]):
        clock.time += 30
        browser = deployment.browser()
        answer = browser("POST", "/auth/login/recovery", {"code": f" {code.lower()} ".replace("-", " ")})
        assert (answer.status, answer.body["user"]["id"], browser.signed_in) == (200, "owner", True)
        clock.time += 30
        assert deployment.browser()("POST", "/auth/login/recovery", {"code": code}).refusal == FAILED
    assert owner("GET", "/api/credentials").body["recoveryCodes"] == 8


def test_new_recovery_codes_void_the_old_ones(deployment: Deployment) -> None:
    owner = deployment.owner()
    old, new = codes_of(owner), codes_of(owner)
    assert deployment.browser()("POST", "/auth/login/recovery", {"code": old[0]}).refusal == FAILED
    assert deployment.browser()("POST", "/auth/login/recovery", {"code": new[0]}).status == 200


@pytest.mark.parametrize(
    "given", [{}, {"code": "AAAA-AAAA-AAAA-AAAA-AAAA-AAAA"}, {"code": "short"}, {"code": "é" * 24}]
)
def test_other_recovery_codes_are_refused(deployment: Deployment, given: dict[str, str]) -> None:
    codes_of(deployment.owner())
    assert deployment.browser()("POST", "/auth/login/recovery", given).refusal == FAILED


def test_a_code_whose_first_part_is_right_is_refused(deployment: Deployment) -> None:
    code = codes_of(deployment.owner())[0]
    wrong = code[:10] + ("AAAA-AAAA-AAAA-AAAA" if not code.endswith("AAAA") else "BBBB-BBBB-BBBB-BBBB")
    assert deployment.browser()("POST", "/auth/login/recovery", {"code": wrong}).refusal == FAILED
    assert deployment.browser()("POST", "/auth/login/recovery", {"code": code}).status == 200


# -- limits


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/auth/login/options", None),
        ("/auth/register/options", {"invite": "x"}),
        ("/auth/login/verify", {}),
        ("/auth/register/verify", {}),
        ("/auth/login/recovery", {"code": "x"}),
    ],
)
def test_an_address_has_ten_tries_a_minute(
    deployment: Deployment, clock: Clock, path: str, body: dict[str, str] | None
) -> None:
    browser, other = deployment.browser("203.0.113.1"), deployment.browser("203.0.113.2")
    for _ in range(ATTEMPTS):
        assert browser("POST", path, body).status != 429
    clock.time += 20
    refused = browser("POST", path, body, headers={"X-Forwarded-For": "198.51.100.1"})
    assert refused.refusal == (429, "rate_limited")
    assert refused.headers["retry-after"] == ["40"]
    assert other("POST", path, body).status != 429
    clock.time += 40
    assert browser("POST", path, body).status != 429


def test_all_addresses_of_a_household_count_as_one(deployment: Deployment) -> None:
    answers = [
        deployment.browser(f"2001:db8:0:1::{number:x}")("POST", "/auth/login/options").status
        for number in range(ATTEMPTS + 1)
    ]
    assert answers == [200] * ATTEMPTS + [429]
    assert deployment.browser("2001:db8:0:2::1")("POST", "/auth/login/options").status == 200


def test_an_account_has_ten_tries_a_minute_from_wherever(deployment: Deployment, clock: Clock) -> None:
    owner = deployment.owner()
    code = codes_of(owner)[0]
    wrong = code[:10] + "AAAA-AAAA-AAAA-AAAA"
    for number in range(ATTEMPTS):
        assert deployment.browser(f"203.0.113.{number}")("POST", "/auth/login/recovery", {"code": wrong}).status == 401
    again = deployment.browser("203.0.113.99")
    assert again("POST", "/auth/login/recovery", {"code": code}).refusal == (429, "rate_limited")
    again.device = owner.device
    assert again.sign_in().refusal == (429, "rate_limited")
    clock.time += 60
    assert again("POST", "/auth/login/recovery", {"code": code}).status == 200


# -- nothing secret gets out


def test_nothing_secret_is_stored_or_logged(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(0)
    guess = "GUES-SGUE-SSGU-ESSG-UESS-GUES"
    with closing(SqliteStore(tmp_path / "store.db", now=clock)) as store:
        owner = Deployment(store, clock).owner()
        invite = owner("POST", "/api/invites", {"role": "viewer"}).body["code"]
        codes = codes_of(owner)
        owner.device.verifies = False
        assert owner.sign_in().refusal == FAILED
        assert owner("POST", "/auth/login/recovery", {"code": guess}).refusal == FAILED
        stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    said = caplog.text + "".join(capfd.readouterr())
    assert b"credentials" in stored
    for secret in (*owner.cookies.values(), invite, *codes, *(code.replace("-", "") for code in codes), ENROL_CODE):
        assert secret.encode() not in stored
        assert secret not in said
    assert guess not in said


# -- whatever is sent


@given(
    cookie=st.one_of(
        st.text(max_size=80),
        st.builds("__Host-deckhand={}".format, st.text(max_size=80)),
        st.builds(
            "{}; __Host-deckhand={}; {}".format, st.text(max_size=20), st.text(max_size=60), st.text(max_size=20)
        ),
    )
)
@hypothesis.settings(
    max_examples=300,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
def test_no_cookie_that_is_made_up_opens_anything_or_makes_anything_fail(deployment: Deployment, cookie: str) -> None:
    stranger = deployment.browser(Cookie=cookie)
    assert stranger("GET", "/api/manifests").status in (401, 503)
    assert stranger("POST", "/auth/logout").status == 200
