"""Who a tool runs as, what the loop does with calls that wait, and what can be read back, line by line."""

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from deckhand.domain.conversation import Exchange
from deckhand.domain.errors import NotAllowed
from deckhand.domain.times import iso
from deckhand.operations.catalog import REGISTRY
from deckhand.operations.execution import perform
from deckhand.operations.registry import Operation
from deckhand.settings import read_settings
from deckhand.storage.conversations import Conversations, Owner
from deckhand.storage.port import Delete, ItemStore, Key
from tests.api import ANN, Answer, Api
from tests.fakes import Gate, asks, call, marks, says
from tests.faults import World
from tests.gated import DONE, PROPOSALS, WEIGHTS, Gated, append, delete, gated, read, remove, rewritten
from tests.invariants import check_request
from tests.policies import engine

NOT_ALLOWED = {"error": "This is not allowed.", "code": "forbidden"}
MUTATING = [tool for tool in REGISTRY.tools() if tool.mutates]
SENT: dict[str, dict[str, Any]] = {
    "create_manifest": {"manifest": {"$schema": "klebb.datafile.v1", "meta": {"id": "weight", "label": "Weight"}}},
    "patch_manifest": {"id": "weight", "patch": {"meta": {"label": "W"}}},
    "delete_manifest": {"id": "weight"},
    "hide_card": {"id": "weight"},
    "show_card": {"id": "weight"},
    "write_manifest_data": {"id": "weight", "data": []},
    "append_row": {"id": "weight", "value": {"kg": 1}},
    "update_row": {"id": "weight", "path": "[index=0]", "changes": {"kg": 1}},
    "remove_row": {"id": "weight", "path": "[index=0]"},
    "reorder_rows": {"id": "weight", "key": "date", "order": ["2026-04-14", "2026-04-13"]},
    "rename_data_field": {"id": "weight", "from_key": "kg", "to_key": "lb"},
    "set_notification": {
        "card_id": "weight",
        "notification_id": "n1",
        "label": "Weigh",
        "title": "Weigh",
        "body": "Now",
        "trigger": {"type": "daily", "time": "08:00"},
    },
    "remove_notification": {"card_id": "weight", "notification_id": "n1"},
    "note_feedback": {"kind": "bug", "intent": "x"},
}
"""Arguments that each tool would take."""


def fresh(api: Gated, store: ItemStore) -> Gated:
    """Another process on the same store, in the same conversation."""
    other = Gated(store)
    other.talk = api.talk
    return other


def talk_of(api: Gated, token: str) -> None:
    """From here on the conversation is that person's."""
    api.talk = api("POST", "/api/conversations", {}, token=token).body["conversation"]["id"]


def exchanges(api: Gated, store: ItemStore) -> list[Exchange]:
    conversations, owner = Conversations(store), Owner("main", "ann")
    return conversations.exchanges(owner, conversations.find(owner, api.talk).header)


# -- identity


def test_004_12_the_same_call_of_two_people_has_two_outcomes(api: Gated) -> None:
    api.parts.__dict__["policy"] = engine('forbid (principal == User::"eve", action, resource == Card::"weight");')
    outcomes = {}
    for person in ("eve", "ann"):
        talk_of(api, person)
        api.say("Log it.", asks(append()), DONE, token=person)
        outcomes[person] = api.told()[0]
    assert outcomes["eve"] == NOT_ALLOWED
    assert outcomes["ann"]["ok"] is True
    assert len(api.rows("weight") or []) == 3


