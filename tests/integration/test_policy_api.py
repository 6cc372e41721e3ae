"""The policy where operations are run: at the routes, and at the tools of a turn."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deckhand.agent.chat import ToolCall
from deckhand.domain.access import Decision
from deckhand.domain.principal import Principal, Role
from deckhand.edge.app import App
from deckhand.operations.catalog import REGISTRY
from deckhand.operations.docs import DOCS
from deckhand.operations.permission import permission
from deckhand.storage.port import Item, Put
from deckhand.storage.sqlite import SqliteStore
from tests.deck import PERSON, Answer, Deck, HookedStore, event_of, manifest
from tests.fakes import FakeGateway, asks, call, says
from tests.policies import engine
from tests.stores import Clock

ROWS = "/api/manifests/mood/rows"


class House:
    """A deck with the card `mood`, and a chat; `become` says who asks from then on."""

    def __init__(self, folder: Path, store: SqliteStore) -> None:
        self.gateway = FakeGateway()
        self.hooked = HookedStore(store)
        self.deck = Deck(folder, self.hooked, {"CHAT_ENDPOINT_URL": "http://gateway.invalid/v1"})
        self.deck.parts.__dict__["gateway"] = self.gateway
        self.deck.create("mood", data=[{"date": "2026-04-20", "mood": 3}])
        self.deck.create("diary", data=[])
        self.row = self.deck.get(ROWS)["rows"][0]["rowId"]

    def become(self, role: Role, **narrowed: Any) -> None:
        self.deck.sign_in(Principal("token" if narrowed else "user", "ann", "ann", role, **narrowed))

    def follow(self, policy: str) -> None:
        """Puts a document in force."""
        self.deck.parts.__dict__["policy"] = engine(policy)

    def ask(self, *calls: ToolCall) -> list[dict[str, Any]]:
        """One turn in which the model makes the calls; what each told it."""
        self.gateway.script(asks(*calls), says("Done."))
        event = event_of("POST", "/api/chat", {"messages": [{"role": "user", "content": "go on"}]})
        answer = self.deck.parts.chat_app()(event, None)
        assert answer["statusCode"] == 200, answer
        list(answer["body"])
        return [json.loads(message["content"]) for message in self.gateway.messages() if message["role"] == "tool"]

    def tools(self) -> set[str]:
        """What the model was offered last."""
        return {tool["function"]["name"] for tool in self.gateway.requests[-1].tools}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with closing(SqliteStore(":memory:", now=Clock())) as store:
        yield House(tmp_path, store)


def test_a_viewer_reads_and_is_refused_every_change(house: House) -> None:
    house.become("viewer")
    before = house.deck.everything()
    for method, path, body in (
        ("POST", "/api/manifests", manifest("weight")),
        ("POST", ROWS, {"value": {"mood": 5}}),
        ("DELETE", "/api/manifests/mood", None),
        ("POST", "/api/manifests/mood/data", {"data": []}),
        ("POST", "/api/manifests/reorder", {"order": ["diary"]}),
    ):
        answer = house.deck(method, path, body)
        assert (answer.status, answer.code) == (403, "forbidden")
    assert house.deck.everything() == before


def test_on_the_api_a_call_counts_as_confirmed(house: House) -> None:
    house.become("editor")
    assert house.deck("DELETE", "/api/manifests/diary").status == 200


def test_a_token_for_one_card_reaches_no_other_by_any_route(house: House) -> None:
    house.become("agent", cards=frozenset({"mood"}))
    assert house.deck("POST", ROWS, {"value": {"mood": 5}}).status == 201
    diary = "/api/manifests/diary"
    for method, path, body in (
        ("GET", diary, None),
        ("GET", f"{diary}/data", None),
        ("GET", f"{diary}/rows", None),
        ("GET", f"{diary}/orphans", None),
        ("POST", f"{diary}/rows", {"value": {}}),
        ("PATCH", f"{diary}/rows/0.1", {"changes": {}}),
        ("DELETE", f"{diary}/rows/0.1", None),
        ("POST", f"{diary}/rows/reorder", {"order": []}),
        ("POST", f"{diary}/data", {"data": []}),
        ("PATCH", diary, {"meta": {"label": "D"}}),
        ("POST", "/api/settings/cards/diary/disable", None),
        ("DELETE", f"{diary}/notifications/n1", None),
        ("DELETE", diary, None),
    ):
        assert house.deck(method, path, body).status == 403, (method, path)


def test_004_14_a_viewer_chats_with_the_tools_that_read_and_is_refused_the_others(house: House) -> None:
    house.become("viewer")
    read, written = house.ask(
        call("read_manifest_rows", {"id": "mood"}, id="c1"),
        call("append_row", {"id": "mood", "value": {"mood": 5}}, id="c2"),
    )
    assert read["rows"]
    assert written == {"error": "This is not allowed.", "code": "forbidden"}
    assert "read_manifest" in house.tools()
    assert not house.tools() & {"append_row", "delete_manifest", "set_notification", "note_feedback"}
    assert len(house.deck.data("mood")) == 1


def test_004_14_a_forbidden_card_is_refused_to_a_tool_that_others_may_use(house: House) -> None:
    house.follow('forbid (principal, action, resource == Card::"diary");')
    house.become("editor")
    diary, mood = house.ask(
        call("append_row", {"id": "diary", "value": {"text": "x"}}, id="c1"),
        call("append_row", {"id": "mood", "value": {"mood": 5}}, id="c2"),
    )
    assert diary == {"error": "This is not allowed.", "code": "forbidden"}
    assert mood["ok"]
    assert house.deck("POST", "/api/manifests/diary/rows", {"value": {"text": "x"}}).code == "forbidden"


def test_004_15_page_context_and_the_card_in_focus_widen_nothing(house: House) -> None:
    house.become("agent", cards=frozenset({"mood"}))
    house.gateway.script(asks(call("read_manifest", {"id": "diary"})), says("Done."))
    body = {
        "messages": [{"role": "user", "content": "go on"}],
        "viewedCardId": "diary",
        "context": {"route": "/cards/diary", "record": "diary"},
    }
    list(house.deck.parts.chat_app()(event_of("POST", "/api/chat", body), None)["body"])
    told = [json.loads(message["content"]) for message in house.gateway.messages() if message["role"] == "tool"]
    assert [result["code"] for result in told] == ["forbidden"]


# -- lists

LISTS = ("/api/manifests", "/api/views/view", "/api/settings/cards", "/api/activity", "/api/hygiene", "/api/prompts")
STARTER = {"chat": {"starterPrompts": [{"text": "How am I?", "kind": "data"}]}}


@pytest.mark.parametrize("narrowed", [True, False], ids=["a token's cards", "a policy"])
def test_a_hidden_card_is_in_no_list_and_in_no_prompt(house: House, narrowed: bool) -> None:
    house.deck.create("secretly", data=[{"date": "2026-04-20", "x": 1}], view={"enabled": True}, **STARTER)
    if narrowed:
        house.become("agent", cards=frozenset({"mood", "diary"}))
    else:
        house.follow('forbid (principal is User, action, resource == Card::"secretly");')
        house.become("editor")
    for path in LISTS:
        assert "ecretly" not in json.dumps(house.deck.get(path)), path
    calls = [call(name, {}, id=name) for name in ("list_manifests", "get_recent_activity", "hygiene_scan")]
    assert "ecretly" not in json.dumps(house.ask(*calls))
    assert "ecretly" not in json.dumps([request.messages for request in house.gateway.requests])
    assert "mood" in json.dumps(house.gateway.requests[0].messages)
    house.become("owner", operations=None, cards=None)
    assert "ecretly" in json.dumps(house.deck.get("/api/manifests"))


def test_a_prompt_tells_of_reports_only_who_may_list_them(house: House) -> None:
    text = b"---\ntitle: Blood panel\ndate: 2026-03-01\n---\nFerritin 30\n"
    assert house.deck("PUT", "/api/reports/blood.md", raw=text, headers={"content-type": "text/plain"}).status == 200
    for narrowed, told in (({"cards": frozenset({"mood"})}, False), ({"cards": None}, True)):
        house.become("agent", **narrowed)
        house.gateway.requests.clear()
        house.ask(call("list_manifests", {}))
        assert ("Blood panel" in json.dumps(house.gateway.requests[0].messages)) == told


# -- chat itself


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/api/chat"), ("GET", "/api/chat/turns"), ("GET", "/api/chat/turn/c1"), ("DELETE", "/api/chat/turn/c1")],
)
def test_who_may_not_chat_starts_watches_and_stops_nothing(house: House, method: str, path: str) -> None:
    house.become("agent", operations=frozenset({"append_row"}))
    body = {"messages": [{"role": "user", "content": "go on"}]} if method == "POST" else None
    answer = house.deck.parts.chat_app()(event_of(method, path, body), None)
    assert (answer["statusCode"], json.loads("".join(answer["body"]))["code"]) == (403, "forbidden")
    house.become("agent", operations=frozenset({"chat", "append_row"}))
    house.ask(call("append_row", {"id": "mood", "value": {"mood": 1}}))
    assert house.tools() == {"append_row"}


def test_an_owner_may_forbid_the_direct_form(tmp_path: Path) -> None:
    with closing(SqliteStore(":memory:", now=Clock())) as store:
        deck = Deck(tmp_path, store, {"CHAT_API_TOKEN": "shared", "CHAT_ENDPOINT_URL": "http://gateway.invalid/v1"})
        deck.parts.__dict__["policy"] = engine('forbid (principal is Service, action == Action::"chat", resource);')
        event = event_of("POST", "/api/chat", {"message": "hello"}, headers=[("x-chat-token", "shared")])
        assert deck.parts.chat_app()(event, None)["statusCode"] == 403


# -- what one call destroys

ROW = {"date": "2026-04-20", "mood": 3}
MORE = {"date": "2026-04-21", "mood": 4}
LOSING = [
    ("write_manifest_data", {"id": "mood", "data": []}),
    ("write_manifest_data", {"id": "mood", "data": [MORE]}),
    ("write_manifest_data", {"id": "mood", "data": {"a": 1}}),
    ("update_row", {"id": "mood", "path": "[index=0]", "changes": {"doses": None}}),
    ("patch_manifest", {"id": "mood", "patch": {"meta": {"writeable": None}}}),
]
KEEPING = [
    ("write_manifest_data", {"id": "mood", "data": [ROW, MORE]}),
    ("write_manifest_data", {"id": "diary", "data": []}),
    ("update_row", {"id": "mood", "path": "[index=0]", "changes": {"mood": 4}}),
    ("patch_manifest", {"id": "mood", "patch": {"meta": {"label": "Mood"}}}),
]


def asked_in_chat(house: House, tool: str, arguments: dict[str, Any], **more: Any) -> Decision:
    known = REGISTRY.find(tool)
    assert known is not None
    caller = house.deck.parts.caller(Principal("user", "ann", "ann", "editor"), "chat")
    return permission(caller, known, known.input.model_validate(arguments), **more)


@pytest.mark.parametrize(("tool", "arguments"), LOSING)
def test_a_call_that_loses_something_needs_a_yes(house: House, tool: str, arguments: dict[str, Any]) -> None:
    house.deck("PATCH", f"{ROWS}/{house.row}", {"changes": {"doses": [1]}})
    assert asked_in_chat(house, tool, arguments) == Decision("confirm", ("confirm-destructive",))
    assert asked_in_chat(house, tool, arguments, confirmed=True).verdict == "allow"


@pytest.mark.parametrize(("tool", "arguments"), KEEPING)
def test_a_call_that_loses_nothing_needs_none(house: House, tool: str, arguments: dict[str, Any]) -> None:
    assert asked_in_chat(house, tool, arguments).verdict == "allow"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_manifest_data", {"id": "nothing", "data": []}),
        ("update_row", {"id": "mood", "path": "[nonsense", "changes": {}}),
        ("update_row", {"id": "mood", "path": "", "changes": {"a": None}}),
        ("patch_manifest", {"id": "mood", "patch": {"meta": "text"}}),
        ("patch_manifest", {"id": "mood", "patch": {"meta": None}}),
    ],
)
def test_what_is_wrong_with_a_call_is_said_by_its_operation(house: House, tool: str, arguments: dict[str, Any]) -> None:
    assert asked_in_chat(house, tool, arguments).verdict == "allow"


def test_on_the_api_nothing_is_read_to_find_out(house: House) -> None:
    house.become("editor")
    reads: list[str] = []
    house.hooked.before_query = reads.append
    assert house.deck("POST", "/api/manifests/mood/data", {"data": [MORE]}).status == 200
    assert not [pk for pk in reads if "#card#mood" in pk]


def test_a_direct_chat_never_loses_anything(house: House) -> None:
    service = house.deck.parts.caller(Principal("service", "direct", "service:direct", "agent"), "direct")
    write = REGISTRY.find("write_manifest_data")
    assert write is not None
    for data, verdict in (([], "deny"), ([ROW, MORE], "allow")):
        given = write.input.model_validate({"id": "mood", "data": data})
        assert permission(service, write, given).verdict == verdict


# -- the document

POLICY = "/api/policy"
SENTINEL = "sentinel-7f3a"
FORBID = f'@id("{SENTINEL}") forbid (principal, action == Action::"append_row", resource == Card::"diary");'


@dataclass
class Office:
    """The policy's routes, as an owner or whoever `become` says."""

    app: App
    principal: Principal

    def __call__(self, method: str, path: str = POLICY, body: Any = None) -> Answer:
        url, _, query = path.partition("?")
        named = [tuple(part.split("=")) for part in query.split("&") if part]
        answer = self.app(event_of(method, url, body, query=named), None)
        return Answer(answer["statusCode"], {}, answer["body"])


