"""Ways round the confirm gate that were open once: other people's rights, other arguments, a yes that nobody said."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from deckhand.agent.tools import OperationTools
from deckhand.operations import card_data
from deckhand.operations.registry import REGISTRY
from deckhand.storage.conversations import Owner
from deckhand.storage.port import ItemStore
from deckhand.storage.proposals import Proposals
from tests.fakes import asks, call, says
from tests.gated import DONE, WEIGHTS, Gated, Make, append, delete, remove, rewritten, run_out

NEW = {"date": "2026-04-20", "kg": 1}
OWNER = Owner("main", "ann")


def replace_all(data: list[Any], *, id: str = "c1") -> Any:
    return call("write_manifest_data", {"id": "weight", "data": data}, id=id)


def add_row(api: Gated) -> None:
    assert api("POST", "/api/manifests/weight/rows", {"value": NEW}).status == 201


def before_each_call(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], object]) -> None:
    """Does something, which is told the number of the call, when a call was let pass and before it runs."""
    real, numbers = OperationTools.run, iter(range(1, 100))

    async def run(self: OperationTools, call: Any) -> Any:
        await asyncio.to_thread(act, next(numbers))
        return await real(self, call)

    monkeypatch.setattr(OperationTools, "run", run)


# -- as whom


def test_a_turn_goes_on_with_the_rights_of_whom_it_was_for_not_of_who_decided(make: Make) -> None:
    api = make("weight", "sleep")
    narrow = api.token("agent", cards=["weight"])
    [proposal] = api.propose(remove(), token=narrow)
    assert api.confirm(proposal, asks(append("sleep")), DONE).status == 200
    assert api.told()[-1]["code"] == "forbidden"
    assert api.rows("sleep") == WEIGHTS


def test_a_turn_keeps_its_rights_when_somebody_with_fewer_decides(api: Gated) -> None:
    viewer = api.token("viewer")
    [proposal] = api.propose(remove())
    assert api.reject(proposal, asks(append()), DONE, token=viewer).status == 200
    assert api.told()[-1]["ok"] is True
    assert len(api.rows("weight") or []) == 3


def test_a_turn_that_a_job_goes_on_from_has_the_rights_of_whom_it_was_for(make: Make) -> None:
    api = make("weight", "sleep")
    narrow = api.token("agent", cards=["weight"])
    [proposal] = api.propose(remove(), token=narrow)
    api.say("What else?", [lambda: api.confirm(proposal), *says("It waits.")])
    assert len(api.work("continued_turn", asks(append("sleep")), DONE)) == 1
    assert api.told()[-1]["code"] == "forbidden"
    assert api.rows("sleep") == WEIGHTS


# -- edited arguments


def take_with_edited_arguments_and_die(store: ItemStore, proposal: str) -> None:
    stored = Proposals(store).find(OWNER, proposal)
    taken = stored.proposal.executing(time.time() - 100, by="user:ann", arguments='{"id":"sleep"}')
    Proposals(store).move(OWNER, taken, after=stored, token="taken")


def test_edited_arguments_end_with_the_attempt_that_they_were_for(make: Make, store: ItemStore) -> None:
    api = make("weight", "sleep")
    [proposal] = api.propose(delete())
    take_with_edited_arguments_and_die(store, proposal)
    assert api.open()[0]["arguments"] == {"id": "weight"}
    assert api.confirm(proposal, DONE).status == 200
    assert (api.rows("weight"), api.rows("sleep")) == (None, WEIGHTS)


def test_what_the_model_spends_is_its_own_arguments_and_not_those_of_an_attempt_that_died(
    make: Make, store: ItemStore
) -> None:
    api = make("weight", "sleep")
    [proposal] = api.propose(delete())
    take_with_edited_arguments_and_die(store, proposal)
    api.say("Yes.", asks(delete(confirmationId=proposal)), DONE)
    assert (api.rows("weight"), api.rows("sleep")) == (None, WEIGHTS)


# -- standing yeses


@pytest.mark.parametrize(
    "limits", [{"role": "viewer"}, {"role": "viewer", "cards": ["sleep"]}, {"role": "agent", "cards": ["sleep"]}]
)
def test_who_may_not_decide_gives_no_standing_yes(make: Make, limits: dict[str, Any]) -> None:
    api = make("weight", "sleep")
    other = api.token(**limits)
    [proposal] = api.propose(remove())
    assert api.grant(proposal, token=other).refusal == (403, "forbidden")
    api.reject(proposal, DONE)
    assert api.say("Again.", asks(remove())).body["proposals"]
    assert api.rows("weight") == WEIGHTS


def test_a_standing_yes_is_for_a_card(make: Make) -> None:
    api = make(CONFIRM_WRITES="all")
    [proposal] = api.propose(call("note_feedback", {"kind": "bug", "intent": "x"}))
    assert api.grant(proposal).refusal == (422, "invalid")


def test_what_was_refused_is_not_agreed_to_for_longer(api: Gated) -> None:
    [proposal] = api.propose(remove())
    api.reject(proposal, DONE)
    assert api.grant(proposal).refusal == (422, "invalid")


def test_what_failed_is_not_agreed_to_for_longer(api: Gated) -> None:
    [proposal] = api.propose(delete("nothing"))
    api.confirm(proposal, DONE)
    assert api.grant(proposal).refusal == (422, "invalid")


def test_what_ran_out_of_time_is_not_agreed_to_for_longer(api: Gated, store: ItemStore) -> None:
    [proposal] = api.propose(remove())
    run_out(store, proposal)
    assert api.grant(proposal).refusal == (422, "invalid")


def test_what_was_done_can_be_agreed_to_for_longer(api: Gated) -> None:
    [proposal] = api.propose(remove(row=1))
    api.confirm(proposal, DONE)
    assert api.grant(proposal).status == 201
    api.say("Again.", asks(remove()), DONE)
    assert api.rows("weight") == []


# -- words that are no yes


def test_a_message_that_was_queued_before_the_call_was_shown_is_no_yes(api: Gated) -> None:
    def enqueue() -> None:
        assert api.say("Also, tell me a joke.", onBusy="enqueue").status == 202

    api.say("Delete a row.", [enqueue, *asks(remove())])
    [proposal] = [one["id"] for one in api.open()]
    api.work("queued_turn", asks(remove(confirmationId=proposal)), DONE)
    assert api.told()[-1]["code"] == "not_confirmed"
    assert api.rows("weight") == WEIGHTS


def test_a_turn_that_only_goes_on_spends_no_yes(make: Make) -> None:
    """Nobody has said anything since the call was shown."""
    api = make("weight", "sleep")
    [first] = api.propose(remove("sleep"))
    [second] = api.propose(remove("sleep", row=1))
    [waiting] = api.propose(remove())
    api.reject(first, says("Left."))
    api.reject(second, asks(remove(confirmationId=waiting)), DONE)
    assert api.told()[-1]["code"] == "not_confirmed"
    assert api.rows("weight") == WEIGHTS


def test_a_job_that_goes_on_spends_no_yes(make: Make) -> None:
    api = make("weight", "sleep")
    [first] = api.propose(remove("sleep"))
    [waiting] = api.propose(remove())
    api.say("What else?", [lambda: api.reject(first), *says("It waits.")])
    api.work("continued_turn", asks(remove(confirmationId=waiting)), DONE)
    assert api.told()[-1]["code"] == "not_confirmed"
    assert api.rows("weight") == WEIGHTS


# -- what changed between looking and doing


def test_a_replacement_that_would_lose_a_row_that_came_meanwhile_is_refused(
    api: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = card_data.replace_all

    def racing(*given: Any, **more: Any) -> Any:
        add_row(api)
        return real(*given, **more)

    monkeypatch.setattr(card_data, "replace_all", racing)
    api.say("Add one.", asks(replace_all([*WEIGHTS, {"date": "2026-04-21", "kg": 2}])), DONE)
    assert api.told()[-1]["code"] == "stale_version"
    assert api.rows("weight") == [*WEIGHTS, NEW]


def test_a_replacement_that_came_to_lose_a_row_before_it_runs_is_refused(
    api: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_each_call(monkeypatch, lambda _: add_row(api))
    api.say("Write it again.", asks(replace_all(WEIGHTS)), DONE)
    assert api.told()[-1]["code"] == "forbidden"
    assert api.rows("weight") == [*WEIGHTS, NEW]


def test_a_replacement_that_loses_nothing_runs(api: Gated) -> None:
    api.say("Add one.", asks(replace_all([*WEIGHTS, NEW])), DONE)
    assert api.told()[-1]["ok"] is True
    assert api.rows("weight") == [*WEIGHTS, NEW]


# -- ids and order of calls


def granted(api: Gated) -> None:
    """From here on rows of `sleep` may be removed."""
    [proposal] = api.propose(remove("sleep"))
    assert api.grant(proposal).status == 201
    api.reject(proposal, DONE)


def test_a_call_that_has_the_id_of_one_that_was_agreed_to_is_not_agreed_to(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids are the gateway's, told apart within a step only; some count anew in each."""
    api = make("weight", "sleep")
    granted(api)
    before_each_call(monkeypatch, lambda number: add_row(api) if number == 2 else None)
    api.say("Go on.", asks(remove("sleep", id="c1")), asks(replace_all(WEIGHTS, id="c1")), DONE)
    assert api.told()[-1]["code"] == "forbidden"
    assert api.rows("weight") == [*WEIGHTS, NEW]
    assert api.rows("sleep") == WEIGHTS[1:]


