"""The confirm gate from end to end: what waits, what a yes does exactly once, and how the turn goes on."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deckhand.domain.errors import GatewayFailed
from deckhand.domain.principal import Principal
from deckhand.storage.port import ItemStore
from deckhand.storage.sqlite import SqliteStore
from deckhand.turns import decision
from tests.api import ANN
from tests.fakes import Gate, asks, says
from tests.gated import DONE, PROPOSALS, WEIGHTS, Gated, Make, append, delete, read, remove, rewritten, run_out
from tests.invariants import check_request

# -- proposing


def test_004_21_a_gated_write_waits_and_nothing_runs(api: Gated) -> None:
    answer = api.say("Remove it.", asks(delete(), text="I will remove the card."))
    assert answer.status == 200
    [proposal] = answer.body["proposals"]
    assert answer.body["reply"] == "I will remove the card."
    assert "messageId" not in answer.body
    assert (proposal["tool"], proposal["arguments"], proposal["destructive"]) == (
        "delete_manifest",
        {"id": "weight"},
        True,
    )
    assert api.rows("weight") == WEIGHTS
    assert len(api.gateway.requests) == 1, "004-25: the model is not asked while a call waits"


def test_the_stream_shows_the_proposal_and_says_what_the_turn_waits_for(api: Gated) -> None:
    stream = api.say("Remove it.", asks(delete()), stream=True).stream
    frames = list(stream)
    assert [frame.name for frame in frames] == ["status", "proposal", "reply", "done"]
    assert frames[-1].data["status"] == "awaiting_confirmation"
    assert frames[1].data == frames[2].data["proposals"][0]
    assert all(frame.id is not None for frame in frames)


def test_004_22_a_step_with_both_runs_the_reads_at_once_and_proposes_the_writes(api: Gated) -> None:
    [proposal] = api.propose(delete(), read())
    api.confirm(proposal, DONE)
    deleted, rows = api.told()
    assert deleted["ok"] is True
    assert rows["rows"], "case 35: the read ran before the write, and its result was kept"


def test_case_35_results_go_back_in_call_order_also_from_a_fresh_process(store: ItemStore, make: Make) -> None:
    first = make()
    [proposal] = first.propose(read(id="r1"), remove(id="w1"), read(id="r2"))
    fresh = Gated(store)
    fresh.talk = first.talk
    assert [one["id"] for one in fresh.open()] == [proposal], "a page that is loaded again shows the pending card"
    assert fresh.confirm(proposal, DONE).body["reply"] == "Done."
    sent = fresh.gateway.messages()
    check_request(sent)
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ["r1", "w1", "r2"]
    fresh.close()


def test_004_28_text_before_a_call_is_kept_with_it(api: Gated) -> None:
    [proposal] = api.propose(delete(), text="I will remove the card.")
    api.confirm(proposal, DONE)
    [spoken] = [message for message in api.gateway.messages() if message.get("tool_calls")]
    assert spoken["content"] == "I will remove the card."


def test_a_free_write_behind_a_call_that_waits_is_not_run_out_of_order(api: Gated) -> None:
    [proposal] = api.propose(remove(), append())
    assert api.rows("weight") == WEIGHTS
    api.confirm(proposal, DONE)
    removed, appended = api.told()
    assert removed["ok"] is True
    assert appended["code"] == "not_run"
    assert api.rows("weight") == WEIGHTS[1:]


def test_a_free_write_before_it_runs(api: Gated) -> None:
    api.propose(append(), remove())
    assert len(api.rows("weight") or []) == 3


def test_arguments_that_cannot_be_used_are_told_to_the_model_and_propose_nothing(api: Gated) -> None:
    answer = api.say("Remove it.", asks(delete(unknown=1)), DONE)
    assert answer.body["reply"] == "Done."
    assert api.told()[0]["code"] == "invalid_arguments"
    assert api.open() == []


def test_a_card_that_is_not_there_may_be_proposed_and_fails_when_it_is_confirmed(api: Gated) -> None:
    [proposal] = api.propose(delete("nothing"))
    assert api.confirm(proposal, DONE).status == 200
    assert api.told()[0]["code"] == "unknown_manifest"
    [entry] = [e for e in api.audit() if e["outcome"] == "failed"]
    assert (entry["operation"], entry["code"]) == ("delete_manifest", "unknown_manifest")


@pytest.mark.parametrize("mode", ["all", "destructive", "none"])
def test_the_switch_says_which_writes_are_asked_for(make: Make, mode: str) -> None:
    api = make(CONFIRM_WRITES=mode)
    answer = api.say("Log it.", asks(append()), *([] if mode == "all" else [DONE]))
    assert ("proposals" in answer.body) == (mode == "all")
    answer = api.say("Remove it.", asks(remove()), *([DONE] if mode == "none" else []))
    assert ("proposals" in answer.body) == (mode != "none")
    for proposal in reversed(api.open()):
        api.reject(proposal["id"], DONE)


# -- deciding


def test_004_23_a_yes_runs_the_call_and_the_turn_goes_on(api: Gated) -> None:
    [proposal] = api.propose(delete())
    answer = api.confirm(proposal, says("The card is gone."))
    assert (answer.status, answer.body["reply"]) == (200, "The card is gone.")
    assert api.rows("weight") is None
    assert api.told() == [{"ok": True, "id": "weight", "removed": True}]
    assert answer.body["cards"] == [{"id": "weight", "change": "removed"}]
    assert api.texts(api.talk) == ["Please.", "The card is gone."]
    assert api.open() == []


def test_004_23_a_no_never_runs_it_and_the_model_is_told(api: Gated) -> None:
    [proposal] = api.propose(delete())
    answer = api.reject(proposal, says("It stays."), reason="I still need it.")
    assert answer.body["reply"] == "It stays."
    assert api.rows("weight") == WEIGHTS
    assert api.told()[0]["status"] == "rejected"
    assert api.told()[0]["reason"] == "I still need it."


def test_004_51_the_reply_after_a_yes_streams_and_can_be_replayed(api: Gated) -> None:
    [proposal] = api.propose(delete())
    frames = api.confirm(proposal, says("It ", "is ", "gone."), stream=True).frames
    assert [f.data["text"] for f in frames if f.name == "token"] == ["It ", "is ", "gone."]
    again = api("GET", f"/api/chat/turn/{api.talk}", headers={"Last-Event-ID": str(frames[0].id)}).frames
    assert again == frames[1:]


def test_004_51_the_turn_after_a_yes_can_be_stopped(api: Gated) -> None:
    [proposal], gate = api.propose(delete()), Gate()
    stream = api.confirm(proposal, ["It ", gate, *says("is gone.")], stream=True).stream
    gate.wait_reached()
    assert api("DELETE", f"/api/chat/turn/{api.talk}").status == 200
    gate.open()
    assert list(stream)[-1].data["status"] == "stopped"
    assert api.rows("weight") is None, "what was done stays done"
    assert api.shown(api.talk)[-1]["stopped"] is True


def test_the_turn_goes_on_only_after_the_last_decision(api: Gated) -> None:
    first, second = api.propose(remove(row=1, id="w1"), delete(id="w2"))
    answer = api.confirm(first)
    assert answer.body == {
        "status": "awaiting_confirmation",
        "open": [second],
        "id": first,
        "outcome": "succeeded",
    }
    assert len(api.gateway.requests) == 1
    assert api.reject(second, DONE).body["reply"] == "Done."
    assert [told.get("ok", told.get("status")) for told in api.told()] == [True, "rejected"]


def test_several_decisions_in_one_request(api: Gated) -> None:
    first, second = api.propose(remove(row=1, id="w1"), delete(id="w2"))
    api.gateway.script(DONE)
    given = {"decisions": [{"id": first, "decision": "confirm"}, {"id": second, "decision": "reject"}]}
    answer = api("POST", f"{PROPOSALS}/decisions", given)
    assert answer.body["reply"] == "Done."
    assert [one["outcome"] for one in answer.body["decisions"]] == ["succeeded", "rejected"]
    assert api.rows("weight") == WEIGHTS[:1]


def test_a_stream_tells_what_became_of_each_of_several_decisions_and_so_does_its_replay(api: Gated) -> None:
    """In the words of the buffered answer: the reply is that object."""
    first, second = api.propose(remove(row=1, id="w1"), delete(id="w2"))
    unusable = {"id": second, "decision": "confirm", "arguments": {"id": 7}}
    waits = api.decide({"id": first, "decision": "reject"}, unusable, stream=True)
    assert (waits.body["status"], waits.body["open"]) == ("awaiting_confirmation", [second])
    api.gateway.script(DONE)
    frames = api.decide({"id": first, "decision": "confirm"}, {"id": second, "decision": "reject"}, stream=True).frames
    reply = next(frame.data for frame in frames if frame.name == "reply")
    assert [one.get("code", one.get("outcome")) for one in reply["decisions"]] == ["already_decided", "rejected"]
    assert [one["id"] for one in reply["decisions"]] == [first, second]
    assert api("GET", f"/api/chat/turn/{api.talk}").frames == frames


def test_a_stream_tells_what_was_decided_where_the_turn_fails_or_is_stopped(api: Gated) -> None:
    for closing in ("error", "stopped"):
        [proposal] = api.propose(remove(row=0, id="w1"))
        gate = Gate()
        api.gateway.script([gate, GatewayFailed()] if closing == "error" else ["I ", gate, *says("never")])
        stream = api.decide({"id": proposal, "decision": "confirm"}, stream=True).stream
        gate.wait_reached()
        if closing == "stopped":
            assert api("DELETE", f"/api/chat/turn/{api.talk}").status == 200
        else:
            gate.open()
        told = next(frame.data for frame in list(stream) if frame.name == closing)
        assert told["decisions"] == [{"id": proposal, "outcome": "succeeded"}]
        gate.open()


def test_one_of_several_decisions_that_comes_too_late_is_told_and_the_others_count(api: Gated) -> None:
    first, second = api.propose(remove(row=1, id="w1"), delete(id="w2"))
    api.confirm(first)
    api.gateway.script(DONE)
    given = {"decisions": [{"id": first, "decision": "reject"}, {"id": second, "decision": "reject"}]}
    answer = api("POST", f"{PROPOSALS}/decisions", given)
    assert [one.get("code", one.get("outcome")) for one in answer.body["decisions"]] == ["already_decided", "rejected"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"decisions": []},
        {"decisions": [{"id": "x"}]},
        {"decisions": [{"id": "x", "decision": "maybe"}]},
        {"decisions": "x"},
    ],
)
def test_decisions_that_cannot_be_used_are_refused(api: Gated, given: Any) -> None:
    assert api("POST", f"{PROPOSALS}/decisions", given).refusal == (422, "invalid")


def test_arguments_can_be_edited_and_are_validated_again(api: Gated) -> None:
    api.cards("mood")
    [proposal] = api.propose(delete())
    assert api.confirm(proposal, arguments={"id": 7}).refusal == (422, "invalid")
    assert api.confirm(proposal, arguments={"id": "weight", "if_match": 1}).refusal == (422, "invalid")
    many = api.confirm(proposal, arguments={"id": "weight", **{f"k{n}": n for n in range(3_000)}})
    assert (many.status, len(str(many.body)) < 3_000) == (422, True)
    assert api.confirm(proposal, arguments={"id": "mood", "x": 1}).refusal == (422, "invalid")
    assert api.confirm(proposal, DONE, arguments={"id": "mood"}).status == 200
    assert api.rows("mood") is None
    assert api.rows("weight") == WEIGHTS
    [told] = api.told()
    assert told["arguments"] == {"id": "mood"}, "the history has the model's own, so it is told what was run"
    assert told["result"]["ok"] is True


def test_004_24_a_second_yes_is_told_the_outcome_and_runs_nothing(api: Gated) -> None:
    [proposal] = api.propose(remove())
    api.confirm(proposal, DONE)
    again = api.confirm(proposal)
    assert again.refusal == (409, "already_decided")
    assert again.body["outcome"] == "succeeded"
    assert api.reject(proposal).refusal == (409, "already_decided")
    assert api.rows("weight") == WEIGHTS[1:]


def test_what_is_not_decided_in_time_cannot_be_decided_any_more(store: SqliteStore, make: Make) -> None:
    api = make(CHAT_PROPOSAL_TTL_MS="1000")
    [proposal] = api.propose(delete())
    run_out(store, proposal)
    assert api.confirm(proposal).refusal == (410, "expired")
    assert api.reject(proposal).refusal == (410, "expired")
    assert api.open() == []
    assert api.say("And now?", says("It ran out.")).body["reply"] == "It ran out."
    assert api.told()[0]["status"] == "expired"
    assert api.rows("weight") == WEIGHTS


def test_nobody_else_can_decide_or_see_it(api: Gated) -> None:
    [proposal] = api.propose(delete())
    for other in ("bob", "eve", "vic"):
        assert api.confirm(proposal, token=other).refusal == (404, "unknown_proposal")
        assert api.reject(proposal, token=other).refusal == (404, "unknown_proposal")
        assert api("GET", f"{PROPOSALS}?conversationId={api.talk}", token=other).status == 404
    assert api.rows("weight") == WEIGHTS


@pytest.mark.parametrize("id", ["nothing", "none.nothing", "..", "x" * 300, "a.b.c"])
def test_an_id_that_no_proposal_has_is_404(api: Gated, id: str) -> None:
    assert api.confirm(id).refusal == (404, "unknown_proposal")


def test_any_credential_of_the_person_decides(api: Gated) -> None:
    [proposal] = api.propose(delete())
    secret = api("POST", "/api/tokens", {"name": "phone", "role": "owner"}).body["secret"]
    assert api.confirm(proposal, DONE, token=secret).status == 200
    assert api.rows("weight") is None


def test_defect_9_who_was_demoted_meanwhile_cannot_confirm(api: Gated, store: ItemStore) -> None:
    [proposal] = api.propose(delete())
    people = api.parts.__dict__
    demoted = Principal(kind="user", id="ann", user="ann", role="viewer")
    with_rights = people["authenticate"]
    people["authenticate"] = lambda request: demoted if with_rights(request) == ANN else with_rights(request)
    fresh = api.parts.chat_app()
    api._chat = fresh
    assert api.confirm(proposal).refusal == (403, "forbidden")
    assert api.rows("weight") == WEIGHTS
    assert [one["id"] for one in api.open()] == [proposal], "it can still be rejected, or confirmed by who may"


def test_a_deleted_conversation_takes_its_proposals_with_it(api: Gated) -> None:
    [proposal] = api.propose(delete())
    api("DELETE", f"/api/conversations/{api.talk}")
    assert api.confirm(proposal).status == 404
    assert api.rows("weight") == WEIGHTS


# -- meanwhile


def test_nothing_is_done_for_a_conversation_whose_deletion_did_not_come_to_its_end(
    api: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    [first, second] = api.propose(delete(), remove(id="c2"))
    with monkeypatch.context() as dying:
        dying.setattr("deckhand.storage.deletion.finish_deletion", lambda *_: None)
        assert api("DELETE", f"/api/conversations/{api.talk}").status == 200
    assert api.confirm(first).refusal == (404, "unknown_conversation")
    assert api.reject(second).refusal == (404, "unknown_conversation")
    assert api.rows("weight") == WEIGHTS


def test_defect_5_a_message_that_comes_while_a_call_waits_is_answered(api: Gated) -> None:
    [proposal] = api.propose(delete())
    answer = api.say("What was my last weight?", says("85.0 kg."))
    assert answer.body["reply"] == "85.0 kg."
    [waiting] = api.told()
    assert (waiting["status"], waiting["confirmationId"]) == ("awaiting_confirmation", proposal)
    check_request(api.gateway.messages())
    assert [one["id"] for one in api.open()] == [proposal], "the button still works"


def test_a_button_still_works_after_other_turns_and_the_model_is_told_at_the_end(api: Gated) -> None:
    [proposal] = api.propose(delete())
    api.say("What was my last weight?", says("85.0 kg."))
    assert api.confirm(proposal, says("It is gone.")).body["reply"] == "It is gone."
    last = api.gateway.messages()[-1]
    assert last["role"] == "user"
    assert '"ok":true' in last["content"]
    check_request(api.gateway.messages())
    assert api.texts(api.talk) == ["Please.", "What was my last weight?", "85.0 kg.", "It is gone."]


def test_001_72_the_model_spends_the_confirmation_after_the_next_message(api: Gated) -> None:
    [proposal] = api.propose(delete())
    answer = api.say("Yes, do.", asks(delete(confirmationId=proposal)), says("Done."))
    assert answer.body["reply"] == "Done."
    assert api.rows("weight") is None
    assert api.open() == []
    assert answer.body["cards"] == [{"id": "weight", "change": "removed"}]


def test_a_confirmation_is_never_spent_within_the_turn_that_proposed_it(api: Gated) -> None:
    """Nor in the one that only goes on from a decision: no message of the person came between."""
    first, second = api.propose(remove(row=1, id="w1"), delete(id="w2"))
    api.confirm(first)
    api.reject(second, asks(delete(confirmationId=second)), DONE)
    assert api.told()[-1]["code"] in ("not_confirmed", "already_decided")
    assert api.rows("weight") == WEIGHTS[:1]


@pytest.mark.parametrize("changed", ["arguments", "tool", "id"])
def test_001_74_a_confirmation_for_another_call_writes_nothing(api: Gated, changed: str) -> None:
    api.cards("mood")
    [proposal] = api.propose(delete())
    spent = {
        "arguments": delete("mood", confirmationId=proposal),
        "tool": remove(confirmationId=proposal),
        "id": delete(confirmationId=f"{api.talk}.other"),
    }[changed]
    api.say("Yes.", asks(spent), DONE)
    assert api.told()[-1]["code"] in ("confirmation_mismatch", "unknown_proposal")
    assert api.rows("weight") == api.rows("mood") == WEIGHTS


def test_a_confirmation_of_another_conversation_writes_nothing(api: Gated) -> None:
    [proposal] = api.propose(delete())
    api.talk = api.conversation()
    api.say("Yes.", asks(delete(confirmationId=proposal)), DONE)
    assert api.told()[-1]["code"] == "confirmation_mismatch"
    assert api.rows("weight") == WEIGHTS


def test_a_confirmation_is_spent_once(api: Gated) -> None:
    [proposal] = api.propose(remove())
    api.say("Yes.", asks(remove(confirmationId=proposal)), DONE)
    api.say("Again.", asks(remove(confirmationId=proposal)), DONE)
    assert api.told()[-1]["code"] == "already_decided"
    assert api.rows("weight") == WEIGHTS[1:]
    assert api.confirm(proposal).refusal == (409, "already_decided")


def test_all_that_waits_for_a_person_is_listed_the_newest_first_wherever_it_was_asked_for(
    api: Gated, store: ItemStore
) -> None:
    api.cards("mood")
    [first] = api.propose(delete())
    api.gateway.script(asks(remove("mood")))
    answer = api("POST", "/api/chat", {"messages": [{"role": "user", "content": "Remove it."}]})
    second = answer.body["proposals"][0]["id"]
    here, api.talk = api.talk, api.conversation()
    third, late = api.propose(remove("mood", row=1), delete("mood", id="c2"))
    run_out(store, late)

    def listed(**caller: Any) -> list[str]:
        return [one["id"] for one in api("GET", PROPOSALS, **caller).body["proposals"]]

    assert listed() == [third, second, first]
    shown = api("GET", PROPOSALS).body["proposals"]
    assert [one["conversationId"] for one in shown] == [api.talk, None, here]
    assert listed(token=api.token("agent", cards=["weight"])) == [first], "what a narrowed token may decide"
    api.reject(third, DONE)
    assert listed() == [second, first]
    assert api.confirm(second).body["outcome"] == "succeeded"
    assert listed() == [first]
    assert api("DELETE", f"/api/conversations/{here}").status == 200
    assert listed() == []


def test_the_list_of_all_that_waits_is_bounded(api: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision, "MAX_LISTED", 2)
    made = api.propose(*(remove(id=f"c{n}") for n in range(3)))
    listed = [one["id"] for one in api("GET", PROPOSALS).body["proposals"]]
    assert len(listed) == 2
    assert set(listed) < set(made)
    api.decide({"id": listed[0], "decision": "confirm"}, {"id": listed[1], "decision": "reject"})
    [left] = api("GET", PROPOSALS).body["proposals"]
    assert {left["id"], *listed} == set(made), "what is decided takes no place in it"


def test_what_is_taken_back_from_a_dead_process_is_listed_again(api: Gated, store: ItemStore) -> None:
    [proposal] = api.propose(delete())
    rewritten(store, proposal, state="executing", lease_until=1.0, decided_at=0.0)
    assert [one["state"] for one in api("GET", PROPOSALS).body["proposals"]] == ["proposed"]


def test_a_turn_over_the_clients_transcript_proposes_and_its_call_is_decided_by_button(api: Gated) -> None:
    api.gateway.script(asks(delete()))
    answer = api("POST", "/api/chat", {"messages": [{"role": "user", "content": "Remove it."}]})
    [proposal] = answer.body["proposals"]
    [shown] = api("GET", PROPOSALS).body["proposals"]
    assert shown["id"] == proposal["id"]
    decided = api.confirm(proposal["id"])
    assert decided.body == {
        "status": "decided",
        "id": proposal["id"],
        "outcome": "succeeded",
        "result": {"ok": True, "id": "weight", "removed": True},
    }
    assert api.rows("weight") is None


def test_only_tools_that_may_wait_take_a_confirmation(api: Gated) -> None:
    api.say("Hello.", says("Hi."))
    takes = {
        tool["function"]["name"]
        for tool in api.gateway.requests[0].tools
        if "confirmationId" in tool["function"]["parameters"]["properties"]
    }
    assert {"delete_manifest", "remove_row", "rename_data_field", "remove_notification"} <= takes
    assert not {"append_row", "list_manifests", "read_manifest_rows"} & takes


# -- keys


def test_a_repeated_yes_with_its_key_joins_the_turn_that_the_first_one_started(api: Gated) -> None:
    [proposal] = api.propose(delete())
    key = {"Idempotency-Key": "k1"}
    first = api.confirm(proposal, says("Gone."), headers=key)
    second = api.confirm(proposal, headers=key)
    assert second.body == first.body
    assert api.texts(api.talk) == ["Please.", "Gone."]


def test_a_repeated_yes_with_its_key_says_again_what_is_still_open(api: Gated) -> None:
    first, second = api.propose(remove(row=1, id="w1"), delete(id="w2"))
    key = {"Idempotency-Key": "k1"}
    assert api.confirm(first, headers=key).body == api.confirm(first, headers=key).body
    assert api.rows("weight") == WEIGHTS[:1]
    api.reject(second, DONE)


# -- standing yeses

UNTIL = "2099-01-01T00:00:00Z"


def until(days: int) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).isoformat()


def test_a_standing_yes_lets_the_same_tool_on_the_same_card_run(api: Gated) -> None:
    api.cards("mood")
    [proposal] = api.propose(remove())
    made = api("POST", "/api/grants", {"proposalId": proposal, "until": until(7)})
    assert made.status == 201
    assert (made.body["operation"], made.body["card"]) == ("remove_row", "weight")
    api.reject(proposal, DONE)
    assert api.say("Remove it.", asks(remove()), says("Removed.")).body["reply"] == "Removed."
    assert api.rows("weight") == WEIGHTS[1:]
    assert "proposals" in api.say("And here.", asks(remove("mood"))).body, "another card"
    assert "proposals" in api.say("And the card.", asks(delete())).body, "another tool"
    assert api("DELETE", f"/api/grants/{made.body['id']}").body == {"ok": True}
    assert "proposals" in api.say("Once more.", asks(remove())).body, "revoked"


@pytest.mark.parametrize("when", ["yesterday", UNTIL, "2001-01-01T00:00:00Z"])
def test_a_standing_yes_ends_within_ninety_days(api: Gated, when: str) -> None:
    [proposal] = api.propose(remove())
    assert api("POST", "/api/grants", {"proposalId": proposal, "until": when}).refusal == (422, "invalid")
    assert api("GET", "/api/grants").body == {"grants": []}


def test_a_standing_yes_is_its_owners(api: Gated) -> None:
    [proposal] = api.propose(remove())
    assert api("POST", "/api/grants", {"proposalId": proposal, "until": until(1)}, token="bob").status == 404
    api("POST", "/api/grants", {"proposalId": proposal, "until": until(1)})
    [grant] = api("GET", "/api/grants").body["grants"]
    assert api("GET", "/api/grants", token="bob").body == {"grants": []}
    assert api("DELETE", f"/api/grants/{grant['id']}", token="bob").refusal == (404, "unknown_grant")


# -- audit


def test_each_change_is_in_the_audit_with_who_and_why_and_no_content(api: Gated) -> None:
    [proposal] = api.propose(remove())
    api.confirm(proposal, DONE)
    entries = api.audit()
    confirmed = next(e for e in entries if e["outcome"] == "confirmed")
    done = next(e for e in entries if e["operation"] == "remove_row" and e["outcome"] == "succeeded")
    assert confirmed["principal"] == done["principal"] == "user:ann"
    assert (done["channel"], done["card"], done["proposalId"], done["callId"]) == ("chat", "weight", proposal, "c1")
    assert done["conversation"] == api.talk
    assert done["turnId"] == confirmed["turnId"]
    assert done["policies"]
    assert "85.5" not in json.dumps(entries)


def test_the_audit_is_read_in_pages_both_ways_by_owners_only(api: Gated) -> None:
    every = api.audit()
    assert len(every) >= 2
    first = api("GET", "/api/audit?limit=1").body
    second = api("GET", f"/api/audit?limit=500&after={first['next']}").body
    assert first["entries"] + second["entries"] == every
    assert api("GET", "/api/audit?limit=500&order=desc").body["entries"] == every[::-1]
    for other in ("eve", "vic", "agent"):
        assert api("GET", "/api/audit", token=other).refusal == (403, "forbidden")


def test_a_refusal_is_in_the_audit(api: Gated) -> None:
    assert api("DELETE", "/api/manifests/weight", token="vic").refusal == (403, "forbidden")
    [entry] = [e for e in api.audit() if e["outcome"] == "denied"]
    assert (entry["principal"], entry["operation"], entry["card"]) == ("user:vic", "delete_manifest", "weight")


# -- the switch


def test_004_46_the_switch_stops_the_model_at_once_and_reading_goes_on(api: Gated) -> None:
    [proposal] = api.propose(delete())
    assert api("PUT", "/api/agent/switches", {"scope": "all", "enabled": False}).body == {"ok": True, "stopped": 0}
    for refused in (api.say("Hello."), api.confirm(proposal), api.reject(proposal)):
        assert refused.refusal == (403, "agent_switched_off")
    assert api.rows("weight") == WEIGHTS
    assert api.texts(api.talk) == ["Please."]
    assert [one["id"] for one in api.open()] == [proposal]
    api("PUT", "/api/agent/switches", {"scope": "all", "enabled": True})
    assert api.confirm(proposal, DONE).status == 200


@pytest.mark.parametrize(("scope", "id"), [("user", "ann"), ("token", "agent")])
def test_the_switch_concerns_one_user_or_one_token(api: Gated, scope: str, id: str) -> None:
    api("PUT", "/api/agent/switches", {"scope": scope, "id": id, "enabled": False})
    who, other = ("ann", "bob") if scope == "user" else ("agent", "ann")
    body = {"messages": [{"role": "user", "content": "Hello."}]}
    assert api("POST", "/api/chat", body, token=who).refusal == (403, "agent_switched_off")
    api.gateway.script(says("Hi."))
    assert api("POST", "/api/chat", body, token=other).status == 200


def test_a_turn_that_runs_is_stopped_by_the_switch(api: Gated) -> None:
    gate = Gate()
    stream = api.say("Hello.", [gate, *says("Hi.")], stream=True).stream
    gate.wait_reached()
    assert api("PUT", "/api/agent/switches", {"scope": "user", "id": "ann", "enabled": False}).body["stopped"] == 1
    gate.open()
    assert list(stream)[-1].data["status"] == "stopped"


def test_only_owners_switch(api: Gated) -> None:
    for other in ("eve", "vic", "agent"):
        assert api("PUT", "/api/agent/switches", {"scope": "all", "enabled": False}, token=other).status == 403
    assert api("GET", "/api/agent/switches").body == {"off": []}


@pytest.mark.parametrize(
    ("scope", "id", "code"),
    [
        ("user", "anne", "unknown_user"),
        ("user", "u" * 200, "unknown_user"),
        ("token", "agnet", "unknown_token"),
        ("token", "t" * 200, "unknown_token"),
        ("token", "ann", "unknown_token"),
    ],
)
def test_nobody_is_switched_off_or_on_who_is_not_there(api: Gated, scope: str, id: str, code: str) -> None:
    for enabled in (False, True):
        wish = {"scope": scope, "id": id, "enabled": enabled}
        assert api("PUT", "/api/agent/switches", wish).refusal == (404, code)
    assert api("GET", "/api/agent/switches").body == {"off": []}


@pytest.mark.parametrize("id", ["owner", "service:direct", "ann"])
def test_users_are_known_who_have_no_account_but_act(api: Gated, id: str) -> None:
    api.switch(False, "user", id)
    assert [one["id"] for one in api("GET", "/api/agent/switches").body["off"]] == [id]


def test_what_is_gone_can_still_be_switched_on(api: Gated) -> None:
    token = api("POST", "/api/tokens", {"name": "t", "role": "agent"}).body["id"]
    api.switch(False, "token", token)
    api("DELETE", f"/api/tokens/{token}")
    wish = {"scope": "token", "id": token, "enabled": False}
    assert api("PUT", "/api/agent/switches", wish).refusal == (404, "unknown_token")
    api.switch(True, "token", token)
    assert api("GET", "/api/agent/switches").body == {"off": []}


@pytest.mark.parametrize("given", [{"scope": "all", "id": "x"}, {"scope": "user"}, {"scope": "moon"}])
def test_a_switch_that_concerns_nobody_is_refused(api: Gated, given: dict[str, Any]) -> None:
    assert api("PUT", "/api/agent/switches", {**given, "enabled": False}).refusal == (422, "invalid")


# -- notices


def test_004_44_notices_carry_ids_and_actor_and_never_content(api: Gated) -> None:
    [proposal] = api.propose(delete())
    api.confirm(proposal, says("The card is gone."))
    names = [notice.name for notice in api.queue.notices]
    assert names == [
        "chat.conversation-created",
        "chat.message-created",
        "chat.proposal-opened",
        "chat.proposal-decided",
        "chat.message-created",
    ]
    told = str(api.queue.notices)
    assert proposal in told
    assert "Please" not in told
    assert "gone" not in told


# -- who may talk


def test_a_token_that_is_narrowed_to_operations_does_not_chat_unless_that_is_one_of_them(api: Gated) -> None:
    def secret(*operations: str) -> str:
        given = {"name": "n", "role": "agent", "operations": list(operations)}
        made: str = api("POST", "/api/tokens", given).body["secret"]
        return made

    narrow = secret("append_row")
    assert api.say("Hello.", token=narrow).refusal == (403, "forbidden")
    for method, path in (("GET", PROPOSALS), ("GET", f"/api/chat/turn/{api.talk}"), ("GET", "/api/chat/status")):
        assert api(method, path, token=narrow).refusal == (403, "forbidden")


def test_a_viewers_model_is_offered_reading_tools_only_and_a_forbidden_one_is_refused_all_the_same(api: Gated) -> None:
    api.talk = api("POST", "/api/conversations", {}, token="vic").body["conversation"]["id"]
    api.say("Log it.", asks(append()), DONE, token="vic")
    offered = {tool["function"]["name"] for tool in api.gateway.requests[0].tools}
    assert "read_manifest_rows" in offered
    assert not {"append_row", "delete_manifest", "create_manifest"} & offered
    assert api.told()[0]["code"] == "forbidden"
    assert api.rows("weight") == WEIGHTS
