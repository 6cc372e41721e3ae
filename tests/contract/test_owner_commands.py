"""`deckhand audit`, `agent` and `turns`, and the exit codes of `deckhand chat`, against scripted answers."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deckhand.agent import wording
from infra.local.audit import line as audit_line
from infra.local.command import main
from infra.local.turns import line as turn_line
from tests.contract.test_api_client import plain, refusal, stream
from tests.contract.test_gate_dialogue import CONTINUED, awaiting, decisions, listed, still_open
from tests.laptop import ROOT, WAIT_S
from tests.scripted_gateway import ScriptedGateway

MADE = plain(201, {"conversation": {"id": "c1"}})
ENTRY = {
    "at": "2026-03-04T05:06:07.000Z",
    "principal": "user:owner",
    "channel": "api",
    "operation": "delete_manifest",
    "outcome": "succeeded",
    "card": "mood",
    "policies": ["role-owner"],
}
TURN = {
    "conversationId": "c1",
    "turnId": "t1",
    "startedAt": "2026-03-04T05:06:07.000Z",
    "steps": 1,
    "phase": "thinking",
    "principal": "user:ann",
}
Type = Callable[..., int]


@pytest.fixture
def type_(scripted_gateway: ScriptedGateway) -> Type:
    """Runs a command; its exit code."""

    def type_(command: str, *arguments: str) -> int:
        return main([command, "--url", f"http://127.0.0.1:{scripted_gateway.port}", "--token", "secret", *arguments])

    return type_


def asked(gateway: ScriptedGateway) -> list[str]:
    return [f"{request.method} {request.path}" for request in gateway.requests]


def page(*outcomes: str, next: str | None = None) -> Any:
    return plain(200, {"entries": [{**ENTRY, "outcome": outcome} for outcome in outcomes], "next": next})


# -- audit


def test_the_audit_is_told_with_the_newest_last(
    type_: Type, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted_gateway.queue(page("succeeded", "confirmed", "proposed"))
    assert type_("audit") == 0
    assert [line.split("  ")[3] for line in capsys.readouterr().out.splitlines()] == [
        "proposed",
        "confirmed",
        "succeeded",
    ]
    assert asked(scripted_gateway) == ["GET /api/audit?order=desc&limit=20&after="]


def test_more_of_the_audit_than_one_page_is_read_by_its_cursor(
    type_: Type, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted_gateway.queue(page(*["denied"] * 500, next="2026_x+y"), page("failed"))
    assert type_("audit", "--limit", "600") == 0
    assert len(capsys.readouterr().out.splitlines()) == 501
    assert asked(scripted_gateway)[1] == "GET /api/audit?order=desc&limit=100&after=2026_x%2By"


@pytest.mark.parametrize("limit", ["0", "x", "-1", "9" * 5000])
def test_a_limit_that_is_none_is_refused(type_: Type, limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        type_("audit", f"--limit={limit}")
    assert "a whole number" in capsys.readouterr().err


def test_a_line_of_the_audit_says_what_came_of_it_and_why() -> None:
    start = "2026-03-04T05:06:07.000Z  user:owner  api"
    assert audit_line(ENTRY) == f"{start}  succeeded  delete_manifest mood  (role-owner)"
    assert audit_line({**ENTRY, "outcome": "failed", "code": "bad_path"}).endswith("delete_manifest mood  (bad_path)")


def test_a_line_of_the_audit_cannot_drive_the_terminal() -> None:
    assert "\x1b" not in audit_line({**ENTRY, "card": "\x1b[2J"})


# -- tokens

TOKEN = {"id": "t1", "role": "agent", "name": "a\nb\x1b[31m", "createdAt": "2026", "operations": ["append_row"]}


def test_a_line_of_a_token_cannot_drive_the_terminal(
    type_: Type, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted_gateway.queue(plain(200, {"tokens": [TOKEN]}))
    assert type_("tokens", "list") == 0
    assert capsys.readouterr().out == "t1  agent  a b[31m  used never  only append_row\n"


@pytest.mark.parametrize("behind", [False, True])
def test_the_server_is_named_before_an_action_or_behind_it(scripted_gateway: ScriptedGateway, behind: bool) -> None:
    server = ["--url", f"http://127.0.0.1:{scripted_gateway.port}", "--token", "secret"]
    scripted_gateway.queue(plain(200, {"ok": True}))
    assert main(["tokens", *([] if behind else server), "revoke", "t1", *(server if behind else [])]) == 0
    (request,) = scripted_gateway.requests
    assert (request.method, request.path, request.headers["authorization"]) == (
        "DELETE",
        "/api/tokens/t1",
        "Bearer secret",
    )


def test_a_secret_stands_alone_where_programs_read(
    type_: Type, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted_gateway.queue(plain(201, {**TOKEN, "secret": "dh_secret"}))
    assert type_("tokens", "make", "scales") == 0
    out, err = capsys.readouterr()
    assert out == "dh_secret\n"
    assert "Its id is t1." in err


def reading(gateway: ScriptedGateway, out: Any) -> tuple[int, str]:
    """`deckhand tokens list` as a process that writes to `out`: its exit code, and what it complains of."""
    server = ["--url", f"http://127.0.0.1:{gateway.port}", "--token", "secret"]
    line = [sys.executable, "-m", "infra.local.command", "tokens", *server, "list"]
    env = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        line, cwd=ROOT, env=env, stdout=out, stderr=subprocess.PIPE, text=True, timeout=WAIT_S, check=False
    )
    return done.returncode, done.stderr


def test_output_that_nobody_reads_ends_without_a_word(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(plain(200, {"tokens": [TOKEN]}))
    ours, theirs = os.pipe()
    os.close(ours)
    with os.fdopen(theirs, "w") as closed:
        assert reading(scripted_gateway, closed) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the machine has no device that is always full")
def test_output_for_which_there_is_no_room_ends_with_one_line(scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(plain(200, {"tokens": [TOKEN]}))
    with Path("/dev/full").open("w") as full:
        assert reading(scripted_gateway, full) == (1, "Not all could be written: No space left on device.\n")


# -- the switch


@pytest.mark.parametrize(
    ("arguments", "sent", "told"),
    [
        (["off"], {"scope": "all", "enabled": False}, "The assistant is off for all."),
        (["on"], {"scope": "all", "enabled": True}, "The assistant is on for all."),
        (
            ["off", "--user", "ann"],
            {"scope": "user", "id": "ann", "enabled": False},
            "The assistant is off for user ann.",
        ),
        (["on", "--token-id", "t"], {"scope": "token", "id": "t", "enabled": True}, "The assistant is on for token t."),
    ],
)
def test_the_assistant_is_switched(
    type_: Type,
    scripted_gateway: ScriptedGateway,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sent: dict[str, Any],
    told: str,
) -> None:
    scripted_gateway.queue(plain(200, {"ok": True, "stopped": 2}))
    assert type_("agent", *arguments) == 0
    assert scripted_gateway.requests[0].body == sent
    assert capsys.readouterr().out == f"{told}\nTurns that were stopped: 2.\n"


@pytest.mark.parametrize(
    ("off", "told"),
    [
        ([], "The assistant is on for everybody.\n"),
        ([{"scope": "all", "by": "user:owner", "at": "2026"}], "off for all, by user:owner, 2026\n"),
        ([{"scope": "user", "id": "ann", "by": "b", "at": "2026"}], "off for user ann, by b, 2026\n"),
    ],
)
def test_where_the_assistant_is_off_is_listed(
    type_: Type, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str], off: list[Any], told: str
) -> None:
    scripted_gateway.queue(plain(200, {"off": off}))
    assert type_("agent") == 0
    assert capsys.readouterr().out == told


def test_what_is_neither_off_nor_on_is_refused_by_these_words(type_: Type, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        type_("agent", "foo")
    assert "argument on|off: invalid choice: 'foo'" in capsys.readouterr().err


def test_a_user_without_off_or_on_is_refused(type_: Type) -> None:
    assert type_("agent", "--user", "ann") == 1


# -- turns


@pytest.mark.parametrize(("turns", "told"), [([], "No turn is running.\n"), ([TURN], f"{turn_line(TURN)}\n")])
def test_running_turns_are_listed(
    type_: Type, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str], turns: list[Any], told: str
) -> None:
    scripted_gateway.queue(plain(200, {"turns": turns}))
    assert type_("turns") == 0
    assert capsys.readouterr().out == told


def test_a_line_of_a_turn_says_where_it_is() -> None:
    assert turn_line(TURN) == "c1  t1  2026-03-04T05:06:07.000Z  1 step  thinking  user:ann"
    assert "  2 steps  user:" in turn_line({**TURN, "steps": 2, "phase": None})


@pytest.mark.parametrize("id", ["c1", "t1"])
def test_one_turn_is_stopped_by_either_of_its_ids(type_: Type, scripted_gateway: ScriptedGateway, id: str) -> None:
    scripted_gateway.queue(plain(200, {"turns": [TURN]}), plain(200, {"ok": True, "turnId": "t1"}))
    assert type_("turns", "--stop", id) == 0
    assert asked(scripted_gateway)[1] == "DELETE /api/chat/turn/c1?turnId=t1"


def test_a_turn_that_does_not_run_is_told(
    type_: Type, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted_gateway.queue(plain(200, {"turns": []}), refusal(404, "no_turn_running"))
    assert type_("turns", "--stop", "c9") == 1
    assert capsys.readouterr() == ("", "It is no_turn_running.\n")


def test_all_turns_are_stopped(
    type_: Type, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted_gateway.queue(plain(200, {"ok": True, "turnIds": ["t1", "t2"]}))
    assert type_("turns", "--stop", "all") == 0
    assert (asked(scripted_gateway), capsys.readouterr().out) == (["DELETE /api/chat/turns"], "Stopped: 2.\n")


# -- chat


def test_a_message_whose_answer_waits_ends_with_3(type_: Type, scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(MADE, awaiting(1))
    assert type_("chat", "delete it") == 3


def test_a_decision_prints_the_answer_and_ends_with_0(
    type_: Type, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted_gateway.queue(CONTINUED)
    assert type_("chat", "--confirm", "c1.p1") == 0
    assert capsys.readouterr() == ("It is done.\n", "")
    assert decisions(scripted_gateway) == [("p1/confirm", {"stream": True})]


def test_a_no_takes_its_reason_along_and_says_what_still_waits(
    type_: Type, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted_gateway.queue(still_open(2), listed(2))
    assert type_("chat", "--reject", "c1.p1", "--reason", "I like it") == 3
    assert decisions(scripted_gateway) == [("p1/reject", {"reason": "I like it", "stream": True})]
    assert "id: c1.p2" in capsys.readouterr().out


@pytest.mark.parametrize(("status", "code"), [(409, "already_decided"), (410, "expired"), (403, "forbidden")])
def test_a_decision_that_is_refused_ends_with_1(
    type_: Type, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str], status: int, code: str
) -> None:
    scripted_gateway.queue(refusal(status, code))
    assert type_("chat", "--confirm", "c1.p1") == 1
    assert capsys.readouterr() == ("", f"It is {code}.\n")


def test_an_answer_that_fails_ends_with_1(type_: Type, scripted_gateway: ScriptedGateway) -> None:
    failed = {"error": "The model failed.", "code": "gateway_failed", "status": 502}
    scripted_gateway.queue(stream((20, "error", failed), (21, "done", {"status": "failed"})))
    assert type_("chat", "--confirm", "c1.p1") == 1


@pytest.mark.parametrize(
    ("reply", "more"),
    [
        ("Once upon", {"interrupted": True}),
        (wording.FILTERED, {"filtered": True}),
        (wording.STEP_IDLE, {}),
        (wording.EMPTY, {}),
    ],
)
def test_a_reply_that_is_no_answer_or_not_all_of_one_ends_with_1(
    type_: Type,
    scripted_gateway: ScriptedGateway,
    capsys: pytest.CaptureFixture[str],
    reply: str,
    more: dict[str, bool],
) -> None:
    scripted_gateway.queue(MADE, stream((8, "reply", {"reply": reply, **more}), (9, "done", {"status": "done"})))
    assert type_("chat", "hello") == 1
    assert capsys.readouterr() == (f"{reply}\n", "")


def test_an_answer_that_ran_into_a_limit_is_one(type_: Type, scripted_gateway: ScriptedGateway) -> None:
    reply = {"reply": wording.capped("Once upon", "size"), "capped": True, "cappedBy": "size"}
    scripted_gateway.queue(MADE, stream((8, "reply", reply), (9, "done", {"status": "done"})))
    assert type_("chat", "hello") == 0


@pytest.mark.parametrize(
    ("verdict", "outcome", "code"),
    [("confirm", "succeeded", 0), ("reject", "rejected", 0), ("confirm", "rejected", 1), ("reject", "succeeded", 1)],
)
def test_a_decision_that_is_said_again_ends_with_0_where_it_is_what_came_of_it(
    type_: Type,
    scripted_gateway: ScriptedGateway,
    capsys: pytest.CaptureFixture[str],
    verdict: str,
    outcome: str,
    code: int,
) -> None:
    scripted_gateway.queue(plain(409, {"error": "It was.", "code": "already_decided", "outcome": outcome}))
    assert type_("chat", f"--{verdict}", "c1.p1") == code
    assert capsys.readouterr() == ("", f"It was. Outcome: {outcome}.\n")


@pytest.mark.parametrize("more", [["--continue"], ["hello"], ["--reason", "x", "hello"], ["--reason", "x"]])
def test_a_decision_stands_alone(
    type_: Type, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    assert type_("chat", "--confirm", "c1.p1", *more) == 1
    assert scripted_gateway.requests == []
    assert capsys.readouterr().err.count("\n") == 1


ID = "0123456789abcdef" * 2
HERE = plain(200, {"conversations": [{"id": ID, "title": None, "messageCount": 2}]})
ANSWERED = stream((8, "reply", {"reply": "All right."}), (9, "done", {"status": "done"}))


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["how is my weight?"], "how is my weight?"),
        (["how", "is", "my", "weight?"], "how is my weight?"),
        (["--", "2026-11-30"], "2026-11-30"),
        (["cafe"], "cafe"),
    ],
)
def test_continue_with_a_text_says_it_in_the_newest_conversation(
    type_: Type, scripted_gateway: ScriptedGateway, typed: list[str], said: str
) -> None:
    scripted_gateway.queue(HERE, ANSWERED)
    assert type_("chat", "--continue", *typed) == 0
    sent = scripted_gateway.requests[-1].body
    assert (sent["conversationId"], sent["messages"][0]["content"]) == (ID, said)


def test_continue_with_an_id_says_it_there(type_: Type, scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(ANSWERED)
    assert type_("chat", "--continue", ID, "hello") == 0
    sent = scripted_gateway.requests[-1].body
    assert (sent["conversationId"], sent["messages"][0]["content"]) == (ID, "hello")


@pytest.mark.parametrize("half", [ID[:-1], f"{ID}0", ID.upper(), "01234567-89ab-cdef-0123-456789abcdef"])
def test_what_seems_to_be_half_an_id_is_neither_said_nor_opened(
    type_: Type, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str], half: str
) -> None:
    assert type_("chat", "--continue", half, "hello") == 1
    assert scripted_gateway.requests == []
    assert capsys.readouterr().err == (
        f"{half} is no conversation's id: those have 32 characters. For the newest conversation type "
        f"deckhand chat --continue (/list and /open N lead to the others); to say it, --continue -- {half}.\n"
    )
