"""Every operation is called once and succeeds with no more rights than its function's role has, and what it answers is
what is declared of it.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from deckhand.domain.account import Account, Credential
from deckhand.operations.catalog import REGISTRY
from deckhand.operations.execution import perform
from deckhand.push.vapid import new_key
from deckhand.storage.accounts import Accounts
from deckhand.storage.port import ItemStore
from tests.answers import RESULTS, misfit
from tests.api import ANN
from tests.deck import manifest
from tests.gated import Gated, Make, delete
from tests.push_service import Device
from tests.rights import Guarded, function_of
from tests.stores import new_token

TRIGGER = {"type": "daily", "time": "08:00"}
REMINDER = {"card_id": "weight", "notification_id": "weigh", "label": "Weigh", "title": "Weigh", "body": "Step on it."}
PHONE = "https://fcm.googleapis.com/fcm/send/phone"


class Calls:
    """Over HTTP where an operation is reached so, else as a tool of a confirmed call; `made` are those that
    succeeded.
    """

    def __init__(self, api: Gated, store: Guarded) -> None:
        self.api, self._store = api, store
        self._agent = replace(api.parts.caller(ANN, "chat"), confirmed=True)
        self.made: set[str] = set()

    def __call__(self, name: str, /, **given: Any) -> Any:
        operation = REGISTRY.find(name)
        assert operation is not None
        http = operation.http
        # What has no route is a tool of a turn.
        self._store.function = "ChatFunction" if http is None else function_of(http.method, http.path)
        if http is None:
            result = perform(self._agent, operation, operation.input.model_validate(given))
            assert misfit(RESULTS, f"/results/{name}", result) is None
        else:
            result = self._over_http(http.method, http.path, given, text=http.text)
        assert self._store.refused == []
        self.made.add(name)
        return result

    def _over_http(self, method: str, path: str, given: Mapping[str, Any], *, text: bool) -> Any:
        rest = {name: value for name, value in given.items() if f"{{{name}}}" not in path}
        url = path.format_map({name: quote(str(value)) for name, value in given.items()})
        body = next(iter(rest.values())) if "manifest" in rest or "patch" in rest else rest
        token = "operator" if url.startswith("/api/admin") else "ann"
        if method in ("GET", "DELETE"):
            answer = self.api(method, f"{url}?{urlencode(rest)}", token=token)
        else:
            answer = self.api(method, url, body, raw=rest["text"].encode() if text else None)
        assert 200 <= answer.status < 300, (method, url, answer.content)
        return answer.body if answer.content else None


@pytest.fixture
def store(store: ItemStore) -> Guarded:
    return Guarded(store)


@pytest.fixture
def calls(make: Make, store: Guarded, tmp_path: Path) -> Calls:
    settings = {"DECKHAND_VAPID_KEY": new_key(), "DECKHAND_ADMIN_TOKEN": "operator"}
    api = make(DECKHAND_REPORTS=str(tmp_path), **settings)
    # Hosts are not looked up in the world's DNS.
    api.parts.__dict__["push"] = replace(api.parts.push, resolve=lambda _: ["93.184.216.34"])
    keys = [Credential(id=name, public_key="k", counter=0, created_at=1.0) for name in ("bGFwdG9w", "cGhvbmU")]
    ann = Account(id="ann", name="Ann", role="owner", created_at=1.0, credentials=tuple(keys))
    Accounts(store, "main", new_id=new_token).add(ann, ())
    api.propose(delete())
    return Calls(api, store)


def cards(call: Calls) -> None:
    mood = manifest("mood", data=[], view={"enabled": True, "component": "generic-card"})
    call("validate_manifest", manifest=mood)
    call("create_manifest", manifest=mood)
    call("list_templates")
    call("create_from_template", templateId="medication")
    call("patch_manifest", id="mood", patch={"description": "How I am."})
    call("hide_card", id="mood")
    call("show_card", id="mood")
    call("reorder_manifests", order=["mood", "weight"])
    for name in ("list_manifests", "list_cards", "list_card_settings", "list_prompts"):
        call(name)
    call("list_view", view="view")
    call("get_recent_activity")
    call("hygiene_scan")
    call("note_feedback", intent="Show two cards at once", context="It shows one.")
    call("read_feedback")
    call("list_docs")
    call("read_doc", path="CARDS.md")
    call("delete_manifest", id="mood")


def rows(call: Calls) -> None:
    there = {"id": "weight"}
    for name in ("read_manifest", "read_manifest_meta", "read_data", "list_rows", "orphan_report"):
        call(name, **there)
    call("read_manifest_rows", path="[index=0]", **there)
    added = call("add_row", value={"date": "2026-04-15", "kg": 84.5}, **there)["rowId"]
    call("change_row", rowId=added, changes={"kg": 84.0}, **there)
    call("delete_row", rowId=added, **there)
    call("append_row", value={"date": "2026-04-16", "kg": 84.5}, **there)
    call("update_row", path="[index=0]", changes={"kg": 85.0}, **there)
    call("remove_row", path="[index=0]", **there)
    call("reorder_rows", key="date", order=["2026-04-16", "2026-04-14"], **there)
    call("order_rows", order=[row["rowId"] for row in reversed(call("list_rows", **there)["rows"])], **there)
    call("rename_data_field", from_key="kg", to_key="kilograms", **there)
    call("write_manifest_data", data=[], **there)


def reminders(call: Calls) -> None:
    call("set_notification", trigger=TRIGGER, **REMINDER)
    call("list_notifications")
    call("set_notification_state", id="weight#weigh", enabled=True)
    call("set_global_notification_state", quiet_hours={"start": "22:00", "end": "07:00"})
    call("set_time_zone", tz="Europe/Helsinki")
    call("send_test_notification", id="weight#weigh")
    call("remove_notification", card_id="weight", notification_id="weigh")
    call("read_push_key")
    for _ in ("new", "known"):
        call("subscribe_device", endpoint=PHONE, keys=Device(PHONE).keys)
    call("refresh_device", endpoint=PHONE)
    call("unsubscribe_device", endpoint=PHONE)


def texts(call: Calls) -> None:
    call("put_report", name="blood.md", text="Ferritin 30")
    call("list_reports")
    call("read_report", name="blood.md")
    call("remove_report", name="blood.md")
    talk = call("create_conversation", messages=[{"role": "user", "content": "Hello"}])["conversation"]["id"]
    call("read_conversation", id=talk)
    call("rename_conversation", id=talk, title="Greeting")
    call("list_conversations")
    call("search_conversations", q="hell")
    call("replace_messages", id=talk, messages=[])
    call("delete_conversation", id=talk)
    call("replace_history", messages=[{"role": "user", "content": "Hello", "own": 1}])
    call("read_history")
    call("delete_history")


def rights(call: Calls) -> None:
    [proposal] = call.api.open()
    grant = call("create_grant", proposalId=proposal["id"], until="2027-01-01T00:00:00Z")
    call("list_grants")
    call("revoke_grant", id=grant["id"])
    token = call("create_token", name="lamp", role="viewer", operations=["list_cards"])
    call("switch_agent", scope="token", id=token["id"], enabled=False)
    call("list_switches")
    call("list_tokens")
    call("revoke_token", id=token["id"])
    call("write_policy", policy="// Nothing yet.")
    call("read_policy")
    call("explain_policy", operation="delete_manifest", channel="chat")
    call("list_audit", limit=5)
    call("read_usage")
    call("create_invite", role="viewer")
    call("make_recovery_codes")
    call("list_credentials")
    call("remove_credential", id="cGhvbmU")
    call("list_users")
    call("read_user", id="ann")
    call("change_user", id="ann", name="Anna")


def test_every_operation_answers_what_is_declared(calls: Calls) -> None:
    for family in (cards, rows, reminders, texts, rights):
        family(calls)
    assert {operation.name for operation in REGISTRY.all()} == calls.made
