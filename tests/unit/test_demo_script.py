"""What the demo says and which tools it calls."""

import json
from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest

from deckhand.agent.wording import DECIDED
from infra.local.demo_scene import ToolUse
from infra.local.demo_script import next_step

TODAY = date(2026, 3, 4)
TOOLS = [
    {"type": "function", "function": {"name": name}}
    for name in ("list_manifests", "read_manifest", "create_manifest", "append_row", "remove_row", "delete_manifest")
]
UNKNOWN = {"error": "There is no such card.", "code": "unknown_manifest"}


def talk(said: str, *exchanges: tuple[str, Mapping[str, Any]], tools: list[Any] | None = None) -> str | ToolUse:
    """The demo's step after a user's message and the tools that answered since."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": said}]
    for number, (name, result) in enumerate(exchanges):
        call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": json.dumps(result)},
        ]
    return next_step(messages, TOOLS if tools is None else tools, TODAY)


def said(step: str | ToolUse) -> str:
    assert isinstance(step, str)
    return step


def called(step: str | ToolUse) -> ToolUse:
    assert isinstance(step, ToolUse)
    return step


@pytest.mark.parametrize("text", ["log 85.5 kg", "Please log 85,5kg!", "Log 85.5 kg for today"])
def test_a_weight_is_appended_with_todays_date(text: str) -> None:
    row = {"date": "2026-03-04", "kg": 85.5}
    assert talk(text) == ToolUse("append_row", {"id": "weight", "path": "", "value": row})


def test_the_date_of_the_system_message_wins_over_the_clock() -> None:
    messages = [{"role": "system", "content": [{"type": "text", "text": "Today is 2026-05-06."}]}]
    step = next_step([*messages, {"role": "user", "content": "log 80 kg"}], TOOLS, TODAY)
    assert called(step).arguments["value"]["date"] == "2026-05-06"


def test_a_logged_weight_is_told() -> None:
    assert "I logged 85.5 kg for 2026-03-04" in said(talk("log 85.5 kg", ("append_row", {"ok": True})))


def test_a_missing_weight_card_is_made_first() -> None:
    step = called(talk("log 85.5 kg", ("append_row", UNKNOWN)))
    assert step.name == "create_manifest"
    assert step.arguments["manifest"]["meta"]["id"] == "weight"


def test_the_weight_is_appended_once_its_card_is_made() -> None:
    made = ("create_manifest", {"ok": True})
    assert called(talk("log 85.5 kg", ("append_row", UNKNOWN), made)).name == "append_row"
    told = said(talk("log 85.5 kg", ("append_row", UNKNOWN), made, ("append_row", {"ok": True})))
    assert told.startswith("There was no weight card, so I made one.")


@pytest.mark.parametrize(
    "exchanges",
    [
        [("append_row", {"error": "The store sleeps.", "code": "storage_failed"})],
        [("append_row", UNKNOWN), ("create_manifest", {"error": "The store sleeps.", "code": "storage_failed"})],
        [
            ("append_row", UNKNOWN),
            ("create_manifest", {"ok": True}),
            ("append_row", {"error": "The store sleeps.", "code": "storage_failed"}),
        ],
    ],
)
def test_a_weight_that_was_not_logged_is_not_claimed(exchanges: list[tuple[str, Mapping[str, Any]]]) -> None:
    told = said(talk("log 85.5 kg", *exchanges))
    assert "The store sleeps." in told
    assert "I logged" not in told


@pytest.mark.parametrize(
    "result",
    [
        {"data": [{"date": "2026-03-01", "kg": 86}, {"date": "2026-03-04", "kg": 85.5}]},
        {"rows": [{"rowId": "1", "value": {"date": "2026-03-01", "kg": 86}}, {"rowId": "2", "value": {"kg": 85.5}}]},
    ],
)
def test_the_weight_told_is_the_cards_last(result: Mapping[str, Any]) -> None:
    told = said(talk("How is my weight?", ("read_manifest", result)))
    assert told.startswith("Your latest weight is 85.5 kg.")
    assert "-0.5 kg over these 2" in told


def test_the_card_is_read_before_its_values_are_told() -> None:
    assert talk("how is my weight") == ToolUse("read_manifest", {"id": "weight"})


@pytest.mark.parametrize("result", [UNKNOWN, {"data": []}])
def test_no_weight_is_made_up(result: Mapping[str, Any]) -> None:
    assert "log 85.5 kg" in said(talk("how is my weight", ("read_manifest", result)))


def test_a_card_is_made_for_what_was_named() -> None:
    manifest = called(talk("Make a card for my mood!")).arguments["manifest"]
    assert (manifest["$schema"], manifest["meta"]["id"], manifest["data"]) == ("klebb.datafile.v1", "mood", [])


def test_a_card_that_was_not_made_is_not_claimed() -> None:
    told = said(talk("make a card for mood", ("create_manifest", {"error": "This id is taken."})))
    assert told == "I could not make the card: This id is taken."


def test_cards_are_listed_by_their_labels() -> None:
    listed = {"cards": [{"id": "weight", "label": "Weight"}, {"id": "mood", "label": "Mood"}]}
    assert said(talk("what cards do I have?", ("list_manifests", listed))) == "You have 2 cards: Weight, Mood."


def test_an_empty_deck_is_told() -> None:
    assert "no cards yet" in said(talk("which cards are there", ("list_manifests", {"cards": []})))


CARDS = ("list_manifests", {"cards": [{"id": "mood-2", "label": "Mood"}, {"id": "weight", "label": "Weight"}]})
WEIGHTS = ("read_manifest", {"data": [{"kg": 86}, {"kg": 85.5}]})
REJECTED = {"status": "rejected", "note": "The person said no.", "reason": "I like it"}
EXPIRED = {"status": "expired", "note": "The person did not decide in time."}
FAILED = {"error": "The store sleeps.", "code": "storage_failed"}


@pytest.mark.parametrize("text", ["delete the mood card", "Please remove my Mood card!", "delete mood card"])
def test_a_card_that_is_not_wanted_is_looked_up_and_deleted(text: str) -> None:
    assert talk(text) == ToolUse("list_manifests", {})
    assert talk(text, CARDS) == ToolUse("delete_manifest", {"id": "mood-2"})


def test_a_card_that_is_not_there_is_not_deleted() -> None:
    assert talk("delete the sleep card", CARDS) == "There is no sleep card."


@pytest.mark.parametrize("text", ["remove my last weight", "Delete the last weight, please"])
def test_the_last_weight_is_looked_up_and_removed(text: str) -> None:
    assert talk(text) == ToolUse("read_manifest", {"id": "weight"})
    assert talk(text, WEIGHTS) == ToolUse("remove_row", {"id": "weight", "path": "[index=1]"})


@pytest.mark.parametrize("result", [UNKNOWN, {"data": []}])
def test_no_weight_is_removed_where_there_is_none(result: Mapping[str, Any]) -> None:
    assert talk("remove my last weight", ("read_manifest", result)) == "There is no weight to remove."


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ({"ok": True}, "The mood card is deleted."),
        ({"status": "done"}, "The mood card is deleted."),
        (REJECTED, "All right. The mood card stays as it is."),
        (EXPIRED, "Nobody said yes in time. The mood card stays as it is."),
        (FAILED, "That did not work: The store sleeps."),
    ],
)
def test_what_became_of_a_deletion_is_told(result: Mapping[str, Any], told: str) -> None:
    assert talk("delete the mood card", CARDS, ("delete_manifest", result)) == told


@pytest.mark.parametrize(
    ("result", "told"),
    [({"ok": True}, "I removed your last weight."), (REJECTED, "All right. Your last weight stays where it is.")],
)
def test_what_became_of_a_removal_is_told(result: Mapping[str, Any], told: str) -> None:
    assert talk("remove my last weight", WEIGHTS, ("remove_row", result)) == told


@pytest.mark.parametrize(
    ("tool", "text"), [("list_manifests", "delete the mood card"), ("read_manifest", "remove my last weight")]
)
def test_what_cannot_be_looked_up_is_not_removed(tool: str, text: str) -> None:
    assert "The store sleeps." in said(talk(text, (tool, FAILED)))


def test_decisions_that_came_late_are_taken_note_of() -> None:
    late = DECIDED.format(decisions='Delete a card: mood: {"ok": true}')
    assert talk(late) == "What you decided on is settled."


def test_a_tool_that_is_not_offered_is_not_called() -> None:
    assert "does not offer" in said(talk("log 85.5 kg", tools=[]))


@pytest.mark.parametrize("text", ["hello", "", "tell me a story"])
def test_anything_else_is_answered_with_what_it_can_do(text: str) -> None:
    told = said(talk(text))
    assert "demo" in told
    assert "log 85.5 kg" in told


def test_only_what_was_said_last_counts() -> None:
    messages = [
        {"role": "user", "content": "log 85.5 kg"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "thanks"},
    ]
    assert "demo" in said(next_step(messages, TOOLS, TODAY))
