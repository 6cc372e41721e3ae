"""The card routes over events of API Gateway, status by status."""

import itertools
import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from deckhand.domain.errors import StorageUnavailable
from deckhand.domain.times import local
from deckhand.storage.port import ItemStore, Op, Page, Put
from deckhand.storage.sqlite import SqliteStore
from tests.deck import WRITEABLE, Deck, HookedStore, manifest
from tests.stores import Clock

MANIFESTS = "/api/manifests"
OPEN_WINDOW = {"fromWebapp": True, "pastAllowed": True, "futureAllowed": True}


@pytest.fixture
def store() -> Iterator[ItemStore]:
    with closing(SqliteStore(":memory:", now=Clock())) as made:
        yield made


@pytest.fixture
def deck(tmp_path: Path, store: ItemStore) -> Deck:
    return Deck(tmp_path, store)


def rows_of(deck: Deck, card: str = "weight", **query: str) -> list[Any]:
    return [row["value"] for row in deck.get(f"{MANIFESTS}/{card}/rows", **query)["rows"]]


# -- who is calling


def test_nobody_is_answered_without_a_token(deck: Deck) -> None:
    assert deck("GET", MANIFESTS, token="wrong").status == 401


def test_only_the_operator_reads_the_feedback_log(deck: Deck) -> None:
    assert deck("GET", "/api/admin/feedback").status == 401
    assert deck("GET", "/api/admin/feedback", token="operator").status == 200
    assert deck("GET", MANIFESTS, token="operator").status == 401


def test_a_wrong_method_is_405_and_names_the_right_ones(deck: Deck) -> None:
    answer = deck("PUT", MANIFESTS, {})
    assert (answer.status, answer.code, answer.headers["allow"]) == (405, "method_not_allowed", "GET, POST")


def test_an_unknown_path_is_404(deck: Deck) -> None:
    assert deck("GET", "/api/manifests/a/b/c").code == "not_found"


def test_answers_are_not_kept_by_caches_and_name_their_request(deck: Deck) -> None:
    answer = deck("GET", MANIFESTS)
    assert (answer.headers["cache-control"], answer.headers["x-request-id"]) == ("no-store", "r")


# -- manifests


def test_a_card_is_created_and_listed(deck: Deck) -> None:
    answer = deck("POST", MANIFESTS, {**manifest(emoji="⚖️"), "description": "Morning weight"})
    assert (answer.status, answer.body) == (201, {"ok": True, "id": "weight", "source": "weight.json"})
    (entry,) = deck.get(MANIFESTS)["entries"]
    meta = manifest(emoji="⚖️")["meta"]
    assert entry == {
        "id": "weight",
        "meta": meta,
        "description": "Morning weight",
        "hasData": False,
        "enabled": True,
        "version": 1,
    }


@pytest.mark.parametrize(("data", "has"), [(None, False), ([], False), ([1], True), ({}, True), (0, True), ("", True)])
def test_has_data_is_false_without_rows_or_data(deck: Deck, data: Any, has: bool) -> None:
    deck.create(data=data)
    assert deck.get(MANIFESTS)["entries"][0]["hasData"] is has


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b'"{}"',
        b"null",
        b'{"$schema":"klebb.datafile.v1"}',
        b'{"$schema":"v2","meta":{"id":"a","label":"A"}}',
        b'{"$schema":"klebb.datafile.v1","meta":{"id":"a"}}',
        b'{"$schema":"klebb.datafile.v1","meta":{"id":7,"label":"A"}}',
        b'{"$schema":"klebb.datafile.v1","meta":"{}"}',
    ],
)
def test_what_is_no_manifest_is_400(deck: Deck, raw: bytes) -> None:
    assert deck("POST", MANIFESTS, raw=raw).status == 400
    assert deck.get(MANIFESTS) == {"entries": []}


def test_an_id_that_is_taken_is_409(deck: Deck) -> None:
    deck.create(data=[1])
    answer = deck("POST", MANIFESTS, manifest(data=[2]))
    assert (answer.status, answer.code) == (409, "duplicate_id")
    assert deck.data() == [1]


@pytest.mark.parametrize("card", ["Weight", "WEIGHT", "reorder", "validate", "../x", "a" * 65])
def test_an_id_that_cannot_be_used_is_422(deck: Deck, card: str) -> None:
    answer = deck("POST", MANIFESTS, manifest(card))
    assert (answer.status, answer.code) == (422, "invalid_id")


def test_faults_of_constrained_fields_are_422_all_at_once(deck: Deck) -> None:
    bad = manifest(category="x", cadence={}, ingest={"source": "hae"}, notifications={"items": 3}, schedule=1)
    answer = deck("POST", MANIFESTS, bad)
    assert (answer.status, answer.code) == (422, "invalid")
    assert [fault["path"].split(".")[1] for fault in answer.body["errors"]] == [
        "category",
        "notifications",
        "cadence",
        "ingest",
        "schedule",
    ]


def test_a_whole_card_is_read_as_it_was_written(deck: Deck) -> None:
    whole = {**manifest(own={"x": [1, 1.0, None]}), "description": "d", "schema": {"type": "array"}, "data": [{"a": 1}]}
    assert deck("POST", MANIFESTS, whole).status == 201
    read = deck.get(f"{MANIFESTS}/weight")
    assert read == {
        "meta": whole["meta"],
        "description": "d",
        "schema": {"type": "array"},
        "data": [{"a": 1}],
        "version": 1,
    }