def test_004_13_the_audit_tells_the_api_a_chat_and_a_token_apart(api: Gated) -> None:
    """Instead of the other protocol's key: a token, which acts for a person and is named as itself."""
    before = len(api.audit())
    for token in ("ann", "agent"):
        talk_of(api, token)
        api("POST", "/api/settings/cards/weight/disable", {}, token=token)
        api.say("Show it.", asks(call("show_card", {"id": "weight"})), DONE, token=token)
    done = [e for e in api.audit()[before:] if e["operation"] in ("hide_card", "show_card")]
    assert [(e["principal"], e["user"], e["channel"], e["operation"]) for e in done] == [
        ("user:ann", "ann", "api", "hide_card"),
        ("user:ann", "ann", "chat", "show_card"),
        ("token:agent", "owner", "api", "hide_card"),
        ("token:agent", "owner", "chat", "show_card"),
    ]


def test_every_tool_that_changes_something_is_in_the_table() -> None:
    assert set(SENT) == {tool.name for tool in MUTATING}


LACKING = {
    "a viewer": ("vic", ""),
    "one card": ("eve", 'forbid (principal == User::"eve", action, resource == Card::"weight");'),
    "one operation": ("eve", 'forbid (principal == User::"eve", action in Action::"write", resource);'),
}


@pytest.mark.parametrize(
    ("tool", "lacking"),
    [(tool, lacking) for tool in MUTATING for lacking in LACKING if tool.card is not None or lacking != "one card"],
    ids=lambda given: given if isinstance(given, str) else given.name,
)
def test_004_14_who_lacks_the_permission_is_refused_in_chat_as_over_the_api(
    api: Gated, tool: Operation, lacking: str
) -> None:
    person, document = LACKING[lacking]
    api.parts.__dict__["policy"] = engine(document)
    before = api("GET", "/api/manifests/weight").body
    talk_of(api, person)
    api.say("Go on.", asks(call(tool.name, SENT[tool.name])), DONE, token=person)
    assert api.told() == [NOT_ALLOWED]
    assert api.open(token=person) == []
    given = tool.input.model_validate(SENT[tool.name])
    with pytest.raises(NotAllowed) as refused:
        perform(api.parts.caller(api.people[f"Bearer {person}"], "api"), tool, given)
    assert refused.value.as_body() == NOT_ALLOWED
    if tool.http is not None:
        answer = over_http(api, tool, person)
        assert (answer.status, answer.body) == (403, NOT_ALLOWED)
    assert api("GET", "/api/manifests/weight").body == before
    denied = [(e["principal"], e["channel"], e["operation"]) for e in api.audit() if e["outcome"] == "denied"]
    assert denied[:2] == [(f"user:{person}", "chat", tool.name), (f"user:{person}", "api", tool.name)]


def over_http(api: Gated, tool: Operation, token: str) -> Answer:
    assert tool.http is not None
    sent = dict(SENT[tool.name])
    path = tool.http.path
    for name in list(sent):
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", sent.pop(name))
    body = sent[tool.http.body] if tool.http.body else sent
    return api(tool.http.method, path, body if tool.http.method != "DELETE" else None, token=token)


def test_004_14_a_narrowed_token_has_in_chat_what_it_has_over_the_api(api: Gated) -> None:
    made = api("POST", "/api/tokens", {"name": "n", "role": "agent", "operations": ["chat", "read_manifest_rows"]})
    secret = made.body["secret"]
    api.say("Go on.", asks(read(), append(), delete(id="c3")), DONE, token=secret)
    told = api.told()
    assert told[0]["rows"]
    assert told[1:] == [NOT_ALLOWED, NOT_ALLOWED]
    assert api("DELETE", "/api/manifests/weight", token=secret).body == NOT_ALLOWED
    assert api.rows("weight") == WEIGHTS


ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/api/conversations/{id}", None),
    ("PATCH", "/api/conversations/{id}", {"title": "Mine"}),
    ("PUT", "/api/conversations/{id}/messages", {"messages": []}),
    ("DELETE", "/api/conversations/{id}", None),
    ("POST", "/api/chat", {"conversationId": "{id}", "messages": [{"role": "user", "content": "Hello."}]}),
    ("GET", "/api/chat/proposals?conversationId={id}", None),
    ("DELETE", "/api/chat/turn/{id}", None),
]


