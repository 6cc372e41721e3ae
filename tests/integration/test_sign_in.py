"""Signing in over events of API Gateway: passkeys, sessions, invites, recovery codes (seed 002, api.md section 6)."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from deckhand.domain.base64url import from_base64, to_base64url
from deckhand.storage.port import ItemStore
from deckhand.storage.sqlite import SqliteStore
from tests.authenticator import Authenticator
from tests.people import ENROL_CODE, ORIGIN, Browser, Deployment
from tests.stores import Clock

FAILED = (401, "sign_in_failed")
DAY_S = 24 * 3600


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Iterator[ItemStore]:
    with closing(SqliteStore(":memory:", now=clock)) as made:
        yield made


@pytest.fixture
def deployment(store: ItemStore, clock: Clock) -> Deployment:
    return Deployment(store, clock)


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


def test_without_a_code_in_the_settings_no_code_enrols(store: ItemStore, clock: Clock) -> None:
    deployment = Deployment(store, clock, DECKHAND_ENROL_CODE="")
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
