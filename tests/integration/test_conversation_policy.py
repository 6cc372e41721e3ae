"""Conversations as what a policy speaks of: one is kept from the tokens of the person whose it is."""

import pytest

from tests.fakes import Gate, says
from tests.gated import PROPOSALS, Gated, delete
from tests.policies import engine

KEPT = 'forbid (principal is Token, action in Action::"converse", resource == Conversation::"{id}");'


@pytest.fixture
def shy(api: Gated) -> str:
    """A token that is kept from the conversation `api.talk`, in which a call waits, and from no other."""
    api("PATCH", f"/api/conversations/{api.talk}", {"title": "Private matters"})
    api.propose(delete())
    api.parts.__dict__["policy"] = engine(KEPT.format(id=api.talk))
    return api.token("owner")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/conversations/{talk}", None),
        ("PATCH", "/api/conversations/{talk}", {"title": "Mine"}),
        ("PUT", "/api/conversations/{talk}/messages", {"messages": []}),
        ("DELETE", "/api/conversations/{talk}", None),
        ("POST", "/api/chat", {"conversationId": "{talk}", "messages": [{"role": "user", "content": "go on"}]}),
        ("GET", "/api/chat/turn/{talk}", None),
        ("GET", f"{PROPOSALS}?conversationId={{talk}}", None),
        ("POST", f"{PROPOSALS}/{{proposal}}/confirm", {}),
        ("POST", f"{PROPOSALS}/{{proposal}}/reject", {}),
    ],
)
def test_nothing_of_it_is_reached(api: Gated, shy: str, method: str, path: str, body: dict[str, object] | None) -> None:
    [waiting] = api.open()
    names = {"talk": api.talk, "proposal": waiting["id"]}
    if body is not None and "conversationId" in body:
        body = {**body, "conversationId": api.talk}
    assert api(method, path.format(**names), body, token=shy).refusal == (403, "forbidden")
    assert api.open() == [waiting]
    [kept] = api("GET", "/api/conversations").body["conversations"]
    assert kept["title"] == "Private matters"


def test_it_is_in_no_list(api: Gated, shy: str) -> None:
    other = api.conversation(title="Private garden")
    for token, expected in ((shy, [other]), ("ann", [other, api.talk])):
        listed = api("GET", "/api/conversations", token=token).body["conversations"]
        found = api("POST", "/api/conversations/search", {"q": "private"}, token=token).body["conversations"]
        assert [one["id"] for one in listed] == expected
        assert [one["id"] for one in found] == expected
    assert api("GET", PROPOSALS, token=shy).body == {"proposals": []}
    assert len(api("GET", PROPOSALS).body["proposals"]) == 1


def test_others_stay_open_to_it(api: Gated, shy: str) -> None:
    api.talk = api.conversation(title="Private garden")
    assert api.say("Hello.", says("Hi."), token=shy).body["reply"] == "Hi."
    assert api("GET", f"/api/conversations/{api.talk}", token=shy).status == 200


@pytest.mark.parametrize(("role", "limits"), [("agent", {}), ("owner", {"operations": ["chat"]})])
def test_a_running_turn_of_it_is_neither_seen_nor_stopped(api: Gated, role: str, limits: dict[str, list[str]]) -> None:
    api.parts.__dict__["policy"] = engine(KEPT.format(id=api.talk))
    shy, gate = api.token(role, **limits), Gate()
    stream = api.say("Go on.", [*says("Hel"), gate, *says("lo")], stream=True).stream
    gate.wait_reached()
    assert api("GET", "/api/chat/turns", token=shy).body == {"turns": []}
    assert api("DELETE", "/api/chat/turns", token=shy).body == {"ok": True, "turnIds": []}
    assert api("DELETE", f"/api/chat/turn/{api.talk}", token=shy).refusal == (403, "forbidden")
    assert len(api("GET", "/api/chat/turns").body["turns"]) == 1
    gate.open()
    assert stream.until("done").data["status"] == "done"


def test_the_owner_is_told_why(api: Gated, shy: str) -> None:
    asked = {
        "principal": {"role": "agent", "kind": "token", "id": "t1", "user": "ann"},
        "operation": "read_conversation",
        "conversation": api.talk,
    }
    assert api("POST", "/api/policy/explain", asked).body == {"decision": "deny", "policies": ["policy 1"]}
    assert api("POST", "/api/policy/explain", {**asked, "conversation": "another"}).body["decision"] == "allow"
    both = api("POST", "/api/policy/explain", {**asked, "card": "weight"})
    assert both.refusal == (422, "invalid")


def test_a_document_that_names_one_can_be_put(api: Gated) -> None:
    document = (
        KEPT.format(id=api.talk)
        + ' permit (principal, action == Action::"chat", resource is Conversation)'
        + (" when { resource.user == principal.user };")
    )
    assert api("PUT", "/api/policy", {"policy": document}).status == 200
    wrong = 'forbid (principal, action == Action::"append_row", resource == Conversation::"x");'
    assert api("PUT", "/api/policy", {"policy": wrong}).refusal == (422, "invalid")
