"""The known defects of confirming by a button, each as something that a naive build gets wrong. Those about races and
dead processes are in `test_gate_faults.py` and `test_gate_kills.py`, those about messages meanwhile in `test_gate.py`.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.agent.chat import ToolCall, Usage
from deckhand.agent.loop import MAX_WAITING
from deckhand.agent.tools import MAX_RESULT_CHARS
from deckhand.domain.json_text import dumps
from deckhand.domain.proposal import arguments_hash
from deckhand.operations.catalog import REGISTRY
from deckhand.storage.port import ItemStore
from deckhand.storage.sqlite import SqliteStore
from tests.fakes import Gate, asks, call, says
from tests.gated import DONE, PROPOSALS, WEIGHTS, Gated, append, delete, gated, read, remove
from tests.invariants import check_request


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    with closing(SqliteStore(":memory:", now=time.time)) as store:
        yield store


@pytest.fixture
def api(store: ItemStore) -> Iterator[Gated]:
    with gated(store) as api:
        yield api


# -- 2: looked up by organisation


@pytest.mark.parametrize("colleague", ["bob", "eve", "vic", "agent"])
def test_defect_2_a_colleague_who_knows_the_id_decides_nothing_by_any_way(api: Gated, colleague: str) -> None:
    """Neither as themselves nor as whoever proposed it; bob owns the deployment just as well."""
    [proposal] = api.propose(delete())
    unknown = (404, "unknown_proposal")
    assert api.confirm(proposal, token=colleague).refusal == unknown
    assert api.confirm(proposal, token=colleague, arguments={"id": "weight"}).refusal == unknown
    assert api.reject(proposal, token=colleague).refusal == unknown
    several = {"decisions": [{"id": proposal, "decision": "confirm"}]}
    assert api("POST", f"{PROPOSALS}/decisions", several, token=colleague).refusal == unknown
    grant = {"proposalId": proposal, "until": "2027-01-01T00:00:00Z"}
    assert api("POST", "/api/grants", grant, token=colleague).status in (404, 422)
    anns, api.talk = api.talk, api("POST", "/api/conversations", {}, token=colleague).body["conversation"]["id"]
    api.say("Yes.", asks(delete(confirmationId=proposal)), DONE, token=colleague)
    assert api.told()[-1]["code"] in ("unknown_proposal", "forbidden")
    api.talk = anns
    assert api.rows("weight") == WEIGHTS
    assert [one["id"] for one in api.open()] == [proposal]
    assert not [e for e in api.audit() if e["outcome"] in ("confirmed", "rejected")]


# -- 4: no lock


def test_defect_4_two_sends_to_one_conversation_never_interleave(api: Gated) -> None:
    gate = Gate()
    first = api.say("One.", [gate, *says("First.")], stream=True).stream
    gate.wait_reached()
    assert api.say("Two.").refusal == (409, "turn_running")
    gate.open()
    list(first)
    api.say("Two.", says("Second."))
    assert api.texts(api.talk) == ["One.", "First.", "Two.", "Second."]


def test_defect_4_the_turn_after_a_decision_holds_the_conversation_like_any_other(api: Gated) -> None:
    [proposal], gate = api.propose(delete()), Gate()
    going = api.confirm(proposal, [gate, *says("Gone.")], stream=True).stream
    gate.wait_reached()
    assert api.say("Two.").refusal == (409, "turn_running")
    assert api.confirm(proposal).refusal == (409, "already_decided")
    gate.open()
    list(going)
    assert api.texts(api.talk) == ["Please.", "Gone."]


def test_defect_4_a_decision_in_the_middle_of_another_turn_starts_no_second_one(api: Gated) -> None:
    [proposal], gate = api.propose(delete()), Gate()
    stream = api.say("What was it?", [gate, *says("85.0 kg.")], stream=True).stream
    gate.wait_reached()
    decided = api.confirm(proposal)
    assert (decided.body["status"], decided.body["outcome"]) == ("decided", "succeeded")
    gate.open()
    assert list(stream)[-1].data["status"] == "done"
    api.say("And now?", says("It is gone."))
    assert api.told() == [{"ok": True, "id": "weight", "removed": True}], "the next turn is told of the decision"
    assert api.texts(api.talk) == ["Please.", "What was it?", "85.0 kg.", "And now?", "It is gone."]


# -- 6: approved blind


def test_defect_6_the_arguments_are_shown_whole_wherever_a_proposal_is_shown(store: ItemStore) -> None:
    row = {"note": "long " * 10_000, "nested": {"a": [1, 1.0, None, {"b": "\u2028 ü"}]}, "": 0}
    with gated(store, CONFIRM_WRITES="all") as api:
        frames = api.say("Log it.", asks(call("append_row", {"id": "weight", "value": row})), stream=True).frames
        [in_list] = api.open()
        in_event = next(frame.data for frame in frames if frame.name == "proposal")
        [in_reply] = next(frame.data for frame in frames if frame.name == "reply")["proposals"]
        for shown in (in_event, in_reply, in_list):
            assert shown["arguments"] == {"id": "weight", "value": row}
            assert shown["tool"] == "append_row"
            assert shown["summary"]
        replayed = api("GET", f"/api/chat/turn/{api.talk}").frames
        assert next(frame.data for frame in replayed if frame.name == "proposal") == in_event


def test_defect_6_what_would_destroy_something_is_shown_as_such(store: ItemStore) -> None:
    """Whether it is so by its tool or by what this very call would lose."""

    def replacing(data: Any, id: str) -> ToolCall:
        return call("write_manifest_data", {"id": "weight", "data": data}, id=id)

    with gated(store, CONFIRM_WRITES="all") as api:
        api.propose(replacing(WEIGHTS[:1], "c1"), replacing([*WEIGHTS, {}], "c2"), delete(id="c3"), append(id="c4"))
        assert [one["destructive"] for one in sorted(api.open(), key=in_order)] == [True, False, True, False]


def in_order(shown: dict[str, Any]) -> int:
    order = ["write_manifest_data", "delete_manifest", "append_row"]
    longer = shown["tool"] == order[0] and len(shown["arguments"]["data"]) > 2
    return 2 * order.index(shown["tool"]) + longer


def test_defect_6_what_is_too_large_to_be_shown_is_not_asked_for(store: ItemStore) -> None:
    with gated(store, CONFIRM_WRITES="all") as api:
        api.say("Log it.", asks(append(note="x" * 100_000)), DONE)
        assert api.told()[0]["code"] == "too_large"
        assert api.open() == []
        assert api.rows("weight") == WEIGHTS


def test_defect_6_a_step_asks_for_no_more_than_can_be_kept_together(api: Gated) -> None:
    """All are stored with their step or none; the model is told of those that were too many."""
    count = MAX_WAITING + 70
    proposals = api.propose(*(remove(id=f"c{n}") for n in range(count)))
    assert len(proposals) == MAX_WAITING
    api.say("Wait.", says("I wait."))
    told = api.told()
    assert [one.get("status") for one in told[:MAX_WAITING]] == ["awaiting_confirmation"] * MAX_WAITING
    assert {one.get("code") for one in told[MAX_WAITING:]} == {"not_run"}
    check_request(api.gateway.messages())


# -- 7: nothing binds what was shown to what runs


def test_defect_7_what_runs_is_what_was_shown(api: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    known = REGISTRY.find("remove_row")
    assert known is not None
    ran: list[Any] = []

    def run(caller: Any, given: Any) -> Any:
        ran.append(given.model_dump())
        return known.run(caller, given)

    [proposal] = api.propose(remove(row=1))
    [shown] = api.open()
    monkeypatch.setitem(REGISTRY._operations, known.name, replace(known, run=run))
    api.say("Wait.", asks(remove(row=0, id="c2")))
    api.confirm(proposal, DONE)
    assert ran == [shown["arguments"]]
    assert api.rows("weight") == WEIGHTS[:1]


@pytest.mark.parametrize("tool", ["remove_row", "update_row"])
def test_defect_7_a_place_that_holds_another_row_by_now_is_left_alone(api: Gated, tool: str) -> None:
    """The person was shown a row; what is at its place when they say yes may be another one."""
    api("POST", "/api/manifests/weight/rows", {"value": {"date": "2026-04-15", "doses": [1]}})
    changes = {"changes": {"doses": None}} if tool == "update_row" else {}
    [proposal] = api.propose(call(tool, {"id": "weight", "path": "[index=2]", **changes}))
    [shown] = api.open()
    assert shown["target"] == {"date": "2026-04-15", "doses": [1]}
    first = api("GET", "/api/manifests/weight/rows?limit=1").body["rows"][0]["rowId"]
    assert api("DELETE", f"/api/manifests/weight/rows/{first}").status == 200
    api("POST", "/api/manifests/weight/rows", {"value": {"date": "2026-04-16", "doses": [2]}})
    before = api.rows("weight")
    assert api.confirm(proposal, says("It is another one now.")).status == 200
    assert api.told()[-1]["code"] == "target_changed"
    assert api.rows("weight") == before
    [failed] = [e for e in api.audit() if e["outcome"] == "failed"]
    assert (failed["operation"], failed["code"]) == (tool, "target_changed")


def test_defect_7_of_two_removals_at_one_place_the_second_is_not_what_was_agreed_to(api: Gated) -> None:
    first, second = api.propose(remove(id="c1"), remove(id="c2"))
    decided = [{"id": id, "decision": "confirm"} for id in (first, second)]
    api.gateway.script(DONE)
    assert [one["outcome"] for one in api.decide(*decided).body["decisions"]] == ["succeeded", "failed"]
    assert api.rows("weight") == WEIGHTS[1:]


def test_defect_7_all_data_is_replaced_only_as_it_was_when_the_person_was_asked(api: Gated) -> None:
    """A row that came meanwhile would be lost unseen."""
    [proposal] = api.propose(call("write_manifest_data", {"id": "weight", "data": WEIGHTS[:1]}))
    assert api.open()[0]["target"]["rows"] == 2
    api("POST", "/api/manifests/weight/rows", {"value": {"date": "2026-04-15", "kg": 84.0}})
    api.confirm(proposal, says("It has changed."))
    assert api.told()[-1]["code"] == "target_changed"
    assert len(api.rows("weight") or []) == 3
    [again] = api.propose(call("write_manifest_data", {"id": "weight", "data": WEIGHTS[:1]}))
    api.confirm(again, DONE)
    assert api.rows("weight") == WEIGHTS[:1]


def test_defect_7_a_card_that_holds_more_by_now_or_is_another_one_is_not_deleted(api: Gated) -> None:
    [proposal] = api.propose(delete())
    [shown] = api.open()
    assert (shown["target"]["label"], shown["target"]["rows"]) == ("Weight", 2)
    api("POST", "/api/manifests/weight/rows", {"value": {"date": "2026-04-15", "kg": 84.0}})
    api.confirm(proposal, says("There is more in it."))
    assert api.told()[-1]["code"] == "target_changed"
    [before] = api.propose(delete("mood"))
    assert "target" not in api.open()[0]
    api.cards("mood")
    api.confirm(before, says("That is a new one."))
    assert api.told()[-1]["code"] == "target_changed"
    assert api.rows("mood") == WEIGHTS


def test_defect_7_a_manifest_loses_what_the_person_was_told_and_no_more(api: Gated) -> None:
    def reminders(*ids: str) -> dict[str, Any]:
        trigger = {"type": "daily", "time": "09:00"}
        items = [{"id": id, "label": id, "title": id, "body": "Go", "trigger": trigger} for id in ids]
        return {"meta": {"notifications": {"enabled": True, "items": items}}}

    def patched(*ids: str) -> int:
        return api("PATCH", "/api/manifests/weight", reminders(*ids)).status

    assert patched("a", "b") == 200
    [proposal] = api.propose(call("patch_manifest", {"id": "weight", "patch": reminders("a")}))
    assert api.open()[0]["target"] == ["reminder b"]
    assert patched("a", "b", "c") == 200
    api.confirm(proposal, says("There is another one."))
    assert api.told()[-1]["code"] == "target_changed"
    [again] = api.propose(call("patch_manifest", {"id": "weight", "patch": reminders("a", "c")}))
    assert api("PATCH", "/api/manifests/weight", {"description": "What else changes does not matter"}).status == 200
    api.confirm(again, DONE)
    assert api.told()[-1]["ok"] is True


@pytest.mark.parametrize(
    ("tool", "more"), [("append_row", {"value": {"n": 3}}), ("reorder_rows", {"key": "n", "order": [2, 1]})]
)
def test_defect_7_a_position_on_the_way_to_a_list_is_held_on_to(store: ItemStore, tool: str, more: Any) -> None:
    with gated(store, CONFIRM_WRITES="all") as api:
        for name in ("Zinc", "Iron"):
            row = {"name": name, "doses": [{"n": 1}, {"n": 2}]}
            assert api("POST", "/api/manifests/weight/rows", {"value": row}).status == 201
        [proposal] = api.propose(call(tool, {"id": "weight", "path": "[index=2].doses", **more}))
        assert api.open()[0]["target"]["name"] == "Zinc"
        rows = api("GET", "/api/manifests/weight/rows").body["rows"]
        api("DELETE", f"/api/manifests/weight/rows/{rows[0]['rowId']}")
        before = api.rows("weight")
        api.confirm(proposal, DONE)
        assert (api.told()[-1]["code"], api.rows("weight")) == ("target_changed", before)
        [named] = api.propose(call(tool, {"id": "weight", "path": '[name="Iron"].doses', **more}))
        assert "target" not in api.open()[0], "what the path names by what it is stays that, wherever it moves"
        api("PATCH", f"/api/manifests/weight/rows/{rows[3]['rowId']}", {"changes": {"note": "with food"}})
        api.confirm(named, DONE)
        assert api.told()[-1]["ok"] is True


def test_defect_7_what_else_changed_meanwhile_does_not_matter(api: Gated) -> None:
    [proposal] = api.propose(remove(row=1))
    api("POST", "/api/manifests/weight/rows", {"value": {"date": "2026-04-15", "kg": 84.0}})
    api.confirm(proposal, DONE)
    assert api.told()[-1]["removed"] == WEIGHTS[1]


@pytest.mark.parametrize("path", ["[index=7]", '[date="2020-01-01"]', "[", "rows"])
def test_defect_6_a_place_where_nothing_is_is_not_asked_about(api: Gated, path: str) -> None:
    api.say("Remove it.", asks(call("remove_row", {"id": "weight", "path": path})), DONE)
    assert api.told()[-1]["code"] in ("no_match", "bad_path", "wrong_type")
    assert api.open() == []


def test_defect_6_what_a_call_would_change_is_shown_unless_it_is_long(api: Gated) -> None:
    api("POST", "/api/manifests/weight/rows", {"value": {"date": "2026-04-15", "note": "x" * 5_000}})
    renaming = call("rename_data_field", {"id": "weight", "from_key": "kg", "to_key": "kilos"}, id="c3")
    _, long, _ = api.propose(remove(id="c1"), remove(row=2, id="c2"), renaming)
    shown = {one["tool"] + str(one["arguments"].get("path", "")): one.get("target") for one in api.open()}
    assert shown == {"remove_row[index=0]": WEIGHTS[0], "remove_row[index=2]": None, "rename_data_field": None}
    row = api("GET", "/api/manifests/weight/rows").body["rows"][2]["rowId"]
    assert api("PATCH", f"/api/manifests/weight/rows/{row}", {"changes": {"note": "y" * 5_000}}).status == 200
    api.confirm(long)
    assert len(api.rows("weight") or []) == 3, "held on to all the same"


def test_defect_7_arguments_that_a_person_edited_are_their_own(api: Gated) -> None:
    [proposal] = api.propose(remove(row=1))
    api.confirm(proposal, DONE, arguments={"id": "weight", "path": "[index=0]"})
    assert api.rows("weight") == WEIGHTS[1:]


def test_defect_7_a_proposal_ends_a_quarter_of_an_hour_after_it_was_made(api: Gated) -> None:
    before = time.time()
    api.propose(delete())
    [shown] = api.open()
    ends = datetime.fromisoformat(shown["expiresAt"]).timestamp()
    assert before + 899.9 <= ends <= time.time() + 900.1


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-5, 5, allow_nan=False)
    | st.text("ab\u00e9", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("abc", max_size=2), JSON, max_size=4)


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON: 1, 1.0 and true apart, 0.0 and -0.0 too."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


@given(OBJECTS)
def test_defect_7_the_hash_is_of_the_object_however_it_is_written(value: dict[str, Any]) -> None:
    turned = json.dumps(dict(reversed(value.items())), indent=3)
    assert arguments_hash(turned) == arguments_hash(dumps(value))


@given(OBJECTS, OBJECTS)
def test_defect_7_other_arguments_have_another_hash(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert (arguments_hash(dumps(left)) == arguments_hash(dumps(right))) == same(left, right)


# -- 8: no stop, no time budget, no usage, no reattach


def test_defect_8_what_the_model_used_is_counted_before_and_after_the_decision(api: Gated) -> None:
    proposing = api.say("Please.", asks(delete(), usage=Usage(100, 10)))
    going = api.confirm(proposing.body["proposals"][0]["id"], says("Gone.", usage=Usage(200, 20)))
    assert (proposing.body["usage"]["inputTokens"], going.body["usage"]["inputTokens"]) == (100, 200)
    [day] = api("GET", "/api/usage").body["days"]
    assert (day["inputTokens"], day["outputTokens"]) == (300, 30)


def test_defect_8_who_comes_back_sees_what_the_turn_waits_for(api: Gated) -> None:
    frames = api.say("Please.", asks(read(), delete()), stream=True).frames
    again = api("GET", f"/api/chat/turn/{api.talk}").frames
    assert again == frames
    assert [frame.name for frame in again][-3:] == ["proposal", "reply", "done"]


def test_defect_8_the_turn_after_a_decision_has_a_budget_too(store: ItemStore) -> None:
    with gated(store, CHAT_MAX_TURNS="1") as api:
        [proposal] = api.propose(delete())
        answer = api.confirm(proposal, asks(read("mood", id="r1")))
        assert (answer.status, answer.body["cappedBy"]) == (200, "steps")


# -- 10: one after another, and without bounds


def test_defect_10_reads_of_a_step_run_side_by_side_beside_a_call_that_waits(
    api: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = REGISTRY.find("read_manifest_rows")
    assert known is not None
    together = threading.Barrier(3)

    def run(caller: Any, given: Any) -> Any:
        together.wait(30)
        return known.run(caller, given)

    monkeypatch.setitem(REGISTRY._operations, known.name, replace(known, run=run))
    [proposal] = api.propose(read(id="r1"), read(id="r2"), read(id="r3"), delete())
    api.confirm(proposal, DONE)
    assert [told.get("rows", told.get("ok")) for told in api.told()] == [api.told()[0]["rows"]] * 3 + [True]


def test_defect_10_a_result_is_bounded_when_it_is_sent_and_when_it_is_replayed(api: Gated) -> None:
    for _ in range(3):
        api("POST", "/api/manifests/weight/rows", {"value": {"note": "x" * 60_000}})
    api.say("Read.", asks(read()), DONE)
    api.say("Again.", DONE)
    for number in (1, 2):
        [result] = [m["content"] for m in api.gateway.messages(number) if m["role"] == "tool"]
        assert len(result) <= MAX_RESULT_CHARS
        assert json.loads(result)


def test_defect_10_what_a_confirmed_call_answers_is_bounded_too(api: Gated) -> None:
    for n in range(2):
        api("POST", "/api/manifests/weight/rows", {"value": {"date": f"2026-05-0{n + 1}", "note": "x" * 100_000}})
    [proposal] = api.propose(call("remove_row", {"id": "weight", "path": "[index=2]"}))
    api.confirm(proposal, DONE)
    [result] = [m["content"] for m in api.gateway.messages() if m["role"] == "tool"]
    assert len(result) <= MAX_RESULT_CHARS
    assert len(api.rows("weight") or []) == 3
