"""What a manifest must be, with every fault named at once."""

from typing import Any

import pytest

from deckhand.domain.cards import CATEGORIES, RESERVED_IDS, check_manifest, every_fault, has_type, valid_id
from deckhand.domain.errors import InvalidManifest, InvalidManifestField, InvalidManifestId
from deckhand.domain.metrics import METRICS

REMINDER = {"id": "am", "label": "Morning", "title": "Weigh in", "body": "Step on", "trigger": {}}
DAILY = {"type": "daily", "time": "08:00"}


def card(data: Any = None, **meta: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"$schema": "klebb.datafile.v1", "meta": {"id": "weight", "label": "Weight", **meta}}
    return made if data is None else {**made, "data": data}


def paths(manifest: Any) -> list[str]:
    return [fault["path"] for fault in every_fault(manifest)]


def reminders(*items: Any, **block: Any) -> dict[str, Any]:
    return card(notifications={"items": list(items), **block})


def test_the_least_manifest_has_no_fault() -> None:
    assert every_fault(card()) == []
    check_manifest(card())


def test_what_is_not_constrained_may_be_anything() -> None:
    manifest = card(
        [{"any": None}],
        writeable={"fromWebapp": "maybe", "inputs": 3},
        view={"component": "of-the-future", "display": {"odd": [1, {"x": None}]}},
        own={"__proto__": {"deep": [1.0, 1]}},
        ingest={"source": "elsewhere", "metric": "anything"},
    )
    assert every_fault(manifest) == []


@pytest.mark.parametrize("manifest", [None, 3, "text", [], True])
def test_what_is_no_object_is_no_manifest(manifest: Any) -> None:
    assert every_fault(manifest) == [{"path": "", "message": "must be an object"}]
    with pytest.raises(InvalidManifest):
        check_manifest(manifest)


@pytest.mark.parametrize(
    ("manifest", "path"),
    [
        ({"meta": {"id": "a", "label": "A"}}, "$schema"),
        ({"$schema": "klebb.datafile.v2", "meta": {"id": "a", "label": "A"}}, "$schema"),
        ({"$schema": "klebb.datafile.v1"}, "meta"),
        ({"$schema": "klebb.datafile.v1", "meta": {"label": "A"}}, "meta.id"),
        ({"$schema": "klebb.datafile.v1", "meta": {"id": 3, "label": "A"}}, "meta.id"),
        ({"$schema": "klebb.datafile.v1", "meta": {"id": "a", "label": "  "}}, "meta.label"),
        ({**card(), "description": 3}, "description"),
        ({**card(), "schema": []}, "schema"),
        ({**card([]), "schema": {"type": "object"}}, "data"),
        ({**card(), "more": 1}, "more"),
    ],
)
def test_a_fault_of_the_envelope_is_an_invalid_manifest(manifest: dict[str, Any], path: str) -> None:
    assert paths(manifest) == [path]
    with pytest.raises(InvalidManifest) as refused:
        check_manifest(manifest)
    assert type(refused.value) is InvalidManifest
    assert [fault["path"] for fault in refused.value.details["errors"]] == [path]


@pytest.mark.parametrize(
    "name", ["Weight", "-a", ".a", "a b", "a/b", "a#b", "ä", "a\n", "..", "a" * 65, "٣", *sorted(RESERVED_IDS)]
)
def test_an_id_that_cannot_be_used_is_refused(name: str) -> None:
    assert paths(card(id=name)) == ["meta.id"]
    with pytest.raises(InvalidManifestId):
        check_manifest(card(id=name))


@pytest.mark.parametrize("name", ["a", "0", "a" * 64, "blood-pressure", "a._-", "a..b", "__proto__"[2:]])
def test_an_id_of_64_plain_characters_is_taken(name: str) -> None:
    assert valid_id(name)


