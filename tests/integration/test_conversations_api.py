"""The conversation routes over events of API Gateway, status by status."""

import json
import time
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from deckhand.domain.conversation import MAX_CONVERSATIONS, MAX_MESSAGES, MAX_TITLE, MAX_TRANSCRIPT_BYTES
from deckhand.domain.errors import StorageUnavailable
from deckhand.operations.conversations import TRANSCRIPT_BODY
from deckhand.storage.port import ItemStore
from tests.api import Api, Deploy
from tests.deck import HookedStore
from tests.fakes import Gate, Hang, asks, call, says

LIST = "/api/conversations"


@pytest.fixture
def api(deploy: Deploy) -> Api:
    return deploy()


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def assistant(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


def listed(api: Api, **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api("GET", LIST, **more).body["conversations"]
    return found


def ids(api: Api) -> list[str]:
    return [conversation["id"] for conversation in listed(api)]


# -- create, list, read


def test_a_new_conversation_is_created_listed_and_read(api: Api) -> None:
    answer = api("POST", LIST, {"title": " Tea ", "messages": [user("hi"), assistant("ho")]})
    assert answer.status == 201
    made = answer.body["conversation"]
    assert (made["title"], made["messageCount"], made["createdAt"]) == ("Tea", 2, made["updatedAt"])
    assert listed(api) == [{name: value for name, value in made.items() if name != "messages"}]
    assert api("GET", f"{LIST}/{made['id']}").body == {"conversation": made}
    assert [set(message) for message in made["messages"]] == [{"id", "role", "content", "createdAt"}] * 2


@pytest.mark.parametrize("body", [None, {}, {"title": None}, {"title": "  "}, {"messages": []}])
def test_a_conversation_needs_nothing(api: Api, body: Any) -> None:
    made = api("POST", LIST, body).body["conversation"]
    assert (made["title"], made["messageCount"], made["messages"]) == (None, 0, [])


def test_the_first_words_of_the_person_stand_for_a_title(api: Api) -> None:
    made = api("POST", LIST, {"messages": [assistant("Hello!"), user("how\n\nis my   weight")]}).body["conversation"]
    assert made["title"] == "how is my weight"


def test_the_list_is_ordered_by_the_newest_activity(deploy: Deploy) -> None:
    api = deploy(says("Hello"))
    first = api.conversation()
    time.sleep(0.002)  # Activity is told in milliseconds.
    second = api.conversation()
    assert ids(api) == [second, first]
    time.sleep(0.002)
    api.chat(first, "hi")
    assert ids(api) == [first, second]


def test_everything_that_is_written_is_read_back_as_it_was(api: Api) -> None:
    strange = 'té 🍵 \u2028\u0085\x00 "quoted" \\ </script> ' + "x" * 10_000
    conversation = api.conversation(messages=[user(strange)])
    assert api.texts(conversation) == [strange]


def test_somebody_elses_conversation_is_unknown_and_not_listed(api: Api) -> None:
    conversation = api.conversation(title="Mine")
    path = f"{LIST}/{conversation}"
    assert listed(api, token="bob") == []
    tries: list[tuple[str, str, Any]] = [
        ("GET", path, None),
        ("PATCH", path, {"title": "Yours"}),
        ("PUT", f"{path}/messages", {"messages": []}),
        ("DELETE", path, None),
    ]
    for method, where, body in tries:
        assert api(method, where, body, token="bob").refusal == (404, "unknown_conversation")
    assert listed(api)[0]["title"] == "Mine"


@pytest.mark.parametrize("conversation", ["nobody", "a%2Fb", "caf%C3%A9", "x" * 65, "-"])
def test_case_54_an_id_that_is_not_one_of_ours_is_unknown(api: Api, conversation: str) -> None:
    assert api("GET", f"{LIST}/{conversation}").refusal == (404, "unknown_conversation")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"title": "x" * (MAX_TITLE + 1)}, "title"),
        ({"title": 5}, "title"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [user("a"), {"role": "user", "content": 1}]}, "messages.1.content"),
        ({"name": "x"}, "name"),
    ],
)
def test_fields_that_cannot_be_used_are_422_and_named(api: Api, body: Any, path: str) -> None:
    answer = api("POST", LIST, body)
    assert answer.refusal == (422, "invalid")
    assert [error["path"] for error in answer.body["errors"]] == [path]
    assert ids(api) == []


@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"title":NaN}', b'{"title":"a","title":"b"}', b"\xff"])
def test_a_body_that_is_no_json_object_is_400(api: Api, raw: bytes) -> None:
    assert api("POST", LIST, raw=raw).refusal == (400, "invalid_json")


# -- rename


