"""Where `deckhand chat` finds its token."""

from pathlib import Path

import pytest

from infra.local.api_client import ApiError
from infra.local.server_address import find_token


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With every source filled."""
    monkeypatch.setenv("DECKHAND_TOKEN", "from DECKHAND_TOKEN")
    monkeypatch.setenv("AGENT_API_TOKEN", "from AGENT_API_TOKEN")
    (tmp_path / "token").write_text("from the folder\n")
    return tmp_path


def test_the_sources_are_asked_in_order_and_an_empty_one_is_passed_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [find_token("given", folder), find_token("", folder)]
    for name in ("DECKHAND_TOKEN", "AGENT_API_TOKEN"):
        monkeypatch.setenv(name, "")
        found.append(find_token(None, folder))
    assert found == ["given", "from DECKHAND_TOKEN", "from AGENT_API_TOKEN", "from the folder"]


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_without_any_the_person_is_told_how_to_give_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    for name in ("DECKHAND_TOKEN", "AGENT_API_TOKEN"):
        monkeypatch.delenv(name)
    (folder / "token").unlink() if content is None else (folder / "token").write_bytes(content)
    with pytest.raises(ApiError, match="No token: give --token"):
        find_token(None, folder)
