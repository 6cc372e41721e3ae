"""The system message: what stays the same byte for byte, and what may change."""

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from deckhand.agent.prompt import Surroundings, segments, system_messages
from deckhand.agent.voice import ENVELOPE
from tests.fakes import marks, unmarked

MADRID = ZoneInfo("Europe/Madrid")
CARDS = [("mood", "🙂 Mood", "How I feel"), ("weight", "Weight", "")]
AROUND = Surroundings(
    agent_name="Ada", base=None, cards=CARDS, now=datetime(2026, 3, 29, 23, 30, tzinfo=MADRID), reports="- r.md"
)


def test_case_27_another_day_or_card_in_focus_changes_nothing_but_the_last_segment() -> None:
    other = replace(AROUND, now=datetime(2026, 7, 1, 8, tzinfo=MADRID), focus=("mood", "🙂 Mood"))
    assert segments(other)[:2] == segments(AROUND)[:2]
    assert segments(other)[2] != segments(AROUND)[2]


def test_another_card_changes_nothing_of_the_first_segment() -> None:
    other = replace(AROUND, cards=[*CARDS, ("sleep", "Sleep", "Hours")])
    assert segments(other)[0] == segments(AROUND)[0]
    assert segments(other)[1] != segments(AROUND)[1]


def test_only_the_last_segment_knows_the_date() -> None:
    static, instance, volatile = segments(AROUND)
    assert "2026-03-29" not in static + instance
    assert "Today is Sunday, 2026-03-29" in volatile
    assert "Monday 2026-03-30 (tomorrow)" in volatile


def test_the_cards_stand_in_the_second_segment_in_their_order() -> None:
    instance = segments(AROUND)[1]
    assert instance.index("mood (🙂 Mood): How I feel") < instance.index("weight (Weight)") < instance.index("- r.md")


def test_two_of_three_blocks_carry_a_mark_and_the_last_one_does_not() -> None:
    (message,) = system_messages(AROUND, cache=True)
    assert marks([message]) == 2
    assert [tuple(part) for part in message["content"]][2] == ("type", "text")
    assert [part["text"] for part in message["content"]] == list(segments(AROUND))


def test_without_a_prompt_cache_it_is_one_string_in_the_same_order() -> None:
    (flat,) = system_messages(AROUND, cache=False)
    assert flat == {"role": "system", "content": "\n".join(segments(AROUND))}


def test_both_forms_hold_the_same_text() -> None:
    (blocks,), (flat,) = system_messages(AROUND, cache=True), system_messages(AROUND, cache=False)
    assert unmarked(blocks)["content"].split() == flat["content"].split()


def test_a_base_prompt_of_ones_own_takes_the_place_of_the_built_in_one_braces_and_all() -> None:
    static = segments(replace(AROUND, base="Be {terse}."))[0]
    assert static.startswith("Be {terse}.\n")


def test_a_name_with_braces_is_only_a_name() -> None:
    assert "{0}" in segments(replace(AROUND, agent_name="{0}"))[0]


def test_a_voice_turn_is_told_of_the_envelope_first() -> None:
    assert segments(replace(AROUND, voice=True))[0].startswith(ENVELOPE)


@pytest.mark.parametrize("voice", [True, False])
def test_the_compact_profile_is_shorter(voice: bool) -> None:
    full, compact = (segments(replace(AROUND, voice=voice, profile=p))[0] for p in ("full", "compact"))
    assert len(compact) < len(full)
