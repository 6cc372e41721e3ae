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


EDITED = "The person changed the arguments before they said yes."
OTHER = {"id": "weight"}


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ({"ok": True, "id": "weight", "removed": True}, "You changed what I asked for. The card weight is deleted."),
        (UNKNOWN, "You changed what I asked for. That did not work: There is no such card."),
    ],
)
def test_a_deletion_that_was_edited_is_told_as_what_it_became(result: Mapping[str, Any], told: str) -> None:
    edited = {"note": EDITED, "arguments": OTHER, "result": result}
    assert talk("delete the mood card", CARDS, ("delete_manifest", edited)) == told


@pytest.mark.parametrize("result", [{}, {"status": "unheard of"}])
def test_what_no_result_says_is_not_claimed(result: Mapping[str, Any]) -> None:
    assert "cannot tell" in said(talk("delete the mood card", CARDS, ("delete_manifest", result)))
    assert "cannot tell" in said(talk("log 85.5 kg", ("append_row", result)))


@pytest.mark.parametrize("name", ["append_row", "create_manifest"])
def test_what_was_rejected_is_not_claimed(name: str) -> None:
    text = "log 85.5 kg" if name == "append_row" else "make a card for mood"
    assert said(talk(text, (name, REJECTED))).startswith("All right. No")


def test_a_card_that_is_made_first_is_told_before_it_is_asked_for() -> None:
    step = called(talk("log 85.5 kg", ("append_row", UNKNOWN)))
    assert step.saying == "There is no weight card yet, so nothing is logged. I make the card first."


class Talk:
    """A conversation of which each call that waits was given an id."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def says(self, text: str) -> str | ToolUse:
        self.messages.append({"role": "user", "content": text})
        return self.step()

    def answers(self, use: str | ToolUse, result: Mapping[str, Any] | str) -> str | ToolUse:
        """The demo's next step behind its call; None where the turn ends with it."""
        use, id = called(use), f"call{len(self.messages)}"
        call = {"id": id, "function": {"name": use.name, "arguments": json.dumps(use.arguments)}}
        told = {"status": "awaiting_confirmation", "confirmationId": result} if isinstance(result, str) else result
        self.messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": id, "content": json.dumps(told)},
        ]
        return "" if isinstance(result, str) else self.step()

    def step(self) -> str | ToolUse:
        return next_step(self.messages, TOOLS, TODAY)


@pytest.fixture
def deletion() -> Talk:
    """Somebody wants a card deleted, and it waits."""
    talk = Talk()
    talk.answers(talk.answers(talk.says("delete the mood card"), CARDS[1]), "p1")
    return talk


@pytest.mark.parametrize("text", ["yes", "Y", "Yes, do it!", "do it"])
def test_a_plain_yes_makes_the_call_again_with_its_confirmation(deletion: Talk, text: str) -> None:
    again = deletion.says(text)
    assert again == ToolUse("delete_manifest", {"id": "mood-2", "confirmationId": "p1"})
    assert deletion.answers(again, {"ok": True, "id": "mood-2"}) == "The mood card is deleted."


@pytest.mark.parametrize(
    "result", [FAILED, {"error": "It is no longer as it was shown.", "code": "target_changed"}, {"error": "Late."}]
)
def test_a_yes_that_did_not_work_is_told_as_that(deletion: Talk, result: dict[str, str]) -> None:
    assert deletion.answers(deletion.says("yes"), result) == f"That did not work: {result['error']}"


def test_a_plain_no_does_nothing_and_a_yes_behind_it_neither(deletion: Talk) -> None:
    assert deletion.says("No.") == "All right, nothing was done."
    assert "demo" in said(deletion.says("yes"))


def test_a_yes_counts_behind_something_else_that_was_said(deletion: Talk) -> None:
    assert "demo" in said(deletion.says("yes and no"))
    assert called(deletion.says("yes")).arguments["confirmationId"] == "p1"


def test_a_yes_to_nothing_is_no_request() -> None:
    assert "demo" in said(Talk().says("yes"))


@pytest.mark.parametrize("settled", [False, True])
def test_a_weight_is_logged_where_each_change_takes_a_yes_in_words(settled: bool) -> None:
    """`settled`: a later turn reads what came of a waiting call as its result."""
    talk = Talk()
    talk.answers(talk.says("log 85.5 kg"), "p1")
    make = talk.answers(talk.says("yes"), UNKNOWN)
    talk.answers(make, "p2")
    if settled:
        talk.messages[2]["content"] = json.dumps(UNKNOWN)
    append = talk.answers(talk.says("yes"), {"ok": True})
    assert (called(append).name, "confirmationId" in called(append).arguments) == ("append_row", False)
    talk.answers(append, "p3")
    told = talk.answers(talk.says("yes"), {"ok": True})
    assert told == "There was no weight card, so I made one. I logged 85.5 kg for 2026-03-04."


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