def test_case_56_a_conversation_that_fits_no_answer_is_read_by_its_newest_messages(deploy: Deploy) -> None:
    said = [f"{n} {'x' * 250_000}" for n in range(13)]
    api = deploy(*(says("é" * 120_000) for _ in said))
    conversation = api.conversation()
    for text in said:
        assert api.chat(conversation, text).status == 200
    where = f"{LIST}/{conversation}"
    assert api("GET", where).refusal == (413, "answer_too_large")
    found = api("GET", f"{where}?limit=2").body["conversation"]
    assert found["messageCount"] == 26
    assert [message["content"] for message in found["messages"]] == [said[-1], "é" * 120_000]


@pytest.mark.parametrize("limit", ["0", "201", "x", "-1"])
def test_a_limit_that_is_none_is_422(deploy: Deploy, limit: str) -> None:
    api = deploy()
    assert api("GET", f"{LIST}/{api.conversation()}?limit={limit}").refusal == (422, "invalid")


@pytest.mark.parametrize(
    ("given", "shown"), [("Tea", "Tea"), (" Tea notes ", "Tea notes"), ("x" * MAX_TITLE, "x" * 120)]
)
def test_a_title_is_set(api: Api, given: str, shown: str) -> None:
    conversation = api.conversation()
    assert api("PATCH", f"{LIST}/{conversation}", {"title": given}).body == {"ok": True}
    assert listed(api)[0]["title"] == shown


@pytest.mark.parametrize("title", ["", "  \n", None])
def test_a_blank_title_makes_it_untitled(api: Api, title: str | None) -> None:
    conversation = api.conversation(title="Tea", messages=[user("hi")])
    assert api("PATCH", f"{LIST}/{conversation}", {"title": title}).status == 200
    assert listed(api)[0]["title"] is None


@pytest.mark.parametrize("body", [{}, {"title": "x" * (MAX_TITLE + 1)}, {"title": 1}, {"title": "a", "id": "b"}])
def test_a_title_that_cannot_be_used_changes_nothing(api: Api, body: Any) -> None:
    conversation = api.conversation(title="Tea")
    assert api("PATCH", f"{LIST}/{conversation}", body).refusal == (422, "invalid")
    assert listed(api)[0]["title"] == "Tea"


def test_renaming_is_no_activity(api: Api) -> None:
    first = api.conversation()
    time.sleep(0.002)
    second = api.conversation()
    api("PATCH", f"{LIST}/{first}", {"title": "Tea"})
    assert ids(api) == [second, first]


# -- replace


def test_a_transcript_is_replaced_whole(deploy: Deploy) -> None:
    api = deploy(asks(call("list_manifests")), says("Hello"), says("Again"))
    conversation = api.conversation()
    api.chat(conversation, "hi")
    given = [{**user("new"), "id": "theirs", "createdAt": "1999", "capped": True}, assistant("ok")]
    assert api("PUT", f"{LIST}/{conversation}/messages", {"messages": given}).body == {"ok": True}
    shown = api.shown(conversation)
    assert [message["content"] for message in shown] == ["new", "ok"]
    assert all(message["id"] != "theirs" and "capped" not in message for message in shown)
    assert listed(api)[0]["messageCount"] == 2
    api.chat(conversation, "go on")
    assert [m["role"] for m in api.gateway.messages()] == ["user", "assistant", "user"], (
        "old calls went with their text"
    )


def test_the_newest_two_hundred_of_a_transcript_are_kept(api: Api) -> None:
    conversation = api.conversation()
    given = [user(f"message {n}") for n in range(MAX_MESSAGES + 5)]
    assert api("PUT", f"{LIST}/{conversation}/messages", {"messages": given}).status == 200
    assert api.texts(conversation) == [f"message {n}" for n in range(5, MAX_MESSAGES + 5)]
    assert listed(api)[0]["messageCount"] == MAX_MESSAGES