@pytest.mark.parametrize("card", ["nothing", "WEIGHT", "Weight", "weight ", "weight%20", "a" * 2000, "\ud800", "x#y"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_an_unknown_card_is_404_also_when_only_the_case_differs(deck: Deck, card: str, method: str) -> None:
    deck.create()
    assert deck(method, f"{MANIFESTS}/{card}").status == 404
    assert len(deck.get(MANIFESTS)["entries"]) == 1


def test_a_patch_changes_only_what_it_names(deck: Deck) -> None:
    deck.create(data=[1], emoji="⚖️", view={"enabled": True, "component": "generic-card", "unit": "kg"})
    patch = {"meta": {"label": "W", "emoji": None, "view": {"unit": "lb"}}, "description": "new"}
    answer = deck("PATCH", f"{MANIFESTS}/weight", patch)
    assert (answer.status, answer.body) == (200, {"ok": True, "id": "weight"})
    read = deck.get(f"{MANIFESTS}/weight")
    view = {"enabled": True, "component": "generic-card", "unit": "lb"}
    assert read["meta"] == {"id": "weight", "label": "W", "writeable": WRITEABLE, "view": view}
    assert (read["description"], read["data"], read["version"]) == ("new", [1], 2)


@pytest.mark.parametrize(
    ("patch", "status", "code"),
    [
        ({"data": []}, 400, "protected_field"),
        ({"$schema": "klebb.datafile.v1"}, 400, "protected_field"),
        ({"schema": {}}, 400, "protected_field"),
        ({"meta": {"id": "other"}}, 400, "protected_field"),
        ({"id": "other"}, 400, "unknown_key"),
        ({"meta": {"label": "x"}, "label": "x"}, 400, "unknown_key"),
        ({"meta": '{"label": "x"}'}, 400, "invalid_manifest"),
        ({"meta": None}, 400, "invalid_manifest"),
        ({"meta": {"label": None}}, 400, "invalid_manifest"),
        ({"meta": {"label": 3}}, 400, "invalid_manifest"),
        ({"description": 3}, 400, "invalid_manifest"),
        ({}, 400, "invalid_manifest"),
        ([], 400, "invalid_json"),
        ("{}", 400, "invalid_json"),
        ({"meta": {"category": "x"}}, 422, "invalid"),
        ({"meta": {"cadence": {"expectDays": 0}}}, 422, "invalid"),
        ({"meta": {"invalid notifications": 1, "order": "x"}}, 422, "invalid"),
    ],
)
def test_a_patch_that_cannot_be_used_changes_nothing(deck: Deck, patch: Any, status: int, code: str) -> None:
    deck.create(data=[1])
    before = deck.everything()
    answer = deck("PATCH", f"{MANIFESTS}/weight", patch)
    assert (answer.status, answer.code) == (status, code)
    assert deck.everything() == before


def test_a_deleted_card_is_gone_with_its_rows_also_when_it_is_made_again(deck: Deck, store: ItemStore) -> None:
    deck.create(data=[1, 2, 3])
    assert deck("DELETE", f"{MANIFESTS}/weight").body["ok"] is True
    assert deck("GET", f"{MANIFESTS}/weight").code == "unknown_manifest"
    deck.create()
    deck.work_off()
    assert deck.data() is None
    assert items(store) == {"meta", "state"}


def test_validation_writes_nothing_and_lists_every_fault(deck: Deck) -> None:
    assert deck("POST", f"{MANIFESTS}/validate", manifest()).body == {"ok": True}
    answer = deck("POST", f"{MANIFESTS}/validate", manifest(category="x", view={"component": "combination-card"}))
    assert answer.status == 200
    assert [fault["path"] for fault in answer.body["errors"]] == ["meta.category", "meta.view.combines"]
    assert deck.get(MANIFESTS) == {"entries": []}


# -- order, views, settings


def test_cards_come_in_the_order_that_was_set_then_by_label(deck: Deck) -> None:
    for card in ("b", "a", "c"):
        deck.create(card)
    answer = deck("POST", f"{MANIFESTS}/reorder", {"order": ["c", "b"]})
    assert answer.body == {"ok": True, "updated": ["c", "b"]}
    entries = deck.get(MANIFESTS)["entries"]
    assert [(e["id"], e["meta"].get("order")) for e in entries] == [("c", 100), ("b", 200), ("a", None)]


def test_the_same_order_again_changes_nothing(deck: Deck) -> None:
    deck.create("a")
    deck("POST", f"{MANIFESTS}/reorder", {"order": ["a"]})
    before = deck.everything()
    assert deck("POST", f"{MANIFESTS}/reorder", {"order": ["a"]}).body == {"ok": True, "updated": []}
    assert deck.everything() == before


@pytest.mark.parametrize(
    ("order", "status"), [([], 400), (["a", "a"], 400), (["a", "x"], 404), (["A"], 404), ("a", 422), ([1], 422)]
)
def test_an_order_that_cannot_be_used_writes_nothing(deck: Deck, order: Any, status: int) -> None:
    deck.create("a")
    before = deck.everything()
    assert deck("POST", f"{MANIFESTS}/reorder", {"order": order}).status == status
    assert deck.everything() == before


def test_a_view_shows_the_enabled_cards_that_are_in_it(deck: Deck) -> None:
    deck.create("shown", view={"enabled": True, "component": "generic-card", "order": 2})
    deck.create("first", view={"enabled": True, "component": "generic-card", "order": 1})
    deck.create("off", view={"enabled": False, "component": "generic-card"})
    deck.create("blank", view={"enabled": True})
    deck.create("hidden", view={"enabled": True, "component": "generic-card"}, enabled=False)
    cards = deck.get("/api/views/view")["cards"]
    assert [card["id"] for card in cards] == ["first", "shown"]
    assert cards[0]["viewConfig"] == {"enabled": True, "component": "generic-card", "order": 1}


@pytest.mark.parametrize("view", ["view", "trends", "calendar", "reports", "dayDetail"])
def test_the_views_are_known(deck: Deck, view: str) -> None:
    assert deck.get(f"/api/views/{view}") == {"cards": []}


@pytest.mark.parametrize("view", ["today", "View", "..", "__class__"])
def test_another_view_is_404(deck: Deck, view: str) -> None:
    assert deck("GET", f"/api/views/{view}").status == 404


def test_a_card_is_hidden_and_shown(deck: Deck) -> None:
    deck.create(emoji="⚖️")
    assert deck("POST", "/api/settings/cards/weight/disable").body == {"ok": True, "enabled": False}
    settings = deck.get("/api/settings/cards")["cards"]
    assert settings == [
        {"id": "weight", "label": "Weight", "emoji": "⚖️", "description": None, "enabled": False, "hasData": False}
    ]
    assert deck("POST", "/api/settings/cards/weight/enable").body == {"ok": True, "enabled": True}
    assert deck("POST", "/api/settings/cards/other/enable").code == "unknown_manifest"


def test_a_hidden_card_still_takes_writes(deck: Deck) -> None:
    deck.create(enabled=False)
    deck.append("weight", {"a": 1})
    assert deck("POST", f"{MANIFESTS}/weight/data", {"data": [{"a": 2}]}).status == 200
    assert deck.data() == [{"a": 2}]


# -- whole data


@pytest.mark.parametrize(
    "data", [[], [1, {"a": 2}], {"2026-04-20": {"kg": 85}, "2026-04-19": {"kg": 86}}, {"items": []}, 3, True, None]
)
def test_data_of_any_shape_is_replaced_and_read_as_it_is(deck: Deck, data: Any) -> None:
    deck.create(data=[{"old": 1}])
    answer = deck("POST", f"{MANIFESTS}/weight/data", {"data": data})
    assert (answer.status, answer.body["ok"], answer.body["id"]) == (200, True, "weight")
    assert deck.data() == data


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"data": "[]"}, 400, "invalid_data"),
        ({"data": {}}, 422, "wrong_type"),
        ({}, 422, "invalid"),
        ({"data": [], "more": 1}, 422, "invalid"),
        ({"data": [], "id": "other"}, 422, "invalid"),
        ({"data": [], "if_match": 1}, 422, "invalid"),
        ([], 400, "invalid_json"),
    ],
)
def test_data_that_cannot_be_used_changes_nothing(deck: Deck, body: Any, status: int, code: str) -> None:
    assert deck("POST", MANIFESTS, {**manifest(data=[1]), "schema": {"type": "array"}}).status == 201
    answer = deck("POST", f"{MANIFESTS}/weight/data", body)
    assert (answer.status, answer.code) == (status, code)
    assert deck.data() == [1]


