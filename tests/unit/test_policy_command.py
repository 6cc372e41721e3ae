"""`deckhand policy test`: cases in a file against what ships, a document, or the running stack's."""

import json
from pathlib import Path
from typing import Any

import pytest

from infra.local.command import main
from infra.local.policy import command

CASES = """
[[case]]
role = "viewer"
operation = "append_row"
channel = "chat"
card = "mood"
expect = "deny"

[[case]]
name = "agents are asked"
principal = {role = "agent", kind = "token", id = "t1", cards = ["mood"]}
operation = "remove_row"
channel = "chat"
card = "mood"
expect = "confirm"
by = ["confirm-destructive"]

[[case]]
name = "the diary is left alone"
role = "editor"
operation = "append_row"
card = "diary"
expect = "deny"
by = ["no-diary"]
"""
ASSUMED = "CONFIRM_WRITES=destructive (assumed; --confirm-writes says otherwise)"
NO_DIARY = '@id("no-diary") forbid (principal, action in Action::"write", resource == Card::"diary");'


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    path = tmp_path / "cases.toml"
    path.write_text(CASES)
    return path


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.cedar"
    path.write_text(NO_DIARY)
    return path


def test_cases_that_hold_pass(cases: Path, policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "test", str(cases), "--policy", str(policy)]) == 0
    assert capsys.readouterr().out == f"3 of 3 cases are as expected, with {ASSUMED}\n"


def test_a_case_that_fails_is_told_with_what_decided(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "test", str(cases)]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told == [
        "the diary is left alone: expected deny, got allow by editor-writes",
        f"2 of 3 cases are as expected, with {ASSUMED}",
    ]


def test_a_case_fails_when_another_policy_decided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cases.json"
    case = {"role": "owner", "operation": "append_row", "expect": "allow", "by": ["editor-writes"]}
    path.write_text(json.dumps({"case": [case]}))
    assert main(["policy", "test", str(path)]) == 1
    assert "case 1: allow as expected, but by owner-everything" in capsys.readouterr().out


ASKED = '[[case]]\nrole = "owner"\noperation = "append_row"\nchannel = "chat"\nexpect = "confirm"\n'


def test_the_switch_is_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cases.toml"
    path.write_text(ASKED)
    assert main(["policy", "test", str(path)]) == 1
    capsys.readouterr()
    assert main(["policy", "test", str(path), "--confirm-writes", "all"]) == 0
    assert capsys.readouterr().out == "1 of 1 cases are as expected, with CONFIRM_WRITES=all\n"


def test_a_faulty_document_is_told_with_its_places(
    cases: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text("permit (principal,\n  actn, resource);")
    assert main(["policy", "test", str(cases), "--policy", str(policy)]) == 1
    assert capsys.readouterr().out.startswith(f"{policy}:2:3: ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[[case]]\nrole = "viewer"\noperation = "fly"\nexpect = "deny"', "there is no operation fly"),
        ('[[case]]\noperation = "append_row"\nexpect = "deny"', "give either role or principal"),
        ('[[case]]\nrole = "king"\noperation = "append_row"\nexpect = "deny"', "case.1.role"),
        ('[[case]]\nrole = "owner"\noperation = "append_row"\nexpct = "deny"', "case.1.expct"),
        ("", "case"),
        ("nonsense", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    path = tmp_path / "cases.toml"
    path.write_text(text)
    assert main(["policy", "test", str(path)]) == 1
    assert told in capsys.readouterr().err


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How to ask a stack that runs with CONFIRM_WRITES=all."""

    class Stack:
        def __init__(self, url: str, token: str) -> None:
            assert (url, token) == ("http://127.0.0.1:1", "t")

        def call(self, method: str, path: str) -> Any:
            assert (method, path) == ("GET", "/api/policy")
            return {"policy": NO_DIARY, "shadow": "", "version": 1, "confirmWrites": "all"}

        def close(self) -> None: ...

    monkeypatch.setattr(command, "Api", Stack)
    return ["--url", "http://127.0.0.1:1", "--token", "t"]


def test_the_document_of_the_running_stack_is_asked_for(cases: Path, running: list[str]) -> None:
    assert main(["policy", "test", str(cases), *running, "--running"]) == 0
    assert main(["policy", "test", str(cases), *running, "--shadow"]) == 1


def test_the_switch_of_the_running_stack_holds_unless_another_is_named(
    tmp_path: Path, running: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cases.toml"
    path.write_text(ASKED)
    for document in ("--running", "--shadow"):
        assert main(["policy", "test", str(path), *running, document]) == 0
        assert capsys.readouterr().out.endswith("with CONFIRM_WRITES=all (the running stack's)\n")
    assert main(["policy", "test", str(path), *running, "--running", "--confirm-writes", "none"]) == 1