@pytest.mark.parametrize("letter", ["x", "é"])
def test_a_transcript_of_512_kb_is_taken_and_one_byte_more_is_413(api: Api, letter: str) -> None:
    conversation = api.conversation(messages=[user("before")])
    half = letter * (MAX_TRANSCRIPT_BYTES // 2 // len(letter.encode()))
    path = f"{LIST}/{conversation}/messages"
    too_large = [user(half), assistant(half + "x")]
    assert api("PUT", path, raw=_plain(too_large)).refusal == (413, "body_too_large")
    assert api.texts(conversation) == ["before"]
    assert api("PUT", path, raw=_plain([user(half), assistant(half)])).status == 200
    assert api.texts(conversation) == [half, half]


def _plain(messages: list[dict[str, str]]) -> bytes:
    return json.dumps({"messages": messages}, ensure_ascii=False).encode()


def test_a_body_over_its_limit_is_413_before_it_is_parsed(api: Api) -> None:
    conversation = api.conversation()
    path = f"{LIST}/{conversation}/messages"
    assert api("PUT", path, raw=b"x" * (TRANSCRIPT_BODY + 1)).refusal == (413, "body_too_large")


def test_a_new_conversation_has_the_same_limit(api: Api) -> None:
    large = {"messages": [user("x" * (MAX_TRANSCRIPT_BYTES + 1))]}
    assert api("POST", LIST, large).refusal == (413, "body_too_large")
    assert ids(api) == []


def test_a_transcript_is_not_replaced_while_a_turn_runs(deploy: Deploy) -> None:
    gate = Gate()
    api = deploy([gate, *says("Hello")])
    conversation = api.conversation()
    stream = api.chat(conversation, "hi", stream=True).stream
    gate.wait_reached()
    refused = api("PUT", f"{LIST}/{conversation}/messages", {"messages": []})
    assert refused.refusal == (409, "turn_running")
    gate.open()
    assert stream.until("done").data["turnId"] == refused.body["turnId"]
    assert api.texts(conversation) == ["hi", "Hello"]


# -- delete


def test_a_deleted_conversation_is_gone(api: Api) -> None:
    conversation = api.conversation(messages=[user("hi")])
    assert api("DELETE", f"{LIST}/{conversation}").body == {"ok": True}
    assert api("DELETE", f"{LIST}/{conversation}").refusal == (404, "unknown_conversation")
    assert api("GET", f"{LIST}/{conversation}").status == 404
    assert ids(api) == []


def test_case_32_deleting_stops_the_running_turn_and_tells_its_watcher(deploy: Deploy) -> None:
    gate = Gate()
    api = deploy(["Half ", gate, Hang()])
    conversation = api.conversation()
    stream = api.chat(conversation, "hi", stream=True).stream
    gate.wait_reached()
    assert api("DELETE", f"{LIST}/{conversation}").status == 200
    assert stream.names()[-2:] == ["stopped", "done"]
    assert api("GET", f"/api/chat/turn/{conversation}").status == 204
    assert ids(api) == []


# -- caps


def test_the_hundred_and_first_conversation_removes_the_least_recently_active(api: Api) -> None:
    made = [api.conversation(title=f"t{n}") for n in range(MAX_CONVERSATIONS)]
    oldest = ids(api)[-1]
    newest = api.conversation()
    assert set(ids(api)) == {*made, newest} - {oldest}
    assert api("GET", f"{LIST}/{oldest}").refusal == (404, "unknown_conversation")


def test_one_persons_conversations_never_make_room_for_anothers(api: Api) -> None:
    kept = api.conversation()
    for _ in range(MAX_CONVERSATIONS + 1):
        api("POST", LIST, {}, token="bob")
    assert ids(api) == [kept]
    assert len(listed(api, token="bob")) == MAX_CONVERSATIONS


# -- every answer


def test_a_wrong_method_is_told_the_right_ones(api: Api) -> None:
    assert api("PUT", LIST).refusal == (405, "method_not_allowed")
    assert api("PUT", LIST).headers["allow"] == "GET, POST"
    assert api("POST", f"{LIST}/c").headers["allow"] == "DELETE, GET, PATCH"
    assert api("GET", f"{LIST}/c/messages").headers["allow"] == "PUT"


def test_unknown_paths_are_404(api: Api) -> None:
    assert api("GET", f"{LIST}/c/nothing").refusal == (404, "not_found")


def test_private_answers_are_kept_by_no_cache_and_name_their_request(api: Api) -> None:
    for answer in (api("GET", LIST), api("POST", LIST, {}), api("GET", f"{LIST}/nobody")):
        assert (answer.headers["cache-control"], answer.headers["x-request-id"]) == ("no-store", "request-1")


@pytest.mark.parametrize("path", ["/healthz", "/api/instance"])
def test_anybody_may_ask_whether_the_service_is_alive_and_how_its_agent_is_called(api: Api, path: str) -> None:
    assert api("GET", path, token=None).status == 200


@pytest.mark.parametrize(
    ("error", "refusal"),
    [(StorageUnavailable(), (503, "storage_failed")), (ZeroDivisionError("secret"), (500, "internal"))],
)
def test_a_fault_of_ours_says_nothing_of_itself(store: ItemStore, error: Exception, refusal: tuple[int, str]) -> None:
    hooked = HookedStore(store)
    with closing(Api(hooked)) as api:
        hooked.before_query = partial(_raise, error)
        answer = api("GET", LIST)
    assert answer.refusal == refusal
    assert answer.body.get("requestId") == ("request-1" if refusal[0] == 500 else None)
    assert "secret" not in json.dumps(answer.body)


def _raise(error: Exception, _: str) -> None:
    raise error