def test_a_card_that_is_not_writeable_takes_no_data(deck: Deck) -> None:
    deck.create(data=[{"a": 1}], writeable={"fromWebapp": False})
    row = deck.get(f"{MANIFESTS}/weight/rows")["rows"][0]["rowId"]
    path = f"{MANIFESTS}/weight"
    refused = [
        deck("POST", f"{path}/data", {"data": []}),
        deck("POST", f"{path}/rows", {"value": {}}),
        deck("PATCH", f"{path}/rows/{row}", {"changes": {}}),
        deck("DELETE", f"{path}/rows/{row}"),
        deck("POST", f"{path}/rows/reorder", {"order": [row]}),
    ]
    assert [(answer.status, answer.code) for answer in refused] == [(403, "not_writeable")] * 5
    assert deck.data() == [{"a": 1}]


# -- rows


def test_rows_are_read_in_pages_from_both_ends(deck: Deck) -> None:
    deck.create(data=list(range(7)))
    first = deck.get(f"{MANIFESTS}/weight/rows", limit="3")
    assert ([row["value"] for row in first["rows"]], first["total"]) == ([0, 1, 2], 7)
    second = deck.get(f"{MANIFESTS}/weight/rows", limit="5", after=first["next"])
    assert ([row["value"] for row in second["rows"]], second["next"]) == ([3, 4, 5, 6], None)
    last = deck.get(f"{MANIFESTS}/weight/rows", limit="2", order="desc")
    assert [row["value"] for row in last["rows"]] == [6, 5]
    assert rows_of(deck, limit="2", order="desc", after=last["next"]) == [4, 3]


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"limit": "0"}, 422, "invalid"),
        ({"limit": "1001"}, 422, "invalid"),
        ({"limit": "many"}, 422, "invalid"),
        ({"order": "up"}, 422, "invalid"),
        ({"after": "x"}, 404, "unknown_row"),
        ({"after": ""}, 404, "unknown_row"),
        ({"after": "x" * 5000}, 404, "unknown_row"),
        ({"after": "0.\ud800"}, 404, "unknown_row"),
        ({"if_match": "1"}, 422, "invalid"),
    ],
)
def test_a_page_that_cannot_be_read_says_why(deck: Deck, query: dict[str, str], status: int, code: str) -> None:
    deck.create(data=[1])
    answer = deck("GET", f"{MANIFESTS}/weight/rows", query=query)
    assert (answer.status, answer.code) == (status, code)


def test_a_row_is_added_changed_and_removed(deck: Deck) -> None:
    deck.create()
    added = deck("POST", f"{MANIFESTS}/weight/rows", {"value": {"date": "2026-04-20", "kg": 85, "note": "x"}})
    assert (added.status, added.body["total"], added.body["version"]) == (201, 1, 2)
    row = f"{MANIFESTS}/weight/rows/{added.body['rowId']}"
    changed = deck("PATCH", row, {"changes": {"kg": 85.5, "note": None}})
    assert (changed.status, changed.body["value"]) == (200, {"date": "2026-04-20", "kg": 85.5})
    assert deck.data() == [{"date": "2026-04-20", "kg": 85.5}]
    assert deck("DELETE", row).body == {"ok": True, "total": 0, "version": 4}
    assert deck("DELETE", row).code == "unknown_row"
    assert deck("PATCH", row, {"changes": {}}).code == "unknown_row"
    assert deck.data() == []


def test_a_row_that_is_no_object_cannot_be_changed_field_by_field(deck: Deck) -> None:
    deck.create()
    (row,) = deck.append("weight", 3)
    assert deck("PATCH", f"{MANIFESTS}/weight/rows/{row}", {"changes": {"a": 1}}).code == "wrong_type"


def test_what_is_no_object_is_not_added_to_rows_that_all_are(deck: Deck) -> None:
    deck.create()
    deck.append("weight", {"a": 1})
    assert deck("POST", f"{MANIFESTS}/weight/rows", {"value": '{"a": 2}'}).code == "wrong_type"
    deck.create("mixed", data=[{"a": 1}, "text"])
    deck.append("mixed", '{"a": 2}')
    assert deck.data("mixed") == [{"a": 1}, "text", '{"a": 2}']


