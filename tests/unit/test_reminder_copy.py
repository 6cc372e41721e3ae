"""What a reminder may say on a locked phone."""

import pytest

from deckhand.domain.reminder_copy import telling


@pytest.mark.parametrize(
    "body",
    [
        "Step on the scale, it was 85.5 last time",
        "Down to 84,2 — weigh in again",
        "Your weight: 85 kg. Log the next one",
        "You are at 172lbs",
        "Blood pressure 120/80? Measure again",
        "Yesterday you slept 6 hours",
        "Last entry 2026-04-20, time for another",
        "Nothing since 20.4.2026",
        "Glucose 110 mg/dL, check again",
        "Pulse 64 bpm: measure",
        "Mood was 3, how is it now?",
        "Fever 38 °C: take it again",
        "Body fat at 21%",
    ],
)
def test_a_reading_or_a_past_entry_is_told(body: str) -> None:
    assert telling(body) is not None


@pytest.mark.parametrize(
    "body",
    [
        "Before breakfast",
        "Take 2 tablets with water",
        "Take 0.5 mg with food",
        "Drink 250 ml of water",
        "Drink 8 glasses today",
        "Walk 10,000 steps",
        "10 minutes of quiet",
        "Vitamin D3 and B12",
        "Log your weight by 08:00",
        "It was a long day: lights out at 22:30",
        "Half a tablet (1/2) after lunch",
        "Run 5 km",
        "Day 1 of 30: you can do it",
    ],
)
def test_an_invitation_to_act_may_have_counts_times_and_doses(body: str) -> None:
    assert telling(body) is None
