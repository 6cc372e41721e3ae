"""What functions see of the developer's machine, and what the data folder keeps."""

import stat
import time
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from deckhand.push.vapid import public_key
from deckhand.storage.sqlite import SqliteStore
from deckhand.storage.tokens import Tokens
from infra.local.command import main
from infra.local.data_folder import DataFolder
from infra.local.environment import function_environment, wants_demo
from infra.local.owner_token import owner_token
from infra.local.template import Function

FUNCTION = Function(
    "Chat",
    "handler.handler",
    Path("/code"),
    3.0,
    environment={"CHAT_MODEL": "template", "CHAT_API_KEY": "ssm:/deckhand/key", "DECK_TABLE": "deck"},
)


def environment(environ: dict[str, str], *, demo_url: str | None = None) -> dict[str, str]:
    return function_environment(FUNCTION, environ, data=Path("/data"), demo_url=demo_url, origin="http://localhost:1")


def test_the_developers_settings_win_over_the_templates() -> None:
    assert (
        environment({"CHAT_MODEL": "mine", "HEALTH_DEBUG": "1"}).items()
        >= {
            "CHAT_MODEL": "mine",
            "HEALTH_DEBUG": "1",
            "DECK_TABLE": "deck",
        }.items()
    )


def test_secrets_that_lie_in_the_cloud_are_left_out() -> None:
    assert "CHAT_API_KEY" not in environment({})


def test_cloud_credentials_do_not_reach_functions() -> None:
    assert not {"AWS_ACCESS_KEY_ID", "AWS_PROFILE"} & environment({"AWS_ACCESS_KEY_ID": "x", "AWS_PROFILE": "y"}).keys()


def test_functions_stream_and_keep_their_data_in_the_folder() -> None:
    made = environment({"DECKHAND_SQLITE": "elsewhere", "RESPONSE_MODE": "buffer"})
    assert (made["RESPONSE_MODE"], made["DECKHAND_SQLITE"]) == ("stream", "/data/deckhand.sqlite3")


def test_a_token_of_ones_own_is_handed_on_and_none_is_made_up() -> None:
    assert environment({"AGENT_API_TOKEN": "own"})["AGENT_API_TOKEN"] == "own"
    assert "AGENT_API_TOKEN" not in environment({})


def test_requests_are_not_limited_unless_asked_for() -> None:
    assert environment({})["DECKHAND_RATE_PER_MINUTE"] == "0"
    assert environment({"DECKHAND_RATE_PER_MINUTE": "5"})["DECKHAND_RATE_PER_MINUTE"] == "5"


def test_the_demo_takes_the_place_of_the_gateway() -> None:
    made = environment({"CHAT_MODEL": "mine"}, demo_url="http://127.0.0.1:1/v1/chat/completions")
    assert (made["DECKHAND_DEMO"], made["CHAT_MODEL"]) == ("1", "demo")
    assert made["CHAT_ENDPOINT_URL"] == "http://127.0.0.1:1/v1/chat/completions"


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, True),
        ({"CHAT_ENDPOINT_URL": ""}, True),
        ({"CHAT_ENDPOINT_URL": "http://x"}, False),
        ({"CHAT_GATEWAY_HOST": "x"}, False),
    ],
)
def test_the_demo_runs_only_without_a_gateway(environ: dict[str, str], wanted: bool) -> None:
    assert wants_demo(environ) is wanted


def test_the_token_is_made_once(tmp_path: Path) -> None:
    assert owner_token(DataFolder(tmp_path / "data")) == owner_token(DataFolder(tmp_path / "data")) != ""


def test_a_token_that_was_revoked_is_replaced(tmp_path: Path) -> None:
    data = DataFolder(tmp_path / "data")
    first = owner_token(data)
    with closing(SqliteStore(str(data.database), now=time.time)) as store:
        tokens = Tokens(store, now=time.time, new_id=lambda: uuid.uuid4().hex)
        known = tokens.find(first)
        assert known is not None
        tokens.revoke("main", known.id)
        second = owner_token(data)
        assert second != first
        assert tokens.find(first) is None
        found = tokens.find(second)
        assert found is not None
        assert (found.role, found.user) == ("owner", "owner")


def test_only_the_owner_may_read_folder_and_token(tmp_path: Path) -> None:
    owner_token(DataFolder(tmp_path / "data"))
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "data" / "token").stat().st_mode) == 0o600


def test_an_empty_token_file_is_not_taken_for_a_token(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "token").touch()
    assert len(owner_token(DataFolder(tmp_path / "data"))) >= 32


def test_the_key_for_pushes_is_made_once_and_only_the_owner_may_read_it(tmp_path: Path) -> None:
    made = DataFolder(tmp_path / "data").vapid_key(lambda: "first")
    assert (made, DataFolder(tmp_path / "data").vapid_key(lambda: "second")) == ("first", "first")
    assert stat.S_IMODE((tmp_path / "data" / "vapid-key").stat().st_mode) == 0o600


def test_a_key_for_pushes_is_printed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vapid"]) == 0
    printed = capsys.readouterr()
    assert len(public_key(printed.out)) == 87
    assert printed.out.count("\n") == 1
    assert public_key(printed.out) in printed.err