@pytest.mark.parametrize(
    ("meta", "path"),
    [
        ({"category": "hobbies"}, "meta.category"),
        ({"category": None}, "meta.category"),
        ({"enabled": "yes"}, "meta.enabled"),
        ({"order": "first"}, "meta.order"),
        ({"order": True}, "meta.order"),
        ({"cadence": 3}, "meta.cadence"),
        ({"cadence": {}}, "meta.cadence.expectDays"),
        ({"cadence": {"expectDays": 0}}, "meta.cadence.expectDays"),
        ({"cadence": {"expectDays": 731}}, "meta.cadence.expectDays"),
        ({"cadence": {"expectDays": 1.5}}, "meta.cadence.expectDays"),
        ({"cadence": {"expectDays": True}}, "meta.cadence.expectDays"),
        ({"ingest": {"source": "hae", "metric": "step_cuont"}}, "meta.ingest.metric"),
        ({"ingest": {"source": "hae"}}, "meta.ingest.metric"),
        ({"ingest": "hae"}, "meta.ingest"),
        ({"schedule": {"type": "sometimes"}}, "meta.schedule.type"),
        ({"schedule": {"time_of_day": "noon"}}, "meta.schedule.time_of_day"),
        ({"schedule": {"time_of_day": []}}, "meta.schedule.time_of_day"),
        ({"schedule": {"time_of_day": ["morning", "morning"]}}, "meta.schedule.time_of_day"),
        ({"writeable": True}, "meta.writeable"),
        ({"chat": {"starterPrompts": [{"text": "x", "kind": "other"}]}}, "meta.chat.starterPrompts[0].kind"),
        ({"chat": {"starterPrompts": [{"text": "", "kind": "data"}]}}, "meta.chat.starterPrompts[0].text"),
        ({"chat": {"starterPrompts": [{"text": "x", "kind": "data"}] * 21}}, "meta.chat.starterPrompts"),
    ],
)
def test_a_constrained_field_is_refused_with_its_path(meta: dict[str, Any], path: str) -> None:
    assert paths(card(**meta)) == [path]
    with pytest.raises(InvalidManifestField) as refused:
        check_manifest(card(**meta))
    assert refused.value.code == "invalid"


@pytest.mark.parametrize(
    "meta",
    [
        *({"category": category} for category in CATEGORIES),
        *({"ingest": {"source": "hae", "metric": metric}} for metric in METRICS),
        {"cadence": {"expectDays": 1}},
        {"cadence": {"expectDays": 730}},
        {"order": -5},
        {"order": 1.5},
        {"schedule": {"type": "phased", "time_of_day": ["morning", "night"], "loading": {"days": 3}}},
    ],
)
def test_a_constrained_field_takes_what_is_allowed(meta: dict[str, Any]) -> None:
    assert every_fault(card(**meta)) == []


def test_a_schedule_inside_the_data_is_checked() -> None:
    items = {"items": [{"name": "Zinc"}, {"name": "Iron", "schedule": {"time_of_day": "noon"}}]}
    assert paths(card(items)) == ["data.items[1].schedule.time_of_day"]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"id": "AM"}, "id"),
        ({"label": "x" * 81}, "label"),
        ({"title": "x" * 31}, "title"),
        ({"body": "x" * 81}, "body"),
        ({"body": ""}, "body"),
        ({"trigger": {"type": "hourly"}}, "trigger.type"),
        ({"trigger": {"type": "daily", "time": "24:00"}}, "trigger.time"),
        ({"trigger": {"type": "daily", "time": "8:00"}}, "trigger.time"),
        ({"trigger": {"type": "weekly", "time": "08:00", "days": []}}, "trigger.days"),
        ({"trigger": {"type": "weekly", "time": "08:00", "days": ["mon", "mon"]}}, "trigger.days"),
        ({"trigger": {"type": "weekly", "time": "08:00", "days": ["monday"]}}, "trigger.days"),
        ({"trigger": {"type": "schedule_due", "time": "08:00", "time_of_day": "morning"}}, "trigger.card"),
        ({"privacy": "secret"}, "privacy"),
        ({"default": True}, "default"),
        ({"action": {"type": "call"}}, "action.type"),
    ],
)
def test_a_reminder_is_checked_field_by_field(change: dict[str, Any], path: str) -> None:
    manifest = reminders({**REMINDER, "trigger": DAILY, **change})
    assert paths(manifest) == [f"meta.notifications.items[0].{path}"]
    with pytest.raises(InvalidManifestField, match="invalid notifications"):
        check_manifest(manifest)