@pytest.fixture
def office(house: House) -> Office:
    made = Office(house.deck.parts.identity_app(), PERSON)
    house.deck.parts.__dict__["authenticate"] = lambda _: made.principal
    made.app = house.deck.parts.identity_app()
    return made


def test_before_the_first_document_only_what_ships_holds(office: Office) -> None:
    body = office("GET").body
    assert (body["policy"], body["version"]) == ("", 0)
    assert '@id("owner-everything")' in body["builtIn"]
    assert body["confirmWrites"] == "destructive"
    assert "shadow" not in body


def test_a_document_is_put_in_force_read_and_its_versions_are_kept(office: Office) -> None:
    assert office("PUT", body={"policy": FORBID}).body == {"ok": True, "version": 1}
    assert office("PUT", body={"policy": "", "shadow": FORBID, "expectedVersion": 1}).body["version"] == 2
    now, before = office("GET").body, office("GET", f"{POLICY}?version=1").body
    assert (now["policy"], now["shadow"], now["version"], now["writtenBy"]) == ("", FORBID, 2, "user:ada")
    assert (before["policy"], before["version"]) == (FORBID, 1)
    assert office("GET", f"{POLICY}?version=3").status == 404


def test_a_document_holds_at_once_in_a_process_that_read_none_before(house: House, office: Office) -> None:
    office("PUT", body={"policy": FORBID})
    del house.deck.parts.__dict__["policy"]
    house.become("editor")
    assert house.deck("POST", "/api/manifests/diary/rows", {"value": {}}).status == 403
    assert house.deck("POST", ROWS, {"value": {"mood": 5}}).status == 201