def test_rows_of_data_that_is_no_list_are_409(deck: Deck) -> None:
    deck.create(data={"a": 1})
    path = f"{MANIFESTS}/weight/rows"
    answers = [
        deck("GET", path),
        deck("POST", path, {"value": 1}),
        deck("PATCH", f"{path}/x.1", {"changes": {}}),
        deck("DELETE", f"{path}/x.1"),
        deck("POST", f"{path}/reorder", {"order": []}),
    ]
    assert [(answer.status, answer.code) for answer in answers] == [(409, "not_a_list")] * 5


def test_a_row_does_not_turn_a_card_of_another_type_into_a_list(deck: Deck) -> None:
    deck("POST", MANIFESTS, {**manifest(), "schema": {"type": "object"}})
    assert deck("POST", f"{MANIFESTS}/weight/rows", {"value": {}}).code == "wrong_type"
    assert deck.data() is None


def test_rows_are_reordered_and_nothing_else(deck: Deck) -> None:
    deck.create()
    first, second, third = deck.append("weight", 1, 2, 3)
    answer = deck("POST", f"{MANIFESTS}/weight/rows/reorder", {"order": [third, first, second]})
    assert (answer.status, answer.body["total"]) == (200, 3)
    assert deck.data() == [3, 1, 2]


@pytest.mark.parametrize("order", [[], [0, 1], [0, 0, 1, 2], [0, 1, 3], [0, 1, 2, 3]])
def test_an_order_of_rows_that_is_no_permutation_is_409(deck: Deck, order: list[int]) -> None:
    deck.create()
    names = [*deck.append("weight", 1, 2, 3), "0.9"]
    answer = deck("POST", f"{MANIFESTS}/weight/rows/reorder", {"order": [names[n] for n in order]})
    assert (answer.status, answer.code) == (409, "order_mismatch")
    assert deck.data() == [1, 2, 3]


# -- versions


def test_every_change_moves_the_version_and_answers_carry_it(deck: Deck) -> None:
    deck.create()
    (row,) = deck.append("weight", {"a": 1})
    deck("PATCH", f"{MANIFESTS}/weight/rows/{row}", {"changes": {"a": 2}})
    deck("PATCH", f"{MANIFESTS}/weight", {"meta": {"label": "W"}})
    deck("POST", "/api/settings/cards/weight/disable")
    deck("POST", f"{MANIFESTS}/weight/data", {"data": [{"a": 1}]})
    answer = deck("GET", f"{MANIFESTS}/weight")
    assert (answer.body["version"], answer.headers["etag"]) == (6, '"6"')


CHANGES: list[tuple[str, str, Any]] = [
    ("PATCH", f"{MANIFESTS}/weight", {"meta": {"label": "W"}}),
    ("DELETE", f"{MANIFESTS}/weight", None),
    ("POST", f"{MANIFESTS}/weight/data", {"data": []}),
    ("POST", f"{MANIFESTS}/weight/rows", {"value": {"a": 2}}),
    ("PATCH", f"{MANIFESTS}/weight/rows/ROW", {"changes": {"a": 2}}),
    ("DELETE", f"{MANIFESTS}/weight/rows/ROW", None),
    ("POST", f"{MANIFESTS}/weight/rows/reorder", {"order": ["ROW"]}),
    ("POST", "/api/settings/cards/weight/disable", None),
    (
        "PUT",
        f"{MANIFESTS}/weight/notifications/am",
        {"label": "a", "title": "a", "body": "a", "trigger": {"type": "daily", "time": "08:00"}},
    ),
    ("DELETE", f"{MANIFESTS}/weight/notifications/pm", None),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES, ids=lambda part: part if isinstance(part, str) else "")
def test_a_change_bound_to_a_version_that_has_passed_is_412(deck: Deck, method: str, path: str, body: Any) -> None:
    item = {"id": "pm", "label": "b", "title": "b", "body": "b", "trigger": {"type": "daily", "time": "20:00"}}
    deck.create(data=[{"a": 1}], notifications={"items": [item]})
    row = deck.get(f"{MANIFESTS}/weight/rows")["rows"][0]["rowId"]
    filled = json.loads(json.dumps(body).replace("ROW", row))
    before = deck.everything()
    for stale in ('"2"', '"0"', "W/7", '"x"', "", '"1", "2"'):
        answer = deck(method, path.replace("ROW", row), filled, headers={"If-Match": stale})
        assert (answer.status, answer.code, answer.body["version"]) == (412, "stale_version", 1)
    assert deck.everything() == before
    assert deck(method, path.replace("ROW", row), filled, headers={"If-Match": '"1"'}).status < 300


@pytest.mark.parametrize("match", ['"1"', 'W/"1"', "1", "*"])
def test_a_version_is_understood_however_it_is_written(deck: Deck, match: str) -> None:
    deck.create()
    assert deck("POST", f"{MANIFESTS}/weight/rows", {"value": 1}, headers={"if-match": match}).status == 201


# -- the window of people


@pytest.mark.parametrize(
    ("window", "allowed"),
    [
        ({}, {"today"}),
        ({"todayAllowed": False}, set()),
        ({"pastAllowed": True}, {"today", "past"}),
        ({"pastAllowed": True, "futureAllowed": True}, {"today", "past", "future", "odd"}),
        ({"pastAllowed": "yes", "futureAllowed": 1}, {"today"}),
    ],
)
def test_a_person_writes_within_the_window_of_the_card(deck: Deck, window: dict[str, Any], allowed: set[str]) -> None:
    deck.create(writeable={"fromWebapp": True, **window})
    deck.sign_in()
    today = local(deck.parts.caller(deck.parts.authenticate(None), "api").now(), deck.parts.settings.zone).date()  # type: ignore[arg-type]
    days = {"today": today.isoformat(), "past": "2020-01-01T08:00", "future": "2999-01-01", "odd": "soon"}
    taken = set()
    for name, day in days.items():
        row, whole = {"value": {"date": day}}, {"data": [{"date": day}]}
        statuses = [
            deck("POST", f"{MANIFESTS}/weight/rows", row).status,
            deck("POST", f"{MANIFESTS}/weight/data", whole).status,
        ]
        if statuses == [201, 200]:
            taken.add(name)
        else:
            assert statuses == [403, 403]
            assert deck("POST", f"{MANIFESTS}/weight/rows", row).code == "outside_date_window"
        deck("POST", f"{MANIFESTS}/weight/data", {"data": []})
    assert taken == allowed


