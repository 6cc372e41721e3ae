"""`deckhand enrol`: the laptop's owner comes in, and comes in again after losing every device."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from deckhand.storage.sqlite import SqliteStore
from infra.local.command import main
from infra.local.data_folder import DATABASE
from tests.authenticator import Authenticator
from tests.people import ORIGIN, Deployment
from tests.stores import Clock


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data folder of a stack that was started once."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / DATABASE).touch()
    return folder


@pytest.fixture
def deployment(data: Path) -> Iterator[Deployment]:
    # Codes of the command count by the real clock: this one is behind it, and far ahead of their end when told.
    clock = Clock(0)
    with closing(SqliteStore(data / DATABASE, now=clock)) as store:
        yield Deployment(store, clock, DECKHAND_ENROL_CODE="")


def enrolment_code(data: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["enrol", "--data", str(data)]) == 0
    return capsys.readouterr().out.strip()


def test_the_code_makes_an_owner_and_later_adds_a_device_to_them(
    deployment: Deployment, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = deployment.browser()
    assert first.enrol(invite=enrolment_code(data, capsys), name="Ada").body["user"]["role"] == "owner"
    again = deployment.browser()
    told = again.enrol(invite=enrolment_code(data, capsys), name="somebody else").body["user"]
    assert told == {"id": "owner", "name": "Ada", "role": "owner"}
    assert again.signed_in
    assert len(again("GET", "/api/credentials").body["credentials"]) == 2


def test_a_code_works_once(deployment: Deployment, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = enrolment_code(data, capsys)
    browser = deployment.browser()
    options = [browser("POST", "/auth/register/options", {"invite": code}).body for _ in range(2)]
    statuses = [browser("POST", "/auth/register/verify", Authenticator(ORIGIN).create(one)).status for one in options]
    assert statuses == [201, 401]
    assert browser.enrol(invite=code).refusal == (401, "sign_in_failed")


def test_a_code_ends_after_a_day(deployment: Deployment, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = enrolment_code(data, capsys)
    deployment.clock.time = 10_000_000_000
    assert deployment.browser().enrol(invite=code).refusal == (401, "sign_in_failed")


def test_without_a_data_folder_the_person_is_told_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["enrol", "--data", str(tmp_path / "none")]) == 1
    assert "No stack has run in" in capsys.readouterr().err


def test_a_folder_that_is_no_stacks_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o755)
    assert main(["enrol", "--data", str(tmp_path)]) == 1
    assert "No stack has run in" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert tmp_path.stat().st_mode & 0o777 == 0o755