def test_a_faulty_document_changes_nothing_and_every_fault_has_its_place(office: Office) -> None:
    answer = office("PUT", body={"policy": "permit (principal, action);", "shadow": "nonsense"})
    assert (answer.status, answer.code) == (422, "invalid")
    for fault in answer.body["errors"]:
        assert fault["message"]
        assert (fault["line"], fault["column"]) >= (1, 1)
    assert [fault["path"] for fault in answer.body["errors"]] == ["policy", "shadow"]
    assert office("GET").body["version"] == 0


@pytest.mark.parametrize(
    "text",
    ["forbid (principal, action, resource);", 'forbid (principal, action == Action::"write_policy", resource);'],
)
def test_a_document_that_would_lock_every_owner_out_is_refused(office: Office, text: str) -> None:
    answer = office("PUT", body={"policy": text})
    assert (answer.status, answer.code) == (409, "would_lock_out")
    assert office("GET").body["version"] == 0


ONLY = 'forbid (principal, action == Action::"write_policy", resource) unless {{ principal == {} }};'


@pytest.mark.parametrize("one", ['Token::"t"', 'User::"ada"', 'Token::"agent"'])
def test_a_document_that_only_one_token_or_somebody_unknown_could_change_is_refused(office: Office, one: str) -> None:
    """A token is revoked or expires, and then nobody could."""
    office.principal = Principal("token", "t", "owner", "owner")
    assert office("PUT", body={"policy": ONLY.format(one)}).code == "would_lock_out"
    assert office("GET").body["version"] == 0