def test_a_program_writes_any_date(deck: Deck) -> None:
    deck.create(writeable={"fromWebapp": True, "todayAllowed": False})
    deck.append("weight", {"date": "2020-01-01"}, {"date": "2999-01-01"})


def test_a_person_may_always_edit_the_dates_that_are_there(deck: Deck) -> None:
    old = [{"date": f"2020-01-{n:02d}", "kg": n} for n in range(1, 31)]
    deck.create(data=old, writeable={"fromWebapp": True})
    deck.sign_in()
    assert deck("POST", f"{MANIFESTS}/weight/data", {"data": [{**row, "kg": 0} for row in old]}).status == 200
    assert deck("POST", f"{MANIFESTS}/weight/rows", {"value": {"date": "2020-01-01"}}).status == 201
    row = f"{MANIFESTS}/weight/rows/{deck.get(f'{MANIFESTS}/weight/rows')['rows'][0]['rowId']}"
    assert deck("PATCH", row, {"changes": {"kg": 1}}).status == 200
    assert deck("PATCH", row, {"changes": {"date": "2020-02-01"}}).code == "outside_date_window"


def test_an_object_keyed_by_dates_knows_no_window(deck: Deck) -> None:
    deck.create(writeable={"fromWebapp": True})
    deck.sign_in()
    assert deck("POST", f"{MANIFESTS}/weight/data", {"data": {"2020-01-01": 1}}).status == 200
    assert deck.data() == {"2020-01-01": 1}


# -- overviews


def test_recent_activity_is_told_from_rows_or_else_from_the_last_write(deck: Deck) -> None:
    deck.create(view={"enabled": True, "component": "generic-card"})
    deck.append("weight", {"date": "2026-04-19", "kg": 86.5}, {"date": "2026-04-18", "kg": 87})
    deck.create("notes", data={"markdown": "x"})
    deck.create("new")
    cards = {card.pop("id"): card for card in deck.get("/api/activity")["cards"]}
    weight = cards["weight"]
    assert weight.pop("ageDays") > 0
    assert weight == {
        "label": "Weight",
        "renderer": "generic-card",
        "rowCount": 2,
        "lastEntryDate": "2026-04-19",
        "lastNDelta": {"field": "kg", "n": 2, "delta": -0.5, "latest": 86.5},
        "staleSource": "rows",
    }
    assert (cards["notes"]["rowCount"], cards["notes"]["ageDays"], cards["notes"]["staleSource"]) == (1, 0, "updatedAt")
    assert (cards["new"]["rowCount"], cards["new"]["ageDays"], cards["new"]["staleSource"]) == (0, None, None)


def test_activity_follows_changes_and_removals_of_rows(deck: Deck) -> None:
    deck.create()
    first, _ = deck.append("weight", {"date": "2026-04-18", "kg": 1}, {"date": "2026-04-19", "kg": 2})
    deck("PATCH", f"{MANIFESTS}/weight/rows/{first}", {"changes": {"date": "2026-04-20"}})
    assert deck.get("/api/activity")["cards"][0]["lastEntryDate"] == "2026-04-20"
    deck("DELETE", f"{MANIFESTS}/weight/rows/{first}")
    assert deck.get("/api/activity")["cards"][0]["lastEntryDate"] == "2026-04-19"
    deck("PATCH", f"{MANIFESTS}/weight", {"meta": {"view": {"dateField": "day"}}})
    assert deck.get("/api/activity")["cards"][0]["lastEntryDate"] is None


def test_hygiene_lists_what_is_late_by_its_own_cadence(deck: Deck) -> None:
    rows = [{"date": f"2020-01-{n:02d}", "kg": 1} for n in (1, 2, 3)]
    deck.create(data=rows, cadence={"expectDays": 7})
    deck.create("quiet", data=rows)
    (found,) = deck.get("/api/hygiene")["findings"]
    assert (found["cardId"], found["kind"], found["severity"]) == ("weight", "stale", "warn")


def test_orphaned_fields_are_listed(deck: Deck) -> None:
    deck.create(data=[{"date": "2026-04-20", "kg": 1, "fat": 2}], data_={}, writeable={"inputs": [{"key": "kg"}]})
    answer = deck.get(f"{MANIFESTS}/weight/orphans")
    assert answer == {"id": "weight", "orphans": ["fat"], "referenced": ["kg"], "aliases": {}}


# -- reminders


REMINDER = {"label": "Morning", "title": "Weigh in", "body": "Step on", "trigger": {"type": "daily", "time": "08:00"}}


def test_a_reminder_is_put_changed_and_removed(deck: Deck) -> None:
    deck.create()
    path = f"{MANIFESTS}/weight/notifications/am"
    made = deck("PUT", path, REMINDER)
    assert made.body == {"ok": True, "card_id": "weight", "notification_id": "am", "created": True}
    assert deck("PUT", path, {**REMINDER, "title": "Now"}).body["created"] is False
    items = deck.get(f"{MANIFESTS}/weight")["meta"]["notifications"]["items"]
    assert items == [{"id": "am", **REMINDER, "title": "Now"}]
    assert deck("DELETE", path).body["remaining"] == 0
    assert deck("DELETE", path).code == "unknown_notification"


@pytest.mark.parametrize(
    ("card", "name", "change", "status", "code"),
    [
        ("other", "am", {}, 404, "unknown_manifest"),
        ("weight", "AM", {}, 422, "invalid"),
        ("weight", "am", {"title": "x" * 31}, 422, "invalid"),
        ("weight", "am", {"trigger": {"type": "hourly"}}, 422, "invalid"),
        ("weight", "am", {"trigger": "daily"}, 422, "invalid"),
        ("weight", "am", {"label": None}, 422, "invalid"),
    ],
)
def test_a_reminder_that_cannot_be_used_changes_nothing(
    deck: Deck, card: str, name: str, change: dict[str, Any], status: int, code: str
) -> None:
    deck.create()
    before = deck.everything()
    answer = deck("PUT", f"{MANIFESTS}/{card}/notifications/{name}", {**REMINDER, **change})
    assert (answer.status, answer.code) == (status, code)
    assert deck.everything() == before


