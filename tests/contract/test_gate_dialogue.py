"""What a person sees and sends where a turn waits for their yes."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from infra.local import api_client
from infra.local.api_client import Api, ApiError
from infra.local.dialogue import Dialogue
from tests.contract.test_api_client import NOTHING, plain, refusal, stream, token
from tests.contract.test_dialogue import NONE_WAIT, transcript
from tests.scripted_gateway import Reply, ScriptedGateway

CONTINUED = stream((20, "reply", {"reply": "It is done."}), (21, "done", {"status": "done"}))
LEFT = "Left open. /waiting asks again"


def proposal(number: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "id": f"c1.p{number}",
        "tool": "delete_manifest",
        "arguments": {"id": f"card-{number}"},
        "summary": f"Delete a card: card-{number}",
        "destructive": True,
        "expiresAt": "2026-03-04T05:06:07.000Z",
        **more,
    }


def awaiting(*numbers: int, first: int = 1) -> Reply:
    told = {"reply": "This needs your yes before it is done.", "proposals": [proposal(number) for number in numbers]}
    return stream((first, "reply", told), (first + 1, "done", {"status": "awaiting_confirmation"}))


def still_open(*numbers: int) -> Reply:
    return plain(200, {"status": "awaiting_confirmation", "open": [f"c1.p{number}" for number in numbers], "id": "x"})


def listed(*numbers: int, **more: Any) -> Reply:
    where = {"state": "proposed", "turnId": "t1", "conversationId": "c1", **more}
    return plain(200, {"proposals": [proposal(number, **where) for number in numbers]})


class Typist:
    """Types what it was told, and keeps what it was asked. An exception is raised instead of typing."""

    def __init__(self) -> None:
        self.lines: list[str | type[BaseException]] = []
        self.asked: list[tuple[str, str]] = []

    def __call__(self, prompt: str, start: str) -> str:
        self.asked.append((prompt.partition(" ")[0], start))
        line = self.lines.pop(0)
        if isinstance(line, str):
            return line
        raise line


@pytest.fixture
def typist() -> Iterator[Typist]:
    typist = Typist()
    yield typist
    assert typist.lines == [], "everything was asked for"


Converse = Callable[[Typist | None], Dialogue]


@pytest.fixture
def converse(scripted_gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[Converse]:
    monkeypatch.setattr(api_client, "RECONNECT_SECONDS", 0.01)
    with closing(Api(f"http://127.0.0.1:{scripted_gateway.port}", "secret")) as api:
        yield lambda typist: Dialogue(api, "c1", typist)


@pytest.fixture
def dialogue(converse: Converse, typist: Typist) -> Dialogue:
    return converse(typist)


def decisions(gateway: ScriptedGateway) -> list[tuple[str, Mapping[str, Any]]]:
    """The paths behind the proposals, and what was sent there."""
    start = "/api/chat/proposals/c1."
    return [(r.path.removeprefix(start), r.body) for r in gateway.requests if r.path.startswith(start)]


@pytest.mark.parametrize(
    ("lines", "sent"),
    [
        (["y"], ("p1/confirm", {})),
        ([" YES "], ("p1/confirm", {})),
        (["n", "  "], ("p1/reject", {})),
        (["no", "I like it"], ("p1/reject", {"reason": "I like it"})),
        (["what", "", "y"], ("p1/confirm", {})),
        (["e", '{"id": "other", "n": 1.0}', "y"], ("p1/confirm", {"arguments": {"id": "other", "n": 1.0}})),
        (["edit", "", "y"], ("p1/confirm", {})),
        (["e", '{"id":"card-1"}', "y"], ("p1/confirm", {})),
        (["e", '{"id": "card-1"}', "y"], ("p1/confirm", {})),
        (["e", '{"id": "x"}', "e", '{"id": "card-1"}', "y"], ("p1/confirm", {})),
        (["e", '{"id": "x"}', "e", "", "y"], ("p1/confirm", {"arguments": {"id": "x"}})),
        (["e", '{"id": "x"}', "n", ""], ("p1/reject", {})),
    ],
)
def test_an_answer_is_sent_and_the_turn_goes_on(
    dialogue: Dialogue,
    scripted_gateway: ScriptedGateway,
    typist: Typist,
    capsys: pytest.CaptureFixture[str],
    lines: list[str],
    sent: tuple[str, dict[str, Any]],
) -> None:
    typist.lines = [*lines]
    scripted_gateway.queue(awaiting(1), CONTINUED)
    screen = dialogue.say("delete it")
    assert decisions(scripted_gateway) == [(sent[0], {**sent[1], "stream": True})]
    assert (screen.failed, dialogue.waits) == (False, False)
    out, err = capsys.readouterr()
    assert out.startswith("This needs your yes before it is done.\nDelete a card: card-1\n  tool: delete_manifest\n")
    assert '\n  arguments: {"id": "card-1"}\n  until: 2026-03-0' in out
    assert out.endswith("\nIt is done.\n")
    assert err == ""


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("{", "This is not valid JSON."),
        ('["card-1"]', "Arguments are one object"),
        ('{"id": "a", "id": "b"}', "A name stands twice"),
        ('{"id": NaN}', "NaN is not JSON."),
        ("{\udce9}", "This is not valid JSON."),
    ],
)
def test_arguments_that_are_none_are_told_and_asked_for_again(
    dialogue: Dialogue,
    scripted_gateway: ScriptedGateway,
    typist: Typist,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    told: str,
) -> None:
    typist.lines = ["e", typed, "y"]
    scripted_gateway.queue(awaiting(1), CONTINUED)
    dialogue.say("delete it")
    assert decisions(scripted_gateway) == [("p1/confirm", {"stream": True})]
    assert capsys.readouterr().err.startswith(told)


def test_arguments_that_the_server_refuses_are_told_and_asked_for_again(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, typist: Typist, capsys: pytest.CaptureFixture[str]
) -> None:
    typist.lines = ["e", '{"x": 1}', "y", "y"]
    faults = [{"path": "arguments", "message": "id: Field required"}]
    invalid = plain(422, {"error": "Some fields are not valid.", "code": "invalid", "errors": faults})
    scripted_gateway.queue(awaiting(1), invalid, CONTINUED)
    dialogue.say("delete it")
    assert [body.get("arguments") for _, body in decisions(scripted_gateway)] == [{"x": 1}, None]
    out, err = capsys.readouterr()
    assert err == "Some fields are not valid. arguments: id: Field required\n"
    assert out.rindex('arguments: {"id": "card-1"}') > out.index('arguments: {"x": 1}'), "what runs was read last"


def test_editing_starts_from_the_arguments(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, typist: Typist
) -> None:
    typist.lines = ["e", '{"id": "b"}', "e", "", "y"]
    scripted_gateway.queue(awaiting(1), CONTINUED)
    dialogue.say("delete it")
    assert [start for prompt, start in typist.asked if prompt == "Arguments"] == ['{"id":"card-1"}', '{"id":"b"}']


def test_edited_arguments_are_shown_and_asked_about_before_they_are_sent(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, typist: Typist, capsys: pytest.CaptureFixture[str]
) -> None:
    typist.lines = ["e", '{"id": "b"}', "l"]
    told = {"reply": "This needs your yes.", "proposals": [proposal(target={"label": "Mood"})]}
    scripted_gateway.queue(stream((1, "reply", told), (2, "done", {"status": "awaiting_confirmation"})))
    dialogue.say("delete it")
    assert (decisions(scripted_gateway), dialogue.waits) == ([], True)
    first, second, *_ = re.findall(r"(?m)^  arguments: [^\n]*\n  (?:changes|until): ", capsys.readouterr().out)
    assert first == '  arguments: {"id": "card-1"}\n  changes: '
    assert second == '  arguments: {"id": "b"}\n  until: '


@pytest.mark.parametrize("lines", [["l"], ["later"], [KeyboardInterrupt], [EOFError], ["n", KeyboardInterrupt]])
def test_later_leaves_it_open_and_says_how_to_come_back(
    dialogue: Dialogue,
    scripted_gateway: ScriptedGateway,
    typist: Typist,
    capsys: pytest.CaptureFixture[str],
    lines: list[str | type[BaseException]],
) -> None:
    typist.lines = [*lines]
    scripted_gateway.queue(awaiting(1))
    dialogue.say("delete it")
    assert (decisions(scripted_gateway), dialogue.waits) == ([], True)
    assert LEFT in capsys.readouterr().out


def test_several_are_asked_about_one_after_the_other_and_the_last_goes_on(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, typist: Typist, capsys: pytest.CaptureFixture[str]
) -> None:
    typist.lines = ["y", "n", "", "y"]
    scripted_gateway.queue(awaiting(1, 2, 3), still_open(2, 3), still_open(3), CONTINUED)
    dialogue.say("delete them")
    assert [path for path, _ in decisions(scripted_gateway)] == ["p1/confirm", "p2/reject", "p3/confirm"]
    out, err = capsys.readouterr()
    shown = [out.index(f"Delete a card: card-{number}") for number in (1, 2, 3)]
    assert shown == sorted(shown)
    assert (out.endswith("It is done.\n"), err, dialogue.waits) == (True, "", False)


def test_one_that_is_left_does_not_keep_the_next_from_being_asked_about(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, typist: Typist, capsys: pytest.CaptureFixture[str]
) -> None:
    typist.lines = ["l", "y"]
    scripted_gateway.queue(awaiting(1, 2), still_open(1))
    dialogue.say("delete them")
    assert [path for path, _ in decisions(scripted_gateway)] == ["p2/confirm"]
    assert (LEFT in capsys.readouterr().out, dialogue.waits) == (True, True)


def test_the_end_of_the_input_leaves_all(dialogue: Dialogue, scripted_gateway: ScriptedGateway, typist: Typist) -> None:
    typist.lines = [EOFError]
    scripted_gateway.queue(awaiting(1, 2))
    dialogue.say("delete them")
    assert (decisions(scripted_gateway), dialogue.waits) == ([], True)


def test_a_turn_that_goes_on_may_ask_again(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, typist: Typist
) -> None:
    typist.lines = ["y", "y"]
    scripted_gateway.queue(awaiting(1), awaiting(2, first=5), CONTINUED)
    dialogue.say("delete it")
    assert [path for path, _ in decisions(scripted_gateway)] == ["p1/confirm", "p2/confirm"]


@pytest.mark.parametrize(
    ("status", "more", "told"),
    [
        (409, {"outcome": "succeeded"}, "It is over. Outcome: succeeded.\n"),
        (410, {}, "It is over.\n"),
        (403, {}, "It is over.\n"),
        (404, {}, "It is over.\n"),
        (429, {"outcome": "succeeded"}, "It is over. Outcome: succeeded.\n"),
    ],
)
def test_a_decision_that_comes_too_late_is_told_in_one_sentence_and_the_next_is_asked_about(
    dialogue: Dialogue,
    scripted_gateway: ScriptedGateway,
    typist: Typist,
    capsys: pytest.CaptureFixture[str],
    status: int,
    more: dict[str, str],
    told: str,
) -> None:
    typist.lines = ["y", "y"]
    refused = plain(status, {"error": "It is over.", "code": "over", **more})
    scripted_gateway.queue(awaiting(1, 2), refused, CONTINUED)
    dialogue.say("delete it")
    assert [path for path, _ in decisions(scripted_gateway)] == ["p1/confirm", "p2/confirm"]
    out, err = capsys.readouterr()
    assert (err, out.endswith("It is done.\n"), dialogue.waits) == (told, True, False)


def test_a_decision_that_the_server_could_not_take_leaves_it_open(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, typist: Typist, capsys: pytest.CaptureFixture[str]
) -> None:
    typist.lines = ["y"]
    scripted_gateway.queue(awaiting(1), refusal(503, "storage_unavailable"))
    dialogue.say("delete it")
    out, err = capsys.readouterr()
    assert (err, LEFT in out, dialogue.waits) == ("It is storage_unavailable.\n", True, True)


@pytest.mark.parametrize("end", ["cut", "reset"])
@pytest.mark.parametrize("repeated", [CONTINUED, still_open(2)])
def test_a_decision_whose_answer_is_lost_is_repeated_under_its_key(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, typist: Typist, end: Any, repeated: Reply
) -> None:
    typist.lines = ["y"]
    executing = plain(409, {"error": "It is.", "code": "already_decided", "outcome": "executing"})
    scripted_gateway.queue(awaiting(1), stream(end=end), executing, repeated)
    if repeated is not CONTINUED:
        scripted_gateway.queue(NONE_WAIT)
    dialogue.say("delete it")
    sent = [request for request in scripted_gateway.requests if request.path.endswith("/confirm")]
    assert len(sent) == 3
    assert len({(request.raw, request.headers["idempotency-key"]) for request in sent}) == 1


def test_what_somebody_else_is_running_is_not_asked_for_again(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, typist: Typist
) -> None:
    typist.lines = ["y"]
    executing = plain(409, {"error": "It is.", "code": "already_decided", "outcome": "executing"})
    scripted_gateway.queue(awaiting(1), executing)
    dialogue.say("delete it")
    assert len(decisions(scripted_gateway)) == 1


def test_two_decisions_have_keys_of_their_own(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, typist: Typist
) -> None:
    typist.lines = ["y", "y"]
    scripted_gateway.queue(awaiting(1, 2), still_open(2), CONTINUED)
    dialogue.say("delete them")
    keys = [r.headers["idempotency-key"] for r in scripted_gateway.requests if r.path.endswith("/confirm")]
    assert len(set(keys)) == 2


def test_a_turn_that_goes_on_and_breaks_off_is_taken_up_where_it_broke(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, typist: Typist
) -> None:
    typist.lines = ["y"]
    scripted_gateway.queue(awaiting(1), stream(token(18), end="cut"), CONTINUED)
    dialogue.say("delete it")
    last = scripted_gateway.requests[-1]
    assert (last.method, last.path, last.headers["last-event-id"]) == ("GET", "/api/chat/turn/c1", "18")


@pytest.mark.parametrize(
    ("more", "told"), [({"turnId": "t9"}, "a newer turn is at work"), ({}, "the conversation went on elsewhere")]
)
def test_a_decision_after_which_nothing_goes_on_is_told_as_that(
    dialogue: Dialogue,
    scripted_gateway: ScriptedGateway,
    typist: Typist,
    capsys: pytest.CaptureFixture[str],
    more: dict[str, str],
    told: str,
) -> None:
    typist.lines = ["y"]
    scripted_gateway.queue(awaiting(1), plain(200, {"status": "decided", "outcome": "succeeded", **more}))
    assert not dialogue.say("delete it").failed
    assert told in capsys.readouterr().err


def test_the_result_of_a_call_that_belongs_to_no_conversation_is_printed(
    converse: Converse, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {"status": "decided", "id": "none.p1", "outcome": "succeeded", "result": {"ok": True}}
    scripted_gateway.queue(plain(200, told))
    converse(None).decide("none.p1", "confirm", {})
    assert capsys.readouterr() == ('{"ok": true}\n', "")


def test_nobody_to_ask_gets_the_ids_and_nothing_is_decided(
    converse: Converse, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    dialogue = converse(None)
    scripted_gateway.queue(awaiting(1, 2))
    dialogue.say("delete them")
    out = capsys.readouterr().out
    assert "\n  id: c1.p1\n" in out
    assert "\n  id: c1.p2\n" in out
    assert out.endswith("deckhand chat --confirm ID, or --reject ID.\n")
    assert (decisions(scripted_gateway), dialogue.waits) == ([], True)


def test_a_decision_by_id_says_what_still_waits(
    converse: Converse, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    dialogue = converse(None)
    scripted_gateway.queue(still_open(2), listed(2, 3))
    dialogue.decide("c1.p1", "reject", {"reason": "No."})
    assert decisions(scripted_gateway) == [("p1/reject", {"reason": "No.", "stream": True})]
    out = capsys.readouterr().out
    assert ("card-2" in out, "card-3" in out, dialogue.waits) == (True, False, True)


def test_a_refused_decision_by_id_is_an_error(converse: Converse, scripted_gateway: ScriptedGateway) -> None:
    scripted_gateway.queue(plain(409, {"error": "It was.", "code": "already_decided", "outcome": "rejected"}))
    with pytest.raises(ApiError, match=r"It was\. Outcome: rejected\."):
        converse(None).decide("c1.p1", "confirm", {})


# -- coming back


def test_waiting_asks_about_each_turns_own(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, typist: Typist
) -> None:
    typist.lines = ["y", "l"]
    first, second = proposal(1, turnId="t1", state="proposed"), proposal(2, turnId="t2", state="proposed")
    scripted_gateway.queue(plain(200, {"proposals": [first, second]}), CONTINUED)
    dialogue.waiting()
    assert [path for path, _ in decisions(scripted_gateway)] == ["p1/confirm"]
    assert dialogue.waits


def test_waiting_says_that_nothing_does(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted_gateway.queue(NONE_WAIT)
    dialogue.waiting()
    assert capsys.readouterr().out == "Nothing waits for a yes.\n"


def test_what_is_being_done_is_told_and_not_asked_about(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted_gateway.queue(listed(1, state="executing"))
    dialogue.waiting()
    assert "being done now" in capsys.readouterr().err


def test_a_conversation_that_is_opened_asks_again(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, typist: Typist, capsys: pytest.CaptureFixture[str]
) -> None:
    typist.lines = ["y"]
    # The turn ended too long ago to be followed, and its question is still open.
    scripted_gateway.queue(transcript(("user", "delete it")), NOTHING, transcript(("user", "delete it")))
    scripted_gateway.queue(listed(1), listed(1), CONTINUED)
    dialogue.resume()
    out, err = capsys.readouterr()
    assert out.startswith("— Weights —\n> delete it\nThis needs your yes before it is done.\nDelete a card: card-1\n")
    assert (err, out.endswith("It is done.\n")) == ("", True)


def test_the_log_of_a_turn_asks_nothing_that_was_decided_since(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway, typist: Typist
) -> None:
    typist.lines = ["y"]
    scripted_gateway.queue(transcript(("user", "delete them")), awaiting(1, 2), listed(2), CONTINUED)
    dialogue.resume()
    assert [path for path, _ in decisions(scripted_gateway)] == ["p2/confirm"]


def test_a_plain_answer_to_a_message_is_still_none_of_ours(
    dialogue: Dialogue, scripted_gateway: ScriptedGateway
) -> None:
    scripted_gateway.queue(plain(200, {"status": "decided"}))
    with pytest.raises(ApiError, match="is not Deckhand"):
        dialogue.say("hello")


def test_a_plain_answer_to_a_decision_that_is_not_ours_is_told(
    converse: Converse, scripted_gateway: ScriptedGateway
) -> None:
    scripted_gateway.queue(plain(200, ["decided"]))
    with pytest.raises(ApiError, match="is not Deckhand"):
        converse(None).decide("c1.p1", "confirm", {})
