"""What a reminder may say on a locked phone, and what it says when it fires."""

import pytest

from deckhand.domain.open_plan import Left
from deckhand.domain.reminder_blanks import MAX_FILLED, filled
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


BOTH = "Time for {schedule_due}{missed_earlier}"


@pytest.mark.parametrize(
    ("text", "left", "said"),
    [
        (BOTH, Left(("Zinc", "Iron")), "Time for Zinc, Iron"),
        (BOTH, Left(("Zinc",), ("Iron", "B12")), "Time for Zinc. Missed earlier: Iron, B12"),
        (BOTH, Left((), ("Iron",)), "Time for Iron"),
        ("{schedule_due}", Left(("Zinc",), ("Iron",)), "Zinc"),
        ("Open your plan{missed_earlier}", Left((), ("Iron",)), "Open your plan. Missed earlier: Iron"),
        ("Open your plan{missed_earlier}", Left(("Zinc",)), "Open your plan"),
        ("For {schedule_due}. {missed_earlier}", Left(("Zinc",), ("Iron",)), "For Zinc. Missed earlier: Iron"),
        ("For {schedule_due}! {missed_earlier}", Left(("Zinc",)), "For Zinc!"),
        ("Take {schedule_due} {missed_earlier}", Left(("Zinc",), ("Iron",)), "Take Zinc. Missed earlier: Iron"),
        ("Take it.{missed_earlier}", Left((), ("Iron",)), "Take it. Missed earlier: Iron"),
        ("{missed_earlier}", Left(("Zinc",), ("Iron",)), "Missed earlier: Iron"),
        (" {missed_earlier} Go on.", Left((), ("Iron",)), "Missed earlier: Iron Go on."),
        (BOTH, Left(), "Time for"),
        ("{schedule_due}", Left(), ""),
        ("Before {breakfast}", Left(("Zinc",)), "Before {breakfast}"),
        (" as written ", Left(("Zinc",)), " as written "),
        (
            BOTH,
            Left(("{missed_earlier}",), ("{schedule_due}",)),
            "Time for {missed_earlier}. Missed earlier: {schedule_due}",
        ),
    ],
)
def test_what_is_left_to_do_is_named_where_the_text_has_room_for_it(text: str, left: Left, said: str) -> None:
    assert filled(text, left) == said


def test_names_do_not_make_a_text_longer_than_a_lock_screen_shows() -> None:
    said = filled(BOTH, Left(tuple(f"Pill {n}" for n in range(1_000))))
    assert said.startswith("Time for Pill 0, Pill 1, ")
    assert said.endswith("…")
    assert len(said) <= MAX_FILLED
    assert len(filled("{schedule_due}", Left(("x" * MAX_FILLED,)))) == MAX_FILLED