def test_reminders_are_at_most_ten_with_ids_of_their_own() -> None:
    ten = [{**REMINDER, "trigger": DAILY, "id": f"r{n}"} for n in range(10)]
    assert every_fault(reminders(*ten)) == []
    assert paths(reminders(*ten, {**ten[0], "id": "r10"})) == ["meta.notifications.items"]
    assert paths(reminders(ten[0], ten[0])) == ["meta.notifications.items[1].id"]


@pytest.mark.parametrize(
    ("view", "path"),
    [
        ({"component": "generic-card", "display": "{kg}"}, "meta.view.display"),
        ({"component": ""}, "meta.view.component"),
        ({"enabled": 1}, "meta.view.enabled"),
        ("generic-card", "meta.view"),
        ({"component": "line-chart", "series": "kg"}, "meta.view.series"),
        ({"component": "line-chart", "series": [{"label": "x"}]}, "meta.view.series[0].field"),
        ({"component": "combination-card"}, "meta.view.combines"),
        ({"component": "combination-card", "combines": []}, "meta.view.combines"),
        ({"component": "combination-card", "combines": [{"role": "primary"}]}, "meta.view.combines[0].sourceId"),
        (
            {"component": "combination-card", "combines": [{"sourceId": "a", "role": "boss"}]},
            "meta.view.combines[0].role",
        ),
        (
            {"component": "combination-card", "combines": [{"sourceId": "a", "role": "ring-segment"}]},
            "meta.view.combines[0]",
        ),
    ],
)
def test_a_renderer_that_could_not_show_it_is_a_fault_of_validation_only(view: Any, path: str) -> None:
    assert paths(card(view=view)) == [path]
    check_manifest(card(view=view))


def test_a_combination_has_no_data_of_its_own() -> None:
    view = {"component": "combination-card", "combines": [{"sourceId": "a"}]}
    assert every_fault(card([], view=view)) == []
    assert paths(card([{"kg": 1}], view=view)) == ["data"]


def test_all_faults_are_collected_not_only_the_first() -> None:
    manifest = {
        "$schema": "v0",
        "more": 1,
        "description": 3,
        "meta": {
            "id": "Bad Id",
            "category": "hobbies",
            "cadence": {"expectDays": 0},
            "notifications": {"items": [{"id": "x"}]},
            "view": {"component": "combination-card"},
        },
        "data": {"items": [{"schedule": {"type": "sometimes"}}]},
    }
    assert set(paths(manifest)) == {
        "$schema",
        "meta.label",
        "description",
        "more",
        "meta.id",
        "meta.category",
        "meta.cadence.expectDays",
        "meta.notifications.items[0].label",
        "meta.notifications.items[0].title",
        "meta.notifications.items[0].body",
        "meta.notifications.items[0].trigger",
        "meta.view.combines",
        "data",
        "data.items[0].schedule.type",
    }


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        ([], "array", True),
        ({}, "array", False),
        ({}, "object", True),
        ("x", "string", True),
        (1.5, "number", True),
        (True, "number", False),
        (True, "boolean", True),
        (None, "array", True),
        (3, "of the future", True),
    ],
)
def test_the_type_of_data_is_bound_by_the_words_that_are_known(value: Any, kind: str, fits: bool) -> None:
    assert has_type(value, kind) is fits
