"""What the switch, a deletion and the limits of a token reach: nothing gets past them that began before."""

from typing import Any

import pytest

from deckhand.storage.port import ItemStore
from deckhand.turns import settled
from tests.fakes import Gate, asks, call, says
from tests.gated import DONE, PROPOSALS, WEIGHTS, Gated, Make, append, before_calls_run, remove

OFF = (403, "agent_switched_off")
HELLO = {"messages": [{"role": "user", "content": "Hello."}]}


def test_a_token_for_the_route_of_an_act_sees_and_decides_calls_of_its_tool(api: Gated) -> None:
    [proposal] = api.propose(remove())
    other, same = (api.token("editor", operations=["chat", name]) for name in ("add_row", "delete_row"))
    assert api.open(token=other) == []
    assert api.confirm(proposal, token=other).refusal == (404, "unknown_proposal")
    assert [one["id"] for one in api.open(token=same)] == [proposal]
    assert api.confirm(proposal, DONE, token=same).status == 200
    assert api.rows("weight") == WEIGHTS[1:]


def made_token(api: Gated) -> tuple[str, str]:
    """Id and secret of an agent's token."""
    made = api("POST", "/api/tokens", {"name": "t", "role": "agent"}).body
    return made["id"], made["secret"]


# -- the switch


def test_no_title_is_made_while_the_assistant_is_off(api: Gated) -> None:
    api.say("Hello.", says("Hi."))
    api.switch(enabled=False)
    assert len(api.work("title")) == 1
    assert len(api.gateway.requests) == 1
    assert api("GET", f"/api/conversations/{api.talk}").body["conversation"]["title"] == "Hello."


def test_a_title_is_made_while_it_is_on(api: Gated) -> None:
    api.say("Hello.", says("Hi."))
    api.work("title", says("A short hello"))
    assert api("GET", f"/api/conversations/{api.talk}").body["conversation"]["title"] == "A short hello"


