"""What functions see of the developer's machine, and what the data folder keeps."""

import stat
from pathlib import Path

import pytest

from infra.local.data_folder import DataFolder
from infra.local.environment import function_environment, wants_demo
from infra.local.template import Function

FUNCTION = Function(
    "Chat",
    "handler.handler",
    Path("/code"),
    3.0,
    environment={"CHAT_MODEL": "template", "CHAT_API_KEY": "ssm:/deckhand/key", "DECK_TABLE": "deck"},
)


def environment(environ: dict[str, str], *, demo_url: str | None = None) -> dict[str, str]:
    return function_environment(FUNCTION, environ, token="made", data=Path("/data"), demo_url=demo_url)


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


@pytest.mark.parametrize(("given", "used"), [({}, "made"), ({"AGENT_API_TOKEN": "own"}, "own")])
def test_a_token_of_ones_own_is_used(given: dict[str, str], used: str) -> None:
    assert environment(given)["AGENT_API_TOKEN"] == used


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
    assert DataFolder(tmp_path / "data").token() == DataFolder(tmp_path / "data").token() != ""


def test_only_the_owner_may_read_folder_and_token(tmp_path: Path) -> None:
    DataFolder(tmp_path / "data").token()
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "data" / "token").stat().st_mode) == 0o600


def test_an_empty_token_file_is_not_taken_for_a_token(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "token").touch()
    assert len(DataFolder(tmp_path / "data").token()) >= 32