@pytest.mark.parametrize("who", ["bob", "eve", "vic", "agent", "elsewhere"])
def test_004_16_a_conversation_is_its_persons_alone(api: Gated, who: str) -> None:
    """`elsewhere` is the very same person in another tenant; another owner of the deployment reads it no more."""
    [proposal] = api.propose(delete())
    api.people["Bearer elsewhere"] = replace(ANN, tenant="other")
    for method, path, body in ROUTES:
        sent = json.loads(json.dumps(body).replace("{id}", api.talk))
        assert api(method, path.replace("{id}", api.talk), sent, token=who).status == 404, (method, path)
    assert api("GET", f"/api/chat/turn/{api.talk}", token=who).status == 204
    assert api("POST", "/api/conversations/search", {"q": "Please"}, token=who).body["conversations"] == []
    assert api.talk not in str(api("GET", "/api/conversations", token=who).body)
    assert api.texts(api.talk) == ["Please."]
    assert [one["id"] for one in api.open()] == [proposal]


def test_004_16_another_tenant_shares_nothing(api: Gated) -> None:
    api.people["Bearer elsewhere"] = replace(ANN, tenant="other")
    assert api("GET", "/api/manifests", token="elsewhere").body["entries"] == []
    assert api("GET", "/api/audit", token="elsewhere").body["entries"] == []
    talk_of(api, "elsewhere")
    api.say("Go on.", asks(read()), DONE, token="elsewhere")
    assert api.told()[0]["code"] == "unknown_manifest"
    assert "(none yet)" in api.gateway.requests[0].messages[0]["content"][1]["text"]


def test_004_18_37_without_a_gateway_every_way_into_a_turn_says_so(api: Gated, store: ItemStore) -> None:
    """Instead of an executor that is injected: what a turn needs is wired at the start, all but the gateway. The
    deployment itself starts and serves the rest.
    """
    [proposal] = api.propose(delete())
    bare = Api(store, configured=False)
    body = {"conversationId": api.talk, "messages": [{"role": "user", "content": "Hello."}]}
    assert bare("POST", "/api/chat", body).refusal == (503, "chat_not_configured")
    for decision in ("confirm", "reject"):
        assert bare("POST", f"{PROPOSALS}/{proposal}/{decision}", {}).refusal == (503, "chat_not_configured")
    bare.close()
    assert api.rows("weight") == WEIGHTS
    assert [one["id"] for one in api.open()] == [proposal]


# -- the loop


def test_004_19_every_step_may_be_another_process_and_goes_on_from_stored_rows(api: Gated, store: ItemStore) -> None:
    first, second = api.propose(read(), remove(row=1, id="w1"), delete(id="w2"))
    one, other, last = fresh(api, store), fresh(api, store), fresh(api, store)
    assert one.confirm(first).body["open"] == [second]
    assert other.reject(second, says("One is gone.")).body["reply"] == "One is gone."
    assert [m["tool_call_id"] for m in other.gateway.messages() if m["role"] == "tool"] == ["r1", "w1", "w2"]
    assert last.say("Thanks.", says("You are welcome.")).status == 200
    before, after = other.gateway.messages(), last.gateway.messages()
    assert after[: len(before)] == before, "the results are the same for ever"
    for process in (one, other, last):
        process.close()


def test_004_20_reads_run_at_once_whatever_comes_of_them_and_the_turn_goes_on(api: Gated, store: ItemStore) -> None:
    """`SUCCEEDED` and `FAILED` of a read are its result in the transcript."""
    answer = api.say("Look.", asks(read(), read("nothing", id="r2")), says("There are two rows."))
    assert answer.body["reply"] == "There are two rows."
    assert "proposals" not in answer.body
    [exchange] = exchanges(api, store)
    found, missing = (json.loads(one.result or "") for one in exchange.calls)
    assert found["rows"]
    assert missing["code"] == "unknown_manifest"


