"""The template deployed, roles enforced: a conversation over the API, and what happens behind it."""

from typing import Any

from deckhand.domain.cards import SCHEMA
from tests.e2e.deployed.conftest import KEY, REPLY, TITLE, Deployed, until


def new_conversation(deployed: Deployed) -> str:
    answer = deployed.api.post("/api/conversations", json={})
    assert answer.status_code == 201, answer.text
    identity: str = answer.json()["conversation"]["id"]
    return identity


def say(deployed: Deployed, conversation: str, text: str, **more: Any) -> Any:
    messages = [{"role": "user", "content": text}]
    return deployed.api.post("/api/chat", json={"conversationId": conversation, "messages": messages, **more})


def read(deployed: Deployed, conversation: str) -> Any:
    answer = deployed.api.get(f"/api/conversations/{conversation}")
    assert answer.status_code == 200, answer.text
    return answer.json()["conversation"]


def test_the_deployment_is_alive(deployed: Deployed) -> None:
    assert deployed.api.get("/healthz").json() == {"ok": True}


def test_nobody_gets_in_without_the_token_from_the_parameter_store(deployed: Deployed) -> None:
    answer = deployed.api.get("/api/conversations", headers={"Authorization": "Bearer another"})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


def test_chat_is_configured(deployed: Deployed) -> None:
    assert deployed.api.get("/api/chat/status").json()["configured"] is True


def test_a_turn_is_answered_and_stored(deployed: Deployed) -> None:
    conversation = new_conversation(deployed)
    answer = say(deployed, conversation, "How is it going?")
    assert (answer.status_code, answer.json()["reply"]) == (200, REPLY)
    messages = read(deployed, conversation)["messages"]
    assert [(message["role"], message["content"]) for message in messages] == [
        ("user", "How is it going?"),
        ("assistant", REPLY),
    ]


def test_the_gateway_gets_the_key_from_the_parameter_store(deployed: Deployed) -> None:
    say(deployed, new_conversation(deployed), "Hello")
    # Functions that ran outside of the deployment have asked the same gateway, without a key.
    assert f"Bearer {KEY}" in {request.headers.get("authorization") for request in deployed.gateway.requests}


def test_what_a_turn_used_is_counted(deployed: Deployed) -> None:
    def total() -> int:
        days = deployed.api.get("/api/usage").json()["days"]
        return sum(day["inputTokens"] + day["outputTokens"] for day in days)

    before = total()
    say(deployed, new_conversation(deployed), "Hello")
    assert total() > before


def test_a_stream_ends_with_done(deployed: Deployed) -> None:
    conversation = new_conversation(deployed)
    answer = say(deployed, conversation, "Once more", stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    names = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
    assert names[-2:] == ["reply", "done"]
    assert read(deployed, conversation)["messages"][-1]["content"] == REPLY


def test_the_queue_makes_a_title_after_the_first_exchange(deployed: Deployed) -> None:
    conversation = new_conversation(deployed)
    say(deployed, conversation, "Hello")
    until(lambda: read(deployed, conversation)["title"] == TITLE)


def test_a_turn_that_is_over_can_be_replayed(deployed: Deployed) -> None:
    conversation = new_conversation(deployed)
    say(deployed, conversation, "Hello")
    replay = deployed.api.get(f"/api/chat/turn/{conversation}", params={"after": 0})
    assert replay.text.count("event: reply") == replay.text.count("event: done") == 1


def test_a_card_and_its_rows_are_kept(deployed: Deployed) -> None:
    card = {"$schema": SCHEMA, "meta": {"id": "mood", "label": "Mood", "writeable": {"fromWebapp": True}}, "data": []}
    assert deployed.api.post("/api/manifests", json=card).status_code == 201
    assert deployed.api.post("/api/manifests/mood/rows", json={"value": {"score": 4}}).status_code == 201
    rows = deployed.api.get("/api/manifests/mood/rows").json()["rows"]
    assert [row["value"] for row in rows] == [{"score": 4}]


def test_a_report_is_kept_in_the_bucket_until_it_is_removed(deployed: Deployed) -> None:
    address, headers = "/api/reports/labs.md", {"Content-Type": "text/markdown"}
    assert deployed.api.put(address, content="# Labs", headers=headers).json()["created"] is True
    assert "# Labs" in deployed.api.get(address).text
    assert deployed.api.delete(address).json()["ok"] is True
    assert deployed.api.get(address).status_code == 404


def test_a_deleted_conversation_is_gone(deployed: Deployed) -> None:
    conversation = new_conversation(deployed)
    say(deployed, conversation, "Hello")
    assert deployed.api.delete(f"/api/conversations/{conversation}").json() == {"ok": True}
    answer = deployed.api.get(f"/api/conversations/{conversation}")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_conversation")


def test_the_policy_is_asked_by_every_function_and_shown_to_no_agent(deployed: Deployed) -> None:
    # The callers' token is an agent's: it reads the deck, and nothing of who may what.
    assert deployed.api.get("/api/manifests").status_code == 200
    for answer in (deployed.api.get("/api/policy"), deployed.api.put("/api/policy", json={"policy": ""})):
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