def test_before_anybody_has_signed_in_the_first_owner_to_come_counts(office: Office) -> None:
    assert office("PUT", body={"policy": ONLY.format('User::"owner"')}).status == 200


def test_a_document_that_another_replaced_meanwhile_is_not_overwritten(office: Office) -> None:
    office("PUT", body={"policy": ""})
    answer = office("PUT", body={"policy": FORBID, "expectedVersion": 0})
    assert (answer.status, answer.code, answer.body["version"]) == (412, "stale_version", 1)


@pytest.mark.parametrize("role", ["editor", "viewer", "agent"])
def test_only_an_owner_reads_writes_and_explains_the_policy(office: Office, role: Role) -> None:
    office.principal = Principal("token", "t", "ada", role)
    assert office("GET").status == 403
    assert office("PUT", body={"policy": ""}).status == 403
    assert office("POST", f"{POLICY}/explain", {"operation": "append_row"}).status == 403


def test_an_owner_repairs_a_stored_document_that_cannot_be_used(house: House, office: Office) -> None:
    broken = Item("identity", "main#policy", "current", '{"version": 1', version=1)
    house.deck.parts.store.write([Put(broken)], token="t")
    del house.deck.parts.__dict__["policy"]
    assert house.deck("GET", "/api/manifests").status == 403
    house.become("owner")
    assert house.deck("GET", "/api/manifests").status == 403
    office.principal = PERSON
    assert office("GET").body["policy"].endswith(broken.body)
    assert office("PUT", body={"policy": FORBID}).body["version"] == 2


