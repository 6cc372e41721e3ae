"""What may happen once happens once, whoever else tries at the same time: on both engines."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest

from deckhand.domain.account import Account, Credential
from deckhand.domain.errors import DeckhandError
from deckhand.storage.accounts import Accounts, Edit
from deckhand.storage.attempts import ATTEMPTS, Attempts
from deckhand.storage.port import ItemStore
from deckhand.storage.sqlite import SqliteStore
from tests.people import ENROL_CODE, Browser, Deployment
from tests.stores import Clock, DynamoTables, make_tables, new_token

RACERS = 6


@pytest.fixture(params=["sqlite", "ministack"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[ItemStore]:
    if request.param == "sqlite":
        with closing(SqliteStore(tmp_path / "store.db", now=clock)) as made:
            yield made
        return
    shared: DynamoTables = request.getfixturevalue("ministack_tables")
    # Tables of its own: there is one first owner in each.
    yield make_tables(shared.client).store(clock)


@pytest.fixture
def deployment(store: ItemStore, clock: Clock) -> Deployment:
    return Deployment(store, clock)


def at_once(steps: Sequence[Callable[[], int]]) -> list[int]:
    """What each gives, lowest first."""
    start = Barrier(len(steps))

    def run(step: Callable[[], int]) -> int:
        start.wait(timeout=30)
        return step()

    with ThreadPoolExecutor(len(steps)) as pool:
        return sorted(pool.map(run, steps))


def posting(browser: Browser, path: str, body: object) -> Callable[[], int]:
    return lambda: browser("POST", path, body).status


def test_one_assertion_signs_in_once(deployment: Deployment) -> None:
    owner = deployment.owner()
    answer = owner.device.get(owner.sign_in_options())
    browsers = [deployment.browser(f"203.0.113.{n}") for n in range(RACERS)]
    with deployment.on_time():
        statuses = at_once([posting(browser, "/auth/login/verify", answer) for browser in browsers])
    assert statuses == [200] + [401] * (RACERS - 1)
    assert sum(browser.signed_in for browser in browsers) == 1


def test_several_devices_of_a_user_sign_in_at_once(deployment: Deployment) -> None:
    owner = deployment.owner()
    browsers = [deployment.browser(f"203.0.113.{n}") for n in range(3)]
    for browser in browsers:
        browser.device = owner.device
    answers = [browser.device.get(browser.sign_in_options()) for browser in browsers]
    with deployment.on_time():
        statuses = at_once(
            [posting(one, "/auth/login/verify", answer) for one, answer in zip(browsers, answers, strict=True)]
        )
    assert statuses == [200] * 3
    assert all(browser.signed_in for browser in browsers)


def test_one_recovery_code_signs_in_once(deployment: Deployment) -> None:
    code = deployment.owner()("POST", "/api/recovery-codes").body["codes"][0]
    browsers = [deployment.browser(f"203.0.113.{n}") for n in range(RACERS)]
    with deployment.on_time():
        statuses = at_once([posting(browser, "/auth/login/recovery", {"code": code}) for browser in browsers])
    assert statuses == [200] + [401] * (RACERS - 1)


def test_one_invite_lets_one_in_and_one_code_makes_one_owner(deployment: Deployment) -> None:
    def race(code: str) -> list[int]:
        browsers = [deployment.browser(f"203.0.113.{n}") for n in range(RACERS)]
        asked = [one("POST", "/auth/register/options", {"invite": code}).body for one in browsers]
        made = [one.device.create(options) for one, options in zip(browsers, asked, strict=True)]
        with deployment.on_time():
            return at_once(
                [posting(one, "/auth/register/verify", answer) for one, answer in zip(browsers, made, strict=True)]
            )

    assert race(ENROL_CODE) == [201] + [401] * (RACERS - 1)
    assert len(Accounts(deployment.store, "main", new_id=new_token).all()) == 1


def test_two_owners_cannot_end_each_other_at_once(deployment: Deployment) -> None:
    owner = deployment.owner()
    other = deployment.guest(owner, "owner")
    other_id = other.user

    def demoting(browser: Browser, user: str) -> Callable[[], int]:
        return lambda: browser("PATCH", f"/api/users/{user}", {"role": "viewer"}).status

    with deployment.on_time():
        statuses = at_once([demoting(owner, other_id), demoting(other, "owner")])
    assert statuses[0] == 200
    left = [one.account for one in Accounts(deployment.store, "main", new_id=new_token).all() if one.account.rules]
    assert len(left) == 1


def test_a_session_that_opens_while_the_role_changes_has_the_new_role_or_is_gone(deployment: Deployment) -> None:
    owner = deployment.owner()
    guest = deployment.guest(owner, "editor")
    user = guest.user
    answer = guest.device.get(guest.sign_in_options())
    with deployment.on_time():
        at_once(
            [
                posting(guest, "/auth/login/verify", answer),
                lambda: owner("PATCH", f"/api/users/{user}", {"role": "viewer"}).status,
            ]
        )
    assert guest("GET", "/auth/status").body.get("user", {}).get("role") in (None, "viewer")


def test_ten_tries_are_ten_however_they_come(store: ItemStore, clock: Clock) -> None:
    attempts = Attempts(store, "main", now=clock, new_id=new_token)

    def attempt() -> int:
        try:
            attempts.count("somebody")
        except DeckhandError:
            return 429
        return 200

    statuses = at_once([attempt] * (ATTEMPTS + 4))
    assert statuses.count(200) <= ATTEMPTS
    while attempt() == 200:
        statuses.append(200)
    assert statuses.count(200) == ATTEMPTS


def test_changes_of_one_account_at_once_are_all_kept(store: ItemStore) -> None:
    accounts = Accounts(store, "main", new_id=new_token)
    accounts.add(Account(id="ann", name="Ann", role="viewer", created_at=0), [])

    def adding(number: int) -> Callable[[], int]:
        fresh = Credential(id=f"c{number}", public_key="k", counter=0, created_at=0)

        def step() -> int:
            accounts.change("ann", lambda account: Edit(account.adding(fresh)))
            return number

        return step

    at_once([adding(number) for number in range(4)])
    found = accounts.find("ann")
    assert found is not None
    assert sorted(one.id for one in found.account.credentials) == ["c0", "c1", "c2", "c3"]