def test_004_25_the_model_is_not_asked_while_a_call_of_its_turn_waits(api: Gated) -> None:
    """But to answer a new message, and then every call has a result that says what it waits for."""
    first, second = api.propose(remove(row=1, id="w1"), delete(id="w2"))
    assert len(api.gateway.requests) == 1
    api.confirm(first)
    assert len(api.gateway.requests) == 1
    api.say("Which one?", says("The card itself."))
    assert [told.get("ok", told.get("status")) for told in api.told()] == [True, "awaiting_confirmation"]
    api.reject(second, DONE)
    assert len(api.gateway.requests) == 3


def test_004_25_nobody_asks_the_model_while_a_confirmed_call_runs(api: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    [proposal] = api.propose(delete())
    known = REGISTRY.find("delete_manifest")
    assert known is not None
    seen = []

    def run(caller: Any, given: Any) -> Any:
        seen.append((len(api.gateway.requests), api.open()[0]["state"]))
        return known.run(caller, given)

    monkeypatch.setitem(REGISTRY._operations, known.name, replace(known, run=run))
    api.confirm(proposal, DONE)
    assert seen == [(1, "executing")]


def test_004_26_no_request_ever_has_a_call_without_its_result(api: Gated) -> None:
    first, second = api.propose(read(), remove(row=1, id="w1"), append(), delete(id="w2"), text="I will.")
    api.say("Wait.", asks(read(id="r2")), says("I wait."))
    api.confirm(first)
    api.say("And?", says("One is done."))
    api.reject(second, asks(remove(id="w3")))
    api.say("No, leave it.", asks(read(id="r3"), read("nothing", id="r4")), DONE)
    assert len(api.gateway.requests) == 7
    for number in range(len(api.gateway.requests)):
        check_request(api.gateway.messages(number))


@pytest.mark.parametrize(
    ("scripts", "status", "cause"),
    [
        ([DONE], "done", None),
        ([asks(delete())], "awaiting_confirmation", None),
        ([asks(read(id="r1")), asks(read(id="r2"))], "done", "steps"),
    ],
)
def test_004_27_a_turn_ends_done_waiting_or_at_its_budget(
    store: ItemStore, scripts: Any, status: str, cause: str | None
) -> None:
    """The budget is ours (36 steps as shipped, two here), and its end is an answer."""
    with gated(store, CHAT_MAX_TURNS="2") as api:
        frames = api.say("Go on.", *scripts, stream=True).frames
    assert (frames[-1].name, frames[-1].data["status"]) == ("done", status)
    assert frames[-2].data.get("cappedBy") == cause


def test_004_29_every_call_can_be_read_back_with_what_became_of_it(api: Gated, store: ItemStore) -> None:
    ids = api.propose(read(), remove(row=1, id="w1"), delete(id="w2"), delete("nothing", id="w3"), text="I will.")
    api.confirm(ids[0])
    api.reject(ids[1], reason="Not that.")
    api.confirm(ids[2], DONE)
    api.say("Thanks.", DONE)
    exchange = exchanges(api, store)[0]
    assert exchange.text == "I will."
    assert [(one.name, json.loads(one.arguments)) for one in exchange.calls] == [
        ("read_manifest_rows", {"id": "weight"}),
        ("remove_row", {"id": "weight", "path": "[index=1]"}),
        ("delete_manifest", {"id": "weight"}),
        ("delete_manifest", {"id": "nothing"}),
    ]
    results = [json.loads(one.result or "") for one in exchange.calls]
    assert results[0]["rows"]
    assert results[1]["ok"] is True
    assert (results[2]["status"], results[2]["reason"]) == ("rejected", "Not that.")
    assert results[3]["code"] == "unknown_manifest"
    assert [one.proposal.id if one.proposal else None for one in exchange.calls] == [None, *ids]
    trail = {id: [e["outcome"] for e in api.audit() if e.get("proposalId") == id] for id in ids}
    assert [sorted(trail[id]) for id in ids] == [
        ["confirmed", "proposed", "succeeded"],
        ["proposed", "rejected"],
        ["confirmed", "failed", "proposed"],
    ]


def test_004_30_a_window_that_is_full_drops_the_oldest_messages_and_parts_no_call_from_its_result(
    store: ItemStore,
) -> None:
    """Ours is 24,000 characters of messages as shipped, sixty here, and the last three turns that called a tool."""
    with gated(store, CHAT_WINDOW_CHARS="60") as api:
        [proposal] = api.propose(read(), remove())
        api.confirm(proposal, says("It is gone."))
        for n in range(4):
            api.say(f"Message {n}, of some length.", says(f"Answer {n}, of some length."))
        sent = api.gateway.messages()
        check_request(sent)
        plain = [message["content"] for message in sent if "tool_calls" not in message and message["role"] != "tool"]
        assert plain == ["Answer 2, of some length.", "Message 3, of some length."]


def test_004_31_arguments_that_are_no_json_are_refused_by_validation_and_sent_back_as_an_empty_object(
    api: Gated,
) -> None:
    api.say("Remove it.", asks(call("delete_manifest", '{"id": "weight"')), DONE)
    assert api.told()[0]["code"] == "invalid_arguments"
    [spoken] = [message for message in api.gateway.messages() if message.get("tool_calls")]
    assert spoken["tool_calls"][0]["function"]["arguments"] == "{}"
    assert api.open() == []
    assert api.rows("weight") == WEIGHTS


# -- prompt caching, with a turn that waited


def test_004_32_the_marks_are_in_their_places_in_the_turn_after_a_decision(api: Gated) -> None:
    """Ours are the end of the static part, of the instance, and of the conversation; the tools stand before them all,
    under the first mark.
    """
    [proposal] = api.propose(delete())
    api.confirm(proposal, DONE)
    for request in api.gateway.requests:
        blocks = request.messages[0]["content"]
        assert ["cache_control" in block for block in blocks] == [True, True, False]
        assert marks(request.messages) == 3
    last = api.gateway.requests[-1].messages[-1]
    assert (last["role"], marks([last])) == ("tool", 1)


def test_004_33_tools_and_prompt_are_the_same_bytes_for_all_of_one_role_in_every_turn_and_on_every_page(
    api: Gated,
) -> None:
    api.cards("mood")
    [proposal] = api.propose(delete("mood"))
    api.say("Wait.", says("I wait."), context={"route": "/cards/mood", "record": "mood"}, viewedCardId="mood")
    api.reject(proposal, DONE)
    talk_of(api, "bob")
    api.say("Hello.", says("Hi."), token="bob")
    requests = api.gateway.requests
    assert len({json.dumps(request.tools) for request in requests}) == 1
    assert len({json.dumps(request.messages[0]["content"][:2]) for request in requests}) == 1


def test_004_34_where_the_person_is_stands_in_their_message_and_nowhere_else(api: Gated) -> None:
    [proposal] = api.propose(delete(), context={"route": "/somewhere/else"})
    api.confirm(proposal, DONE)
    for number, request in enumerate(api.gateway.requests):
        assert "/somewhere/else" not in json.dumps(request.messages[0])
        found = [m["role"] for m in api.gateway.messages(number) if "/somewhere/else" in json.dumps(m)]
        assert found == ["user"]


def test_004_35_a_prefix_that_is_too_short_for_a_cache_is_no_error(store: ItemStore) -> None:
    with gated(store, HEALTH_SYSTEM_PROMPT="Hi.", CHAT_PROMPT_PROFILE="compact") as api:
        [proposal] = api.propose(remove())
        assert api.confirm(proposal, DONE).status == 200


# -- the model's endpoint


def test_004_38_endpoint_model_and_key_are_settings_and_the_key_is_never_shown() -> None:
    """Any server of the one protocol, instead of a provider's name; the answer's length is the server's own."""
    given = {"CHAT_ENDPOINT_URL": "http://models.invalid/v1", "CHAT_MODEL": "small-1", "CHAT_API_KEY": "s3cret"}
    settings = read_settings({**given, "AGENT_API_TOKEN": "agent", "DECKHAND_SQLITE": "unused"})
    assert settings.chat_endpoint_url == given["CHAT_ENDPOINT_URL"]
    assert settings.chat_model == "small-1"
    assert settings.chat_api_key is not None
    assert settings.chat_api_key.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(settings)


# -- the API


def test_004_39_conversations_are_made_listed_renamed_read_and_deleted(api: Gated) -> None:
    """At most a hundred a person, so the list needs no pages; what is deleted is gone, with what waited in it."""
    [proposal] = api.propose(delete())
    other = api.conversation(title="Other")
    listed = [one["id"] for one in api("GET", "/api/conversations").body["conversations"]]
    assert listed == [other, api.talk], "newest activity first"
    api.reject(proposal, DONE)
    listed = [one["id"] for one in api("GET", "/api/conversations").body["conversations"]]
    assert listed == [api.talk, other], "a decision is activity"
    assert api("PATCH", f"/api/conversations/{other}", {"title": "Mine"}).status == 200
    assert api("GET", f"/api/conversations/{other}").body["conversation"]["title"] == "Mine"
    assert api("DELETE", f"/api/conversations/{other}").status == 200
    assert api("GET", f"/api/conversations/{other}").status == 404


def test_004_40_a_send_without_an_id_is_over_the_clients_own_transcript(api: Gated) -> None:
    """It makes no conversation; one is made by its own route."""
    before = api("GET", "/api/conversations").body
    api.gateway.script(DONE)
    answer = api("POST", "/api/chat", {"messages": [{"role": "user", "content": "Hello."}]})
    assert (answer.status, answer.body["reply"]) == (200, "Done.")
    assert "conversationId" not in answer.body
    assert api("GET", "/api/conversations").body == before
    assert api.say("Hello.", DONE).body["conversationId"] == api.talk


def test_004_47_the_assistants_name_is_a_setting_that_the_prompt_and_the_app_have(store: ItemStore) -> None:
    with gated(store, CHAT_AGENT_NAME="Zenobia") as api:
        api.say("Hello.", DONE)
        assert "Zenobia" in api.gateway.requests[0].messages[0]["content"][0]["text"]
        assert api("GET", "/api/chat/status").body["agent"]["name"] == "Zenobia"


@pytest.mark.parametrize("text", ["", "  \n "])
def test_004_41_a_message_without_text_is_refused(api: Gated, text: str) -> None:
    """Our limits are wider: a body of 256 KB, a route of 500 characters, names of 200."""
    assert api.say(text).refusal == (400, "invalid_messages")
    assert api.texts(api.talk) == []


@pytest.mark.parametrize(
    ("field", "value"), [("route", "x" * 501), ("model", "x" * 201), ("record", "x" * 201), ("route", 7)]
)
def test_004_41_a_page_that_is_named_too_long_is_refused(api: Gated, field: str, value: Any) -> None:
    assert api.say("Hello.", context={field: value}).refusal == (422, "invalid")
    assert api.say("Hello.", DONE, context={field: "x" * 200}).status == 200


def test_004_41_a_title_has_120_characters_at_most_and_null_clears_it(api: Gated) -> None:
    path = f"/api/conversations/{api.talk}"
    assert api("PATCH", path, {"title": "x" * 121}).refusal == (422, "invalid")
    for title, shown in (("x" * 120, "x" * 120), (None, None)):
        assert api("PATCH", path, {"title": title}).status == 200
        assert api("GET", path).body["conversation"]["title"] == shown


def test_004_42_an_untitled_conversation_is_called_by_the_first_words_of_its_person(api: Gated) -> None:
    """Sixty characters, cut at a word, until a title is made."""
    api.say("please " * 20, DONE)
    [shown] = api("GET", "/api/conversations").body["conversations"]
    assert shown["title"] == "please please please please please please please please…"


def test_004_45_the_assistant_is_on_until_it_is_switched_off_and_who_may_not_chat_is_refused_besides(
    api: Gated,
) -> None:
    """On by default, since whoever deploys it wants it; off is 403 `agent_switched_off`, not a missing route."""
    assert api("GET", "/api/agent/switches").body == {"off": []}
    assert api.say("Hello.", DONE).status == 200
    api("PUT", "/api/agent/switches", {"scope": "all", "enabled": False})
    assert api.say("Hello.").refusal == (403, "agent_switched_off")
    api("PUT", "/api/agent/switches", {"scope": "all", "enabled": True})
    api.parts.__dict__["policy"] = engine('forbid (principal, action == Action::"chat", resource);')
    assert api.say("Hello.").refusal == (403, "forbidden")


def test_004_46_switched_off_in_the_middle_of_a_turn_the_model_is_not_asked_again(api: Gated) -> None:
    gate = Gate()
    stream = api.say("Look.", [gate, *asks(read())], stream=True).stream
    gate.wait_reached()
    api("PUT", "/api/agent/switches", {"scope": "user", "id": "ann", "enabled": False})
    gate.open()
    frames = list(stream)
    assert frames[-1].name == "done"
    assert len(api.gateway.requests) == 1
    assert api.texts(api.talk) == ["Look."]
    talk_of(api, "bob")
    assert api.say("Hello.", says("Hi."), token="bob").status == 200


@pytest.mark.parametrize(
    ("token", "body", "refusal"),
    [
        (None, {"messages": [{"role": "user", "content": "x"}]}, (401, "unauthenticated")),
        ("ann", {"messages": []}, (400, "invalid_messages")),
        ("ann", {"messages": [{"role": "user", "content": "x"}], "conversationId": "nothing"}, None),
    ],
)
def test_004_48_what_is_refused_before_the_stream_is_plain_json(
    api: Gated, token: str | None, body: dict[str, Any], refusal: tuple[int, str] | None
) -> None:
    answer = api("POST", "/api/chat", {**body, "stream": True}, token=token)
    assert answer.refusal == (refusal or (404, "unknown_conversation"))
    decided = api("POST", f"{PROPOSALS}/nothing/confirm", {"stream": True}, token=token)
    assert decided.refusal == ((401, "unauthenticated") if token is None else (404, "unknown_proposal"))


def test_004_49_the_frames_are_tokens_then_done_or_an_error_that_says_no_more_than_it_may(api: Gated) -> None:
    frames = api.say("Hello.", says("It ", "is."), stream=True).frames
    assert [f.data["text"] for f in frames if f.name == "token"] == ["It ", "is."]
    assert frames[-1].data | {"turnId": ""} == {"conversationId": api.talk, "turnId": "", "status": "done"}
    frames = api.say("Again.", [RuntimeError("s3cret of the house")], stream=True).frames
    assert frames[-2].name == "error"
    assert frames[-2].data["code"] == "internal"
    assert "s3cret" not in str(frames)


def test_004_50_streamed_or_not_the_same_rows_are_stored(store: ItemStore) -> None:
    kept = []
    with gated(store, "weight", "mood") as api:
        for stream in (False, True):
            api.talk = api.conversation()
            answer = api.say("Look.", asks(read(), delete("mood"), text="I will."), stream=stream)
            if stream:
                list(answer.stream)
            [proposal] = [one["id"] for one in api.open()]
            answer = api.reject(proposal, says("It stays."), stream=stream)
            if stream:
                list(answer.stream)
            [exchange] = exchanges(api, store)
            calls = [(one.id, one.name, one.arguments, one.proposal is not None) for one in exchange.calls]
            kept.append((api.texts(api.talk), exchange.text, calls))
    assert kept[0] == kept[1]


# -- the second step of a write


def test_001_73_a_conversation_that_is_forgotten_takes_what_waited_in_it_along(api: Gated) -> None:
    """Ours are the hundred conversations of a person that were active last, instead of a thousand chats."""
    [proposal] = api.propose(delete())
    for _ in range(100):
        api.conversation()
    assert api("GET", f"/api/conversations/{api.talk}").status == 404
    assert api.confirm(proposal).refusal == (404, "unknown_proposal")
    api.talk = api.conversation()
    api.say("Yes.", asks(delete(confirmationId=proposal)), DONE)
    assert api.told()[0]["code"] == "unknown_proposal"
    assert api.rows("weight") == WEIGHTS


def test_001_74_when_the_memory_is_lost_the_person_is_asked_once_more(api: Gated, store: ItemStore) -> None:
    [lost] = api.propose(remove())
    key = Key("turns", f"main#conv#{api.talk}", f"p#{lost.rpartition('.')[2]}")
    assert store.get(key) is not None
    store.write([Delete(key)], token="lost")
    answer = api.say("Yes.", asks(remove(confirmationId=lost)), asks(remove(id="c2")))
    assert api.told()[-1]["code"] == "unknown_proposal"
    [again] = [one["id"] for one in answer.body["proposals"]]
    assert api.rows("weight") == WEIGHTS
    api.say("Yes, really.", asks(remove(confirmationId=again)), DONE)
    assert api.rows("weight") == WEIGHTS[1:]


@pytest.mark.parametrize("id", ["", "none.none", "../x", 7, None])
def test_001_74_an_id_that_is_none_writes_nothing(api: Gated, id: Any) -> None:
    api.propose(remove())
    api.say("Yes.", asks(remove(confirmationId=id)), *([] if not id else [DONE]))
    assert api.rows("weight") == WEIGHTS


def test_001_72_a_message_that_was_sent_before_the_call_was_shown_agrees_to_nothing(api: Gated) -> None:
    """It queued behind the turn that asked, so its person had not seen what they would say yes to."""
    gate = Gate()
    stream = api.say("Clean up.", [gate, *asks(delete())], stream=True).stream
    gate.wait_reached()
    assert api.say("Yes, do whatever you want.", onBusy="enqueue").status == 202
    gate.open()
    list(stream)
    [proposal] = [one["id"] for one in api.open()]
    api.gateway.script(asks(delete(confirmationId=proposal)), says("I wait for your yes."))
    queued = api.parts.chats
    assert queued is not None
    assert api._thread.submit(queued.run_queued(Owner("main", "ann"), api.talk, time_left=None)).result(60)
    assert api.told()[-1]["code"] == "not_confirmed"
    assert api.rows("weight") == WEIGHTS
    api.say("Yes.", asks(delete(confirmationId=proposal)), DONE)
    assert api.rows("weight") is None


async def test_001_72_a_message_is_as_old_as_its_request_however_long_the_turn_took_to_start(world: World) -> None:
    """So that one which interrupts a turn agrees to nothing that the turn proposed on its last step."""
    process, sent = world.process(says("Hello.")), world.clock.time

    def later() -> None:
        world.clock.time += 5

    process.store.arm("find", hook=later)
    running = await process.ask("Yes.")
    [message, _] = process.context.conversations.messages(world.owner, running.turn.header.header)
    assert message.created_at == iso(sent)


def test_001_72_a_message_that_is_older_than_the_proposal_agrees_to_nothing(api: Gated, store: ItemStore) -> None:
    [proposal] = api.propose(delete())
    rewritten(store, proposal, created_at=time.time() + 60)
    api.say("Yes.", asks(delete(confirmationId=proposal)), DONE)
    assert api.told()[-1]["code"] == "not_confirmed"
    assert api.rows("weight") == WEIGHTS
