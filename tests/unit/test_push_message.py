"""What a push says: generic where it is private, one for all that is due together, short enough for every service."""

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain.push_message import (
    GENERIC_BODY,
    GENERIC_TITLE,
    PAYLOAD_BYTES,
    Notice,
    message,
    payload,
    shorter,
    topic,
)

DUE = "2026-04-20T08:00Z"
WEIGH = Notice("weight#am", "Weigh in", "Step on the scale", private=False, opens="weight")
MOOD = Notice("mood#pm", "Mood", "How was the day?", private=False, opens="mood")
PILLS = Notice("pills#am", "Take the blue pill", "Two of them", private=True, opens="pills")
TEA = "\N{TEACUP WITHOUT HANDLE}"


def said(*notices: Notice, late: bool = False, origin: str = "") -> dict[str, object]:
    made: dict[str, object] = message(notices, tag="t", due=DUE, late=late, origin=origin)["notification"]
    return made


def test_a_reminder_is_also_a_valid_declarative_push() -> None:
    made = message([WEIGH], tag="t1", due=DUE, late=False, origin="https://deck.example")
    assert made["web_push"] == 8030
    assert made["notification"] == {
        "title": "Weigh in",
        "body": "Step on the scale",
        "navigate": "https://deck.example/?card=weight",
        "tag": "t1",
        "data": {"due": DUE, "late": False, "reminders": ["weight#am"]},
    }


def test_of_a_private_reminder_nothing_is_shown() -> None:
    assert (said(PILLS)["title"], said(PILLS)["body"]) == (GENERIC_TITLE, GENERIC_BODY)


@pytest.mark.parametrize(
    ("card_says", "person_says", "private"),
    [
        (None, None, True),
        ("private", None, True),
        ("public", None, False),
        ("public", "private", True),
        ("private", "public", False),
        (None, "public", False),
    ],
)
def test_a_reminder_is_private_unless_card_or_person_says_otherwise(
    card_says: str | None, person_says: str | None, private: bool
) -> None:
    item = {"title": "T", "body": "B", **({"privacy": card_says} if card_says else {})}
    assert Notice.of("c#i", item, person_says).private == private


def test_what_is_due_together_is_one_notification() -> None:
    assert (said(WEIGH, MOOD)["title"], said(WEIGH, MOOD)["body"]) == ("2 reminders", "Weigh in · Mood")
    assert said(WEIGH, PILLS)["body"] == "Weigh in · 1 more"
    assert said(PILLS, PILLS)["body"] == "Open Deckhand to see them."
    assert "blue" not in json.dumps(said(WEIGH, PILLS))


def test_a_late_reminder_says_so() -> None:
    assert said(WEIGH, late=True)["title"] == "Late: Weigh in"


def test_a_notification_opens_the_card_that_its_reminder_names() -> None:
    item = {"title": "T", "body": "B", "action": {"type": "open-card", "card": "a b&c", "intent": "log"}}
    assert said(Notice.of("c#i", item))["navigate"] == "/?card=a%20b%26c&action=log"
    assert said(WEIGH, MOOD)["navigate"] == "/"


def test_a_topic_is_the_same_each_time_and_tells_nothing() -> None:
    made = topic("owner", ["weight#am", "mood#pm"])
    assert made == topic("owner", ["mood#pm", "weight#am"])
    assert made != topic("other", ["mood#pm", "weight#am"])
    assert len(made) <= 32
    assert set(made) <= set(string.ascii_letters + string.digits + "-_")


def test_case_62_a_body_of_4_000_tea_cups_is_cut_on_a_character() -> None:
    made = message([Notice("c#i", "Tea", TEA * 4_000, private=False)], tag="t", due=DUE, late=False)
    sent = payload(made)
    assert PAYLOAD_BYTES - len(TEA.encode()) < len(sent) <= PAYLOAD_BYTES
    body = json.loads(sent)["notification"]["body"]
    assert set(body) == {TEA, "…"}


def test_case_62_the_shorter_try_has_at_most_half_the_bytes_and_keeps_the_title() -> None:
    made = message([Notice("c#i", "Tea", TEA * 4_000, private=False)], tag="t", due=DUE, late=False)
    sent = shorter(made)
    assert len(sent) <= PAYLOAD_BYTES // 2
    assert json.loads(sent)["notification"]["title"] == "Tea"


def test_a_short_message_gets_shorter_too() -> None:
    made = message([WEIGH], tag="t", due=DUE, late=False)
    assert len(shorter(made)) < len(payload(made))
    assert json.loads(shorter(made))["notification"]["title"] == "Weigh in"


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])), st.data())
def test_whatever_is_to_be_said_fits_and_stays_json(title: str, body: str, data: st.DataObject) -> None:
    made = message([Notice("c#i", title, body, private=False)], tag="t", due=DUE, late=False)
    bare = {**made, "notification": {**made["notification"], "title": "", "body": ""}}
    limit = data.draw(st.integers(len(payload(bare)), PAYLOAD_BYTES))
    sent = payload(made, limit=limit)
    assert len(sent) <= limit
    cut = json.loads(sent)["notification"]
    assert title.startswith(cut["title"].removesuffix("…")) or cut["title"] == title
    assert body.startswith(cut["body"].removesuffix("…")) or cut["body"] == body