# -- documents, reports, feedback


@pytest.mark.parametrize("path", ["../README.md", "..", "/etc/passwd", "cards.md", "CARDS.md\x00", "%2e%2e", "...."])
def test_only_the_listed_documents_are_read(deck: Deck, path: str) -> None:
    assert deck("GET", f"/api/docs/{path}").status == 404


def put_report(deck: Deck, name: str, text: str) -> int:
    return deck("PUT", f"/api/reports/{name}", raw=text.encode(), headers={"Content-Type": "text/markdown"}).status


def test_a_report_is_put_listed_read_and_removed(deck: Deck) -> None:
    text = "---\ntitle: Blood\ndate: 2026-03-01\n---\nFerritin 30\n"
    first = deck("PUT", "/api/reports/blood.md", raw=text.encode())
    assert (first.status, first.body) == (200, {"ok": True, "name": "blood.md", "created": True})
    assert deck("PUT", "/api/reports/blood.md", raw=text.encode()).body["created"] is False
    (listed,) = deck.get("/api/reports")["reports"]
    assert (listed["name"], listed["title"], listed["date"], listed["bytes"]) == ("blood.md", "Blood", "2026-03-01", 12)
    read = deck.get("/api/reports/blood.md")
    assert (read["content"], read["truncated"], read["path"]) == ("Ferritin 30\n", False, "reports/blood.md")
    assert deck("DELETE", "/api/reports/blood.md").body == {"ok": True, "name": "blood.md"}
    assert deck("DELETE", "/api/reports/blood.md").code == "unknown_document"
    assert deck.get("/api/reports") == {"reports": []}


def test_a_scan_that_nobody_checked_is_listed_and_not_read(deck: Deck) -> None:
    put_report(deck, "scan.md", "---\nformat: scan\n---\nFerritin 30")
    assert deck.get("/api/reports")["reports"][0]["verified"] is False
    answer = deck("GET", "/api/reports/scan.md")
    assert (answer.status, answer.code) == (403, "report_not_verified")
    assert "Ferritin" not in answer.text


def test_a_long_report_is_read_part_by_part(deck: Deck) -> None:
    text = "".join(f'line {n} "quoted"\n' for n in range(10_000))
    put_report(deck, "long.md", text)
    parts, offset = [], 0
    while True:
        answer = deck.get("/api/reports/long.md", offset=str(offset))
        parts.append(answer["content"])
        if not answer["truncated"]:
            break
        offset = answer["nextOffset"]
    assert "".join(parts) == text
    assert len(parts) > 3


@pytest.mark.parametrize("name", ["..", "../x", ".hidden", "a..b", "a b", "ä", "a" * 129, "x\\y", "C:"])
def test_a_report_is_never_put_elsewhere(deck: Deck, name: str, tmp_path: Path) -> None:
    assert put_report(deck, name, "text") in (404, 422)
    assert deck("GET", f"/api/reports/{name}").status == 404
    assert deck("DELETE", f"/api/reports/{name}").status == 404
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


@pytest.mark.parametrize(
    ("raw", "status"),
    [(b"", 422), (b" \n", 422), (b"\xff\xfe", 422), (b"a" * 1024**2, 200), (b"a" * 1024**2 + b"a", 413)],
)
def test_a_report_is_text_of_at_most_a_megabyte(deck: Deck, raw: bytes, status: int) -> None:
    assert deck("PUT", "/api/reports/a.md", raw=raw).status == status


def test_a_text_that_is_gone_leaves_the_list_when_it_is_removed(deck: Deck, tmp_path: Path) -> None:
    put_report(deck, "a.md", "text")
    (tmp_path / "reports" / "a.md").unlink()
    assert deck("DELETE", "/api/reports/a.md").status == 404
    assert deck.get("/api/reports") == {"reports": []}


def test_feedback_is_logged_for_the_operator_within_its_bounds(deck: Deck) -> None:
    note = {"kind": "bug", "intent": "x" * 1000, "context": "y" * 1000, "toolsConsidered": ["z" * 100] * 20}
    assert deck("POST", "/api/feedback", note).body == {"logged": True}
    answer = deck("GET", "/api/admin/feedback", token="operator").body
    (entry,) = answer["entries"]
    assert answer["count"] == 1
    assert (entry["kind"], len(entry["intent"]), len(entry["context"])) == ("bug", 280, 500)
    assert (len(entry["toolsConsidered"]), len(entry["toolsConsidered"][0])) == (12, 64)


def test_feedback_is_read_from_an_instant_on(deck: Deck) -> None:
    deck("POST", "/api/feedback", {"intent": "a wish"})
    moment = deck("GET", "/api/admin/feedback", token="operator").body["entries"][0]["ts"]

    def count(since: str) -> Any:
        return deck("GET", "/api/admin/feedback", token="operator", query={"since": since}).body["count"]

    assert (count("2020-01-01"), count("2020-01-01T00:00:00 02:00"), count(moment), count("2999-01-01")) == (1, 1, 0, 0)


@pytest.mark.parametrize("since", ["soon", "", "x" * 5000, "\ud800", "0001-01-01T00:00:00+23:00"])
def test_what_is_no_instant_is_422(deck: Deck, since: str) -> None:
    assert deck("GET", "/api/admin/feedback", token="operator", query={"since": since}).status == 422


@pytest.mark.parametrize("intent", ["", " ", "n/a", "None.", "skip", "TODO"])
def test_feedback_that_says_nothing_is_refused(deck: Deck, intent: str) -> None:
    assert deck("POST", "/api/feedback", {"intent": intent}).status == 422
    assert deck("GET", "/api/admin/feedback", token="operator").body["count"] == 0


# -- sizes