def test_a_call_with_a_standing_yes_waits_behind_one_that_waits(make: Make) -> None:
    api = make("weight", "sleep")
    granted(api)
    [proposal] = api.propose(remove("weight"), remove("sleep", id="c2"))
    assert api.rows("sleep") == WEIGHTS
    api.reject(proposal, DONE)
    assert [one.get("code", one.get("status")) for one in api.told()][-2:] == ["rejected", "not_run"]


def test_a_call_that_was_agreed_to_runs_in_its_place(make: Make) -> None:
    api = make("weight", "sleep")
    [proposal] = api.propose(delete())
    api.say("Yes.", asks(append("sleep"), delete(id="c2", confirmationId=proposal)), DONE)
    assert [one["ok"] for one in api.told()[-2:]] == [True, True]
    done = [(e["operation"], e["outcome"]) for e in api.audit()][-3:]
    assert done == [("append_row", "succeeded"), ("delete_manifest", "confirmed"), ("delete_manifest", "succeeded")]


def test_a_yes_is_not_spent_behind_a_call_that_waits(make: Make) -> None:
    api = make("weight", "sleep")
    [proposal] = api.propose(remove())
    api.say("Yes.", asks(remove("sleep"), remove(id="c2", confirmationId=proposal)))
    assert api.rows("weight") == WEIGHTS
    assert proposal in [one["id"] for one in api.open()]