def test_nothing_is_written_once_the_switch_is_off_though_the_model_asked_before(
    api: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_calls_run(monkeypatch, lambda: api.switch(enabled=False))
    api.say("Log it.", asks(append(), append(id="a2")))
    assert api.rows("weight") == WEIGHTS


def test_nothing_is_written_once_the_switch_is_off_in_a_turn_over_the_clients_transcript(api: Gated) -> None:
    api.gateway.script([lambda: api.switch(enabled=False), *asks(append())])
    assert api("POST", "/api/chat", HELLO).refusal == OFF
    assert api.rows("weight") == WEIGHTS


def test_no_granted_call_is_run_once_the_switch_is_off(api: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    [proposal] = api.propose(remove())
    api.grant(proposal)
    api.reject(proposal, DONE)
    before_calls_run(monkeypatch, lambda: api.switch(enabled=False))
    api.say("Again.", asks(remove()))
    assert api.rows("weight") == WEIGHTS


def test_a_call_is_not_run_as_a_token_that_is_switched_off_whoever_confirms_it(api: Gated) -> None:
    id, secret = made_token(api)
    [proposal] = api.propose(remove(), token=secret)
    api.switch(enabled=False, scope="token", id=id)
    assert api.confirm(proposal).refusal == OFF
    assert api.rows("weight") == WEIGHTS
    assert [one["id"] for one in api.open()] == [proposal]
    api.switch(enabled=True, scope="token", id=id)
    assert api.confirm(proposal, DONE).status == 200


def test_a_call_is_not_confirmed_by_a_token_that_is_switched_off_whoever_proposed_it(api: Gated) -> None:
    id, secret = made_token(api)
    [proposal] = api.propose(remove())
    api.switch(enabled=False, scope="token", id=id)
    assert api.confirm(proposal, token=secret).refusal == OFF
    assert api.rows("weight") == WEIGHTS


@pytest.mark.parametrize("stored", [True, False])
def test_the_switch_is_looked_at_before_a_stream_begins(api: Gated, stored: bool) -> None:
    api.switch(enabled=False)
    where = {"conversationId": api.talk} if stored else {}
    assert api("POST", "/api/chat", {**HELLO, **where, "stream": True}).refusal == OFF


def test_no_confirmation_is_offered_where_none_can_be_spent(api: Gated) -> None:
    """A turn over the client's own transcript: who says there that the person said yes is the client."""
    api.gateway.script(asks(remove()))
    answer = api("POST", "/api/chat", HELLO)
    assert "confirmationId" not in str(api.gateway.requests[0].tools)
    [proposal] = [one["id"] for one in answer.body["proposals"]]
    api.gateway.script(asks(remove(confirmationId=proposal)), DONE)
    api("POST", "/api/chat", {"messages": [*HELLO["messages"], {"role": "user", "content": "Yes."}]})
    assert api.told()[-1]["code"] == "not_confirmed"
    assert api.rows("weight") == WEIGHTS


# -- deletion


def test_nothing_is_written_into_a_conversation_that_is_deleted_as_its_turn_goes_on(
    api: Gated, store: ItemStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    [proposal] = api.propose(remove(), text="Secret words.")
    real, deleted = settled._final, list[int]()

    def final(*given: Any) -> Any:
        if not deleted:
            deleted.append(api("DELETE", f"/api/conversations/{api.talk}").status)
        return real(*given)

    monkeypatch.setattr(settled, "_final", final)
    # A model that is never heard of again: the turn ends with its conversation.
    api.confirm(proposal, [Gate()])
    assert deleted == [200]
    assert store.query("deck", f"main#conv#{api.talk}").items == []


# -- tokens with limits

CLOSED: list[tuple[str, str, Any]] = [
    ("POST", "/api/invites", {"role": "viewer"}),
    ("GET", "/api/users", None),
    ("GET", "/api/users/ann", None),
    ("PATCH", "/api/users/ann", {"role": "owner"}),
    ("GET", "/api/policy", None),
    ("PUT", "/api/policy", {"policy": ""}),
    ("POST", "/api/policy/explain", {"operation": "append_row"}),
    ("GET", "/api/audit", None),
    ("GET", "/api/agent/switches", None),
    ("PUT", "/api/agent/switches", {"scope": "all", "enabled": False}),
    ("GET", "/api/tokens", None),
    ("POST", "/api/tokens", {"name": "wide", "role": "owner"}),
    ("DELETE", "/api/tokens/x", None),
]


@pytest.mark.parametrize(("method", "path", "body"), CLOSED, ids=lambda given: given if isinstance(given, str) else "")
def test_an_owners_token_for_one_card_is_no_way_to_more(make: Make, method: str, path: str, body: Any) -> None:
    api = make("weight", "sleep")
    narrow = api.token("owner", cards=["weight"])
    assert api(method, path, body, token=narrow).refusal == (403, "forbidden")


def test_an_owners_token_for_one_card_does_not_stop_other_peoples_turns(api: Gated) -> None:
    narrow = api.token("owner", cards=["weight"])
    theirs = api("POST", "/api/conversations", {}, token="bob").body["conversation"]["id"]
    gate = Gate()
    api.gateway.script([gate, *says("Hi.")])
    stream = api("POST", "/api/chat", {**HELLO, "conversationId": theirs, "stream": True}, token="bob").stream
    gate.wait_reached()
    assert api("GET", "/api/chat/turns", token=narrow).body == {"turns": []}
    assert api("DELETE", "/api/chat/turns", token=narrow).body["turnIds"] == []
    gate.open()
    assert list(stream)[-1].data["status"] == "done"


@pytest.mark.parametrize("limits", [{"cards": ["weight"]}, {"operations": ["chat", "append_row"]}])
def test_a_token_with_limits_neither_sees_nor_decides_what_lies_outside_them(
    make: Make, limits: dict[str, Any]
) -> None:
    api = make("weight", "sleep")
    narrow = api.token("owner", **limits)
    [proposal] = api.propose(call("remove_row", {"id": "sleep", "path": "[index=0]"}))
    assert api.open(token=narrow) == []
    unknown = (404, "unknown_proposal")
    assert api.reject(proposal, token=narrow).refusal == unknown
    assert api.confirm(proposal, token=narrow).refusal == unknown
    assert api.decide({"id": proposal, "decision": "reject"}, token=narrow).refusal == unknown
    assert [one["id"] for one in api.open()] == [proposal]


def test_a_token_with_limits_decides_what_lies_within_them(make: Make) -> None:
    api = make("weight", "sleep")
    narrow = api.token("agent", cards=["weight"])
    [proposal] = api.propose(remove())
    assert [one["id"] for one in api.open(token=narrow)] == [proposal]
    assert api.confirm(proposal, DONE, token=narrow).status == 200


def test_a_token_with_limits_spends_no_yes_that_lies_outside_them(make: Make) -> None:
    api = make("weight", "sleep")
    narrow = api.token("agent", operations=["chat", "append_row", "remove_row"], cards=["weight"])
    [proposal] = api.propose(remove("sleep"))
    api.say("Yes.", asks(remove("sleep", confirmationId=proposal)), DONE, token=narrow)
    assert api.rows("sleep") == WEIGHTS
    assert [one["id"] for one in api.open()] == [proposal]
    assert api("GET", PROPOSALS, token=narrow).body["proposals"] == []