@pytest.mark.parametrize(
    ("question", "decision", "policies"),
    [
        ({"operation": "append_row", "card": "mood"}, "allow", ["owner-everything"]),
        ({"operation": "append_row", "card": "diary"}, "deny", [SENTINEL]),
        ({"operation": "remove_row", "card": "mood", "channel": "chat"}, "confirm", ["confirm-destructive"]),
        (
            {"operation": "remove_row", "card": "mood", "channel": "chat", "confirmed": True},
            "allow",
            ["owner-everything"],
        ),
        ({"operation": "append_row", "principal": {"role": "viewer"}}, "deny", []),
        ({"operation": "write_manifest_data", "channel": "direct", "destructive": True}, "deny", None),
        (
            {
                "operation": "append_row",
                "card": "mood",
                "principal": {"role": "agent", "kind": "token", "cards": ["x"]},
            },
            "deny",
            ["token-cards"],
        ),
        ({"operation": "chat", "principal": {"role": "viewer"}}, "allow", ["viewer-reads"]),
    ],
)
def test_a_decision_is_explained_by_what_decided(
    house: House, office: Office, question: dict[str, Any], decision: str, policies: list[str] | None
) -> None:
    house.follow(FORBID)
    body = office("POST", f"{POLICY}/explain", question).body
    assert body["decision"] == decision
    assert policies is None or body["policies"] == policies


def test_only_a_known_operation_is_explained(office: Office) -> None:
    assert office("POST", f"{POLICY}/explain", {"operation": "fly"}).status == 422


# -- the model


def test_no_tool_and_no_prompt_holds_anything_of_the_policy(house: House, office: Office) -> None:
    assert office("PUT", body={"policy": FORBID, "shadow": FORBID}).status == 200
    assert not {known for known in REGISTRY.tools() if "policy" in known.name}
    house.become("owner")
    calls = [call(known.name, {}, id=known.name) for known in REGISTRY.tools() if not known.mutates]
    calls += [call("read_doc", {"path": path}, id=path) for path in DOCS]
    calls += [call(name, {}, id=name) for name in ("read_policy", "write_policy", "explain_policy")]
    refused = house.ask(*calls)[-3:]
    assert [result["code"] for result in refused] == ["unknown_tool"] * 3
    sent = json.dumps([[request.messages, request.tools] for request in house.gateway.requests])
    for secret in (SENTINEL, "owner-everything", "confirm-destructive", "permit (", "principal in Role"):
        assert secret not in sent


def test_a_refusal_says_nothing_of_why(house: House) -> None:
    house.follow(FORBID)
    house.become("editor")
    answer = house.deck("POST", "/api/manifests/diary/rows", {"value": {}})
    assert (answer.status, answer.body) == (403, {"error": "This is not allowed.", "code": "forbidden"})
    (refused,) = house.ask(call("append_row", {"id": "diary", "value": {}}))
    assert refused == {"error": "This is not allowed.", "code": "forbidden"}