# -- what became of the call itself


def instead_of(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[Callable[[], Any]], Any]) -> None:
    """`act` gets the operation, to be run when it likes."""
    known = REGISTRY.find(name)
    assert known is not None
    run = known.run
    changed = replace(known, run=lambda caller, given: act(lambda: run(caller, given)))
    monkeypatch.setitem(REGISTRY._operations, name, changed)


def and_then_raise(run: Callable[[], Any]) -> None:
    run()
    raise RuntimeError("behind its effect")


def test_what_fails_behind_its_effect_is_told_as_done(api: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    instead_of(monkeypatch, "remove_row", and_then_raise)
    [proposal] = api.propose(remove())
    api.confirm(proposal, DONE)
    assert api.told()[0]["status"] == "done"
    assert api.rows("weight") == WEIGHTS[1:]
    assert api.audit()[-1]["outcome"] == "succeeded"


def test_who_was_given_up_tells_what_their_successor_did(
    api: Gated, store: ItemStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalled = list[str]()

    def stall(run: Callable[[], Any]) -> Any:
        if not stalled:
            stalled.append("once")
            rewritten(store, proposal, lease_until=0.0)
            assert api.confirm(proposal, says("Gone.")).body["reply"] == "Gone."
        return run()

    [proposal] = api.propose(delete())
    instead_of(monkeypatch, "delete_manifest", stall)
    answer = api.confirm(proposal)
    assert (answer.status, answer.body["outcome"]) == (200, "succeeded")
    effects = [e["outcome"] for e in api.audit() if e["operation"] == "delete_manifest"]
    assert effects.count("succeeded") == 1
    assert api.texts(api.talk) == ["Please.", "Gone."]


# -- the direct form, which has no buttons


def directly(api: Gated, text: str, *scripts: Any) -> str:
    api.gateway.script(*scripts)
    headers = {"X-Chat-Token": "secret"}
    answer = api("POST", "/api/chat", {"message": text, "sessionId": "s"}, token=None, headers=headers)
    assert (answer.status, set(answer.body)) == (200, {"reply", "sessionId", "model"}), answer.content
    return str(answer.body["reply"])


def test_a_direct_reply_tells_whole_what_waits_and_a_yes_in_its_session_is_the_way_to_it(
    make: Make, store: ItemStore
) -> None:
    api = make(CHAT_API_TOKEN="secret", CONFIRM_WRITES="all")
    reply = directly(api, "Log it.", asks(append(), text="I will log it."))
    first, *told = reply.splitlines()
    assert first == "I will log it."
    assert told[1:3] == [
        "Not done yet, as it needs a yes:",
        '- Append a row to a card: weight (append_row) {"id":"weight","value":{"date":"2026-04-15","kg":84.5}}',
    ]
    assert "say yes in the next message of this session" in told[3]
    assert api.rows("weight") == WEIGHTS
    [waiting] = Proposals(store).listed(Owner("main", "service:direct"), 10)
    id = waiting.proposal.id
    assert api.confirm(id).refusal == (404, "unknown_proposal"), "its sessions are its own: an owner is no one there"
    assert api("GET", "/api/chat/proposals").body == {"proposals": []}
    again = {"id": "weight", "value": {"date": "2026-04-15", "kg": 84.5}, "confirmationId": id}
    assert directly(api, "yes", asks(call("append_row", again)), says("Logged.")) == "Logged."
    assert len(api.rows("weight") or []) == 3
