"""The envelope of voice turns, as models really write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.agent.voice import Spoken, unwrap

BOTH = '{"speak":"Hi","display":"**Hi**"}'


@pytest.mark.parametrize(
    "text", [BOTH, f"```json\n{BOTH}\n```", f"Sure: {BOTH} That is it.", f'{{"speak":"draft"}}\n{BOTH}', f"{{x {BOTH}"]
)
def test_the_last_whole_envelope_counts_whatever_stands_around_it(text: str) -> None:
    assert unwrap(text) == Spoken("Hi", "**Hi**")


def test_raw_line_ends_in_its_texts_are_taken() -> None:
    assert unwrap('{"speak":"Hi","display":"One\nTwo"}').display == "One\nTwo"


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ('{"speak":"Hi"}', Spoken("Hi", "Hi")),
        ('{"display":"Hi"}', Spoken("Hi", "Hi")),
        ('{"speak":" ","display":"Hi"}', Spoken("Hi", "Hi")),
        ('{"speak":1,"display":"Hi"}', Spoken("Hi", "Hi")),
    ],
)
def test_one_text_stands_for_the_other(text: str, spoken: Spoken) -> None:
    assert unwrap(text) == spoken


def test_plain_text_is_shown_whole_and_spoken_without_emoji() -> None:
    assert unwrap("Done ✅  🍵\nnow") == Spoken("Done now", "Done ✅  🍵\nnow")


def test_an_object_that_is_no_envelope_is_shown_as_it_is() -> None:
    assert unwrap('{"a":1}').display == '{"a":1}'


def test_an_envelope_that_was_cut_shows_its_text_and_not_its_braces() -> None:
    assert unwrap('{"speak":"It is high.","display":"It is **hi') == Spoken("It is high.", "It is **hi")


@pytest.mark.parametrize("text", ['{"speak":"It is h', '{ "display" : "It is h'])
def test_an_envelope_that_was_cut_in_its_first_text_gives_that_text(text: str) -> None:
    assert unwrap(text) == Spoken("It is h", "It is h")


@given(st.text())
def test_any_text_is_shown_somehow(text: str) -> None:
    assert unwrap(text).display == text or "{" in text


def test_deep_nesting_is_no_fault() -> None:
    assert unwrap('{"a":' * 5_000).display.startswith('{"a":')


@pytest.mark.parametrize("text", ['{"speak":"Tea \\ud83c","display":"Tea"}', '{"speak":"Tea \\ud83c\\u'])
def test_half_a_character_is_replaced_so_that_it_can_be_stored(text: str) -> None:
    assert unwrap(text).speak == "Tea \ufffd"


def test_an_envelope_that_was_cut_within_an_escape_gives_what_came_before_it() -> None:
    assert unwrap('{"speak":"One\\ntwo\\u00e').speak == "One\ntwo"
