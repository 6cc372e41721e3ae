"""What the audit tells of calls that wait, and what it leaves out."""

from typing import Any

import pytest

from deckhand.domain.errors import StorageUnavailable
from deckhand.domain.subscription import Subscription
from deckhand.operations import execution
from deckhand.storage.port import ItemStore
from deckhand.storage.subscriptions import Subscriptions
from tests.fakes import Gate, asks, says
from tests.gated import DONE, Gated, Make, delete, remove


def entries(api: Gated, proposal: str) -> list[dict[str, Any]]:
    return [entry for entry in api.audit() if entry.get("proposalId") == proposal]


# -- what is told


def test_a_call_that_comes_to_wait_is_told(api: Gated) -> None:
    [proposal] = api.propose(remove())
    [entry] = entries(api, proposal)
    assert {name: entry[name] for name in ("principal", "channel", "operation", "outcome", "card", "conversation")} == {
        "principal": "user:ann",
        "channel": "chat",
        "operation": "remove_row",
        "outcome": "proposed",
        "card": "weight",
        "conversation": api.talk,
    }
    assert entry["policies"], "what made it wait"


def test_a_call_that_comes_to_wait_over_the_clients_transcript_is_told(api: Gated) -> None:
    api.gateway.script(asks(remove()))
    answer = api("POST", "/api/chat", {"messages": [{"role": "user", "content": "Please."}]})
    [entry] = entries(api, answer.body["proposals"][0]["id"])
    assert entry["outcome"] == "proposed"


def test_the_yes_and_the_effect_follow_each_other_and_carry_the_same_hash(api: Gated) -> None:
    [proposal] = api.propose(delete())
    api.confirm(proposal, DONE)
    proposed, confirmed, succeeded = entries(api, proposal)
    assert [one["outcome"] for one in (proposed, confirmed, succeeded)] == ["proposed", "confirmed", "succeeded"]
    assert confirmed["argumentsHash"] == succeeded["argumentsHash"]
    assert proposed["at"] <= confirmed["at"] < succeeded["at"]


def test_a_yes_to_other_arguments_tells_of_those(make: Make) -> None:
    api = make("weight", "sleep")
    [proposal] = api.propose(delete("weight"))
    api.confirm(proposal, DONE, arguments={"id": "sleep"})
    proposed, confirmed, succeeded = entries(api, proposal)
    assert [one["card"] for one in (proposed, confirmed, succeeded)] == ["weight", "sleep", "sleep"]
    assert confirmed["argumentsHash"] == succeeded["argumentsHash"] != proposed["argumentsHash"]


def test_a_yes_to_other_arguments_is_told_to_the_model(make: Make) -> None:
    api = make("weight", "sleep")
    [proposal] = api.propose(delete("weight"))
    api.confirm(proposal, DONE, arguments={"id": "sleep"})
    [told] = api.told()
    assert (told["arguments"], told["result"]["ok"]) == ({"id": "sleep"}, True)


# -- stops


def running(api: Gated, token: str) -> tuple[str, Gate, Any]:
    """A turn of that person, its gate and its stream."""
    talk, gate = api("POST", "/api/conversations", {}, token=token).body["conversation"]["id"], Gate()
    api.gateway.script([gate, *says("Hi.")])
    body = {"conversationId": talk, "messages": [{"role": "user", "content": "Hello."}], "stream": True}
    stream = api("POST", "/api/chat", body, token=token).stream
    gate.wait_reached()
    return talk, gate, stream


@pytest.mark.parametrize("all_turns", [True, False])
def test_another_persons_turn_that_is_stopped_is_told(api: Gated, all_turns: bool) -> None:
    before = len(api.audit())
    talk, gate, stream = running(api, "bob")
    stopped = api("DELETE", "/api/chat/turns" if all_turns else f"/api/chat/turn/{talk}")
    gate.open()
    assert list(stream)[-1].data["status"] == "stopped"
    [entry] = [one for one in api.audit()[before:] if one["operation"] == "stop_turn"]
    turn_id = stopped.body["turnIds"][0] if all_turns else stopped.body["turnId"]
    assert {name: entry[name] for name in ("principal", "channel", "outcome", "conversation", "turnId")} == {
        "principal": "user:ann",
        "channel": "api",
        "outcome": "succeeded",
        "conversation": talk,
        "turnId": turn_id,
    }


@pytest.mark.parametrize("all_turns", [True, False])
def test_ones_own_turn_that_is_stopped_is_not_told(api: Gated, all_turns: bool) -> None:
    talk, gate, stream = running(api, "ann")
    api("DELETE", "/api/chat/turns" if all_turns else f"/api/chat/turn/{talk}")
    gate.open()
    list(stream)
    assert "stop_turn" not in [one["operation"] for one in api.audit()]


def test_a_stop_that_hits_nothing_is_not_told(api: Gated) -> None:
    assert api("DELETE", f"/api/chat/turn/{api.talk}", token="bob").status == 404
    assert "stop_turn" not in [one["operation"] for one in api.audit()]


# -- what is left out


@pytest.mark.parametrize("known", [True, False])
def test_a_device_that_says_it_is_there_is_not_told(api: Gated, store: ItemStore, known: bool) -> None:
    endpoint, instant = "https://fcm.googleapis.com/fcm/send/a", "2026-04-20T08:00:00.000Z"
    if known:
        device = Subscription(endpoint=endpoint, p256dh="p", auth="a", created_at=instant, seen_at=instant)
        Subscriptions(store, "main").put("ann", device, token="t")
    before = len(api.audit())
    assert api("POST", "/api/push/heartbeat", {"endpoint": endpoint}).status == (200 if known else 404)
    assert len(api.audit()) == before


@pytest.mark.parametrize("id", ["A secret text " * 20_000, "A" * 450_000, "a secret"], ids=["words", "long", "short"])
def test_a_text_that_is_no_id_of_a_card_is_not_in_the_audit(api: Gated, id: str) -> None:
    made = {"$schema": "klebb.datafile.v1", "meta": {"id": id, "label": "x"}}
    assert api("POST", "/api/manifests", made).refusal == (422, "invalid_id")
    last = api.audit()[-1]
    assert (last["operation"], last["outcome"], last["code"]) == ("create_manifest", "failed", "invalid_id")
    assert "card" not in last


def test_a_text_that_is_no_id_of_a_card_is_not_in_the_audit_of_a_call_that_waits(api: Gated) -> None:
    [proposal] = api.propose(delete("A secret text."))
    api.confirm(proposal, DONE)
    told = entries(api, proposal)
    assert [one["outcome"] for one in told] == ["proposed", "confirmed", "failed"]
    assert "secret" not in str(told)


def test_a_refusal_is_a_refusal_when_the_audit_cannot_be_written(api: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    def note(*_: Any) -> None:
        raise StorageUnavailable()

    monkeypatch.setattr(execution, "note", note)
    assert api("DELETE", "/api/manifests/weight", token="vic").refusal == (403, "forbidden")
    assert api("DELETE", "/api/manifests/nothing").refusal == (404, "unknown_manifest")