@pytest.mark.parametrize(("size", "status"), [(390_000, 201), (390_001, 413)])
def test_a_row_has_at_most_390000_bytes(deck: Deck, size: int, status: int) -> None:
    deck.create(data=[{"a": 1}])
    frame = len('{"a":""}')
    answer = deck("POST", f"{MANIFESTS}/weight/rows", {"value": {"a": "x" * (size - frame)}})
    assert answer.status == status
    assert len(deck.data()) == (2 if status == 201 else 1)


def test_a_row_that_is_too_large_changes_nothing_however_it_comes(deck: Deck, store: ItemStore) -> None:
    deck.create(data=[{"a": 1}])
    (row,) = [row["rowId"] for row in deck.get(f"{MANIFESTS}/weight/rows")["rows"]]
    before, kept, large = deck.everything(), stored(store), "é" * 200_000
    answers = [
        deck("POST", f"{MANIFESTS}/weight/rows", {"value": {"a": large}}),
        deck("PATCH", f"{MANIFESTS}/weight/rows/{row}", {"changes": {"a": large}}),
        deck("POST", f"{MANIFESTS}/weight/data", {"data": [{"a": 1}, {"a": large}]}),
        deck("POST", MANIFESTS, manifest("other", data=[large])),
    ]
    assert [(answer.status, answer.code) for answer in answers] == [(413, "row_too_large")] * 4
    assert deck.everything() == before
    assert stored(store) == kept


def test_a_manifest_that_fits_no_item_is_413_and_leaves_nothing(deck: Deck, store: ItemStore) -> None:
    answer = deck("POST", MANIFESTS, manifest(data=[1, 2, 3], note="x" * 500_000))
    assert (answer.status, stored(store)) == (413, 0)
    deck.create()
    assert deck("PATCH", f"{MANIFESTS}/weight", {"meta": {"note": "x" * 500_000}}).status == 413
    assert deck.version() == 1


def test_data_that_is_one_value_may_be_larger_than_a_row(deck: Deck) -> None:
    data = {"markdown": "é🙂" * 300_000}
    deck.create()
    assert (
        deck("POST", f"{MANIFESTS}/weight/data", raw=json.dumps({"data": data}, ensure_ascii=False).encode()).status
        == 200
    )
    assert deck.data() == data


@pytest.mark.parametrize(
    ("method", "path", "limit"),
    [
        ("POST", MANIFESTS, 6 * 1024**2),
        ("POST", f"{MANIFESTS}/validate", 6 * 1024**2),
        ("PATCH", f"{MANIFESTS}/weight", 6 * 1024**2),
        ("POST", f"{MANIFESTS}/weight/data", 6 * 1024**2),
        ("POST", f"{MANIFESTS}/weight/rows", 6 * 1024**2),
        ("POST", f"{MANIFESTS}/reorder", 256 * 1024),
        ("POST", "/api/feedback", 256 * 1024),
    ],
)
def test_a_body_over_its_limit_is_413(deck: Deck, method: str, path: str, limit: int) -> None:
    deck.create()
    blank = b" " * limit
    assert deck(method, path, raw=blank).status == 400
    answer = deck(method, path, raw=blank + b" ")
    assert (answer.status, answer.code) == (413, "body_too_large")


@pytest.mark.parametrize("value", ["x" * 1_000_000, "é" * 500_000, '"' * 200_000], ids=["plain", "non-ascii", "quotes"])
def test_an_answer_that_would_not_fit_is_413_and_read_by_rows(deck: Deck, value: str) -> None:
    row = value[:180_000]
    deck.create(data=[row] * 17)
    while deck("GET", f"{MANIFESTS}/weight/data").status == 200:
        deck.append("weight", row)
    answer = deck("GET", f"{MANIFESTS}/weight/data")
    assert (answer.status, answer.code) == (413, "answer_too_large")
    assert deck("GET", f"{MANIFESTS}/weight").code == "answer_too_large"
    assert rows_of(deck, limit="1") == [row]
    # One row less, and all that the platform carries is within its 6,291,556 bytes.
    last = deck.get(f"{MANIFESTS}/weight/rows", limit="1", order="desc")["rows"][0]["rowId"]
    deck("DELETE", f"{MANIFESTS}/weight/rows/{last}")
    fitting = deck("GET", f"{MANIFESTS}/weight/data")
    assert len(json.dumps({"body": fitting.text}, ensure_ascii=False).encode()) < 6_291_556


# -- generations


def items(store: ItemStore) -> set[str]:
    """The kinds of items of the deck: meta, state, r, value."""
    sks = []
    for pk in partitions(store):
        sks += [item.sk for item in store.query("deck", pk).items]
    return {re.split(r"[#~]", sk)[0] for sk in sks}


def partitions(store: ItemStore) -> list[str]:
    assert isinstance(store, SqliteStore)
    with store._connection() as connection:
        return [pk for (pk,) in connection.execute("SELECT DISTINCT pk FROM items") if not pk.endswith("#audit")]


def stored(store: ItemStore) -> int:
    return sum(len(store.query("deck", pk).items) for pk in partitions(store))


def test_the_old_generation_goes_by_a_job(deck: Deck, store: ItemStore) -> None:
    deck.create(data=[1, 2, 3])
    deck("POST", f"{MANIFESTS}/weight/data", {"data": [4]})
    assert stored(store) == 2 + 3 + 1
    deck.work_off()
    assert stored(store) == 2 + 1
    assert deck.data() == [4]


def test_a_job_never_drops_the_rows_that_are_in_use(deck: Deck) -> None:
    deck.create(data=[1])
    deck("POST", f"{MANIFESTS}/weight/data", {"data": [2]})
    (job,) = deck.queue.jobs
    present = deck.get(f"{MANIFESTS}/weight/rows")["rows"][0]["rowId"].split(".")[0]
    deck.queue.jobs = [job.model_copy(update={"generation": present})]
    deck.work_off()
    assert deck.data() == [2]


def test_a_replacement_whose_outcome_is_unknown_drops_nothing(tmp_path: Path, store: ItemStore) -> None:
    hooked = HookedStore(store)
    deck = Deck(tmp_path, hooked)
    deck.create(data=[1])

    def lose(ops: Any) -> None:
        if any(isinstance(op, Put) and op.item.sk == "state#weight" for op in ops):
            raise StorageUnavailable()

    hooked.after = lose
    assert deck("POST", f"{MANIFESTS}/weight/data", {"data": [2]}).status == 503
    hooked.after = None
    deck.work_off()
    assert deck.data() == [2]


def test_a_replacement_that_came_too_late_leaves_nothing(deck: Deck, store: ItemStore) -> None:
    deck.create(data=[1])
    assert deck("POST", f"{MANIFESTS}/weight/data", {"data": [2]}, headers={"If-Match": '"9"'}).status == 412
    deck.work_off()
    assert stored(store) == 3


@pytest.mark.parametrize("path", ["/data", "/rows", ""])
def test_rows_that_are_replaced_while_they_are_read_are_read_again(tmp_path: Path, store: ItemStore, path: str) -> None:
    hooked = HookedStore(store)
    deck = Deck(tmp_path, hooked)
    deck.create(data=[1, 1])

    def replace(pk: str) -> None:
        if "#card#" in pk:
            hooked.before_query = None
            deck("POST", f"{MANIFESTS}/weight/data", {"data": [2, 2, 2]})
            deck.work_off()

    hooked.before_query = replace
    answer = deck.get(f"{MANIFESTS}/weight{path}")
    assert hooked.before_query is None
    assert (answer.get("data") or [row["value"] for row in answer["rows"]]) == [2, 2, 2]


def test_a_reader_never_sees_a_mix_while_everything_is_replaced(tmp_path: Path) -> None:
    deck = Deck(tmp_path)
    deck.create(data=[0] * 30)
    seen: list[list[int]] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(deck.data())

    with ThreadPoolExecutor(2) as threads:
        readers = [threads.submit(read) for _ in range(2)]
        try:
            for n in itertools.takewhile(lambda n: n < 25 or len(seen) < 3, itertools.count(1)):
                assert deck("POST", f"{MANIFESTS}/weight/data", {"data": [n] * (30 + n % 3)}).status == 200
                deck.work_off()
        finally:
            done.set()
        for reader in readers:
            reader.result()
    assert len(seen) > 2
    assert {(len(set(rows)), len(rows) == 30 + rows[0] % 3) for rows in seen} == {(1, True)}


def test_fifty_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    deck = Deck(tmp_path)
    deck.create()
    start = threading.Barrier(50)

    def write(n: int) -> int:
        start.wait()
        return deck("POST", f"{MANIFESTS}/weight/rows", {"value": {"n": n}}).status

    with ThreadPoolExecutor(50) as threads:
        assert list(threads.map(write, range(50))) == [201] * 50
    assert sorted(row["n"] for row in deck.data()) == list(range(50))
    assert deck.version() == 51


def test_a_row_that_comes_while_others_are_reordered_is_kept(tmp_path: Path, store: ItemStore) -> None:
    hooked = HookedStore(store)
    deck = Deck(tmp_path, hooked)
    deck.create(data=[1, 2])
    ids = [row["rowId"] for row in deck.get(f"{MANIFESTS}/weight/rows")["rows"]]

    def append(ops: Any) -> None:
        hooked.before = None
        deck.append("weight", 3)

    hooked.before = append
    assert deck("POST", f"{MANIFESTS}/weight/rows/reorder", {"order": ids[::-1]}).status == 412
    assert deck.data() == [1, 2, 3]


# -- cost


class CountingStore(HookedStore):
    """Counts what it is asked for: calls, items and bytes read, items and bytes written."""

    def __init__(self, inner: ItemStore) -> None:
        super().__init__(inner)
        self.reset()

    def reset(self) -> None:
        self.calls, self.read, self.written = 0, 0, 0

    def get(self, key: Any) -> Any:
        item = super().get(key)
        self.calls += 1
        self.read += len(item.body) if item else 0
        return item

    def query(self, *args: Any, **options: Any) -> Page:
        page = super().query(*args, **options)
        self.calls += 1
        self.read += sum(len(item.body) for item in page.items)
        return page

    def write(self, ops: Any, *, token: str) -> None:
        self.calls += 1
        self.written += sum(len(op.item.body) for op in ops if isinstance(op, Put))
        super().write(ops, token=token)

    def cost(self) -> tuple[int, int, int]:
        return self.calls, self.read, self.written


def test_appending_costs_the_same_at_20000_rows_as_at_none(tmp_path: Path, store: ItemStore) -> None:
    counting = CountingStore(store)
    deck = Deck(tmp_path, counting)
    row = {"date": "2026-04-20", "kg": 85.5}
    deck.create("small", data=[row] * 10)
    deck.create("large", data=[row] * 20_000)
    costs = []
    for card in ("small", "large"):
        # The first one may read the policy.
        deck.append(card, row)
        counting.reset()
        deck.append(card, row)
        costs.append(counting.cost())
    (calls, read, written), (calls_, read_, written_) = costs
    assert calls == calls_ <= 4
    # Only the digits of the counts differ.
    assert (abs(read_ - read) < 20, abs(written_ - written) < 20) == (True, True)


def test_overviews_read_no_rows(tmp_path: Path, store: ItemStore) -> None:
    counting = CountingStore(store)
    deck = Deck(tmp_path, counting)
    for n in range(60):
        deck.create(f"c{n}", data=[{"date": "2026-04-20", "n": m} for m in range(20)])
    for path in ("/api/activity", "/api/hygiene", MANIFESTS, "/api/settings/cards", "/api/views/view"):
        counting.reset()
        deck.get(path)
        assert counting.calls <= 2, "the cards, and the zone of whoever looks"


def test_a_store_that_fails_is_503_and_says_nothing_of_itself(tmp_path: Path, store: ItemStore) -> None:
    hooked = HookedStore(store)
    deck = Deck(tmp_path, hooked)
    deck.create()

    def fail(ops: list[Op]) -> None:
        raise StorageUnavailable("secret detail")

    hooked.before = fail  # type: ignore[assignment]
    answer = deck("POST", f"{MANIFESTS}/weight/rows", {"value": 1})
    assert (answer.status, answer.code) == (503, "storage_failed")
