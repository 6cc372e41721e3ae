"""A turn as it looks on a terminal, and in a pipe."""

import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.local.screen import Screen
from infra.local.sse_client import Message
from infra.local.terminal_text import cells, fitting, printable, rows

COLUMNS, LINES = 10, 6
texts = st.text(alphabet="ab \n界é", max_size=25)


class Terminal(io.StringIO):
    """Keeps what is visible: it understands what a screen may send, and fails on anything else."""

    _SENT = re.compile(r"\x1b\[(\d*)([AJKm])|[^\x1b]")

    def __init__(self) -> None:
        super().__init__()
        self.lines, self.row, self.column = [""], 0, 0

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        assert self._SENT.sub("", text) == ""
        for found in self._SENT.finditer(text):
            self._put(found[0]) if found[2] is None else self._obey(found[2], int(found[1] or 0))
        return len(text)

    def _obey(self, what: str, count: int) -> None:
        if what == "A":
            assert count <= min(self.row, LINES - 1), "the cursor stops at the top of the screen"
            self.row -= count
        elif what in "JK":
            self.lines[self.row] = _cut(self.lines[self.row], self.column)
            if what == "J":
                del self.lines[self.row + 1 :]

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n" or self.column + cells(character) > COLUMNS:
            self.row, self.column = self.row + 1, 0
            self.lines[self.row :] = [""]
        if character not in "\r\n":
            assert self.lines[self.row] == _cut(self.lines[self.row], self.column), "nothing is written over"
            self.lines[self.row] += character
            self.column += cells(character)

    @property
    def shown(self) -> str:
        return "\n".join(self.lines)


def _cut(line: str, column: int) -> str:
    while sum(map(cells, line)) > column:
        line = line[:-1]
    return line


def wrapped(text: str) -> str:
    plain = Terminal()
    plain.write(text)
    return plain.shown


@pytest.fixture(autouse=True)
def size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("LINES", str(LINES))
    monkeypatch.setenv("TERM", "xterm")


def show(out: io.StringIO, *told: tuple[str, dict[str, Any]]) -> tuple[Screen, str]:
    """The screen, and what went to the errors."""
    errors = io.StringIO()
    screen = Screen(out, errors)
    for event, data in told:
        screen.show(Message(1, event, data))
    screen.leave()
    return screen, errors.getvalue()


def token(text: str) -> tuple[str, dict[str, Any]]:
    return ("token", {"text": text})


THINKING = ("status", {"phase": "thinking"})
READING = ("status", {"phase": "tool", "tool": "read_manifest", "id": "weight", "label": "Reading the weight card"})
RESET: tuple[str, dict[str, Any]] = ("reset", {})


@given(st.lists(st.lists(texts, max_size=3), max_size=3), st.lists(texts, max_size=3), texts)
def test_whatever_came_before_the_answer_is_all_that_stays(dropped: list[list[str]], last: list[str], end: str) -> None:
    told = [THINKING]
    for step in dropped:
        while rows("".join(step), COLUMNS) > LINES:
            step = step[:-1]
        told += [*map(token, step), RESET, READING, THINKING]
    told += [*map(token, last), ("reply", {"reply": "".join(last) + end})]
    screen = Terminal()
    show(screen, *told)
    reply = "".join(last) + end
    assert screen.shown == wrapped(reply if reply.endswith("\n") or not reply else f"{reply}\n")


def test_a_reply_that_is_not_what_was_streamed_takes_its_place() -> None:
    screen = Terminal()
    show(screen, token("One two"), ("reply", {"reply": "Three"}))
    assert screen.shown == "Three\n"


def test_rows_that_left_the_screen_stay_with_a_line_that_says_what_they_were() -> None:
    screen = Terminal()
    show(screen, token("a\n" * LINES), RESET, token("b"), ("reply", {"reply": "b"}))
    assert screen.shown == wrapped("a\n" * LINES + "\n(not the answer yet)\nb\n")


def test_a_status_line_is_shown_until_there_is_text() -> None:
    screen = Terminal()
    out = Screen(screen, io.StringIO())
    out.show(Message(1, *READING))
    assert screen.shown == "Reading t"
    out.show(Message(2, *token("Hi")))
    assert screen.shown == "Hi"
    out.show(Message(3, *THINKING))
    assert screen.shown == "Hi"


def test_a_pipe_gets_the_answer_and_nothing_else() -> None:
    out = io.StringIO()
    show(out, THINKING, token("Let me look."), RESET, READING, token("85 kg"), ("reply", {"reply": "85 kg\x1b[1m"}))
    assert out.getvalue() == "85 kg\x1b[1m\n"


@pytest.mark.parametrize("out", [io.StringIO, Terminal])
def test_a_stop_keeps_the_text_and_says_so(out: type[io.StringIO]) -> None:
    said = out()
    screen, errors = show(said, token("Once"), ("stopped", {}))
    assert (screen.stopped, screen.failed, screen.ended) == (True, False, True)
    assert (getattr(said, "shown", said.getvalue()), errors) == ("Once\n", "(stopped)\n")


def test_an_error_is_told_in_one_line_behind_the_text() -> None:
    out = io.StringIO()
    screen, errors = show(out, token("Once"), ("error", {"error": "It\nbroke.", "code": "x"}))
    assert (screen.failed, out.getvalue(), errors) == (True, "Once\n", "It broke.\n")


def test_a_turn_that_is_left_keeps_its_text_on_a_line_of_its_own() -> None:
    out = io.StringIO()
    screen, _ = show(out, token("Once"))
    assert not screen.ended
    assert out.getvalue() == "Once\n"


def test_unknown_events_are_passed_over() -> None:
    out = io.StringIO()
    show(out, ("proposal", {"id": "p"}), ("message", {}), ("reply", {"reply": "a"}))
    assert out.getvalue() == "a\n"


@given(st.text())
def test_no_answer_can_drive_the_terminal(text: str) -> None:
    assert all(character.isprintable() or character == "\n" or ord(character) > 0x9F for character in printable(text))


@given(texts)
def test_the_rows_of_a_text_are_those_that_it_takes(text: str) -> None:
    screen = Terminal()
    screen.write(text)
    assert rows(text, COLUMNS) == len(screen.lines)


@given(texts, st.integers(1, 12))
def test_a_fitting_text_is_as_much_of_a_line_as_there_is_room_for(text: str, columns: int) -> None:
    line, fits = text.partition("\n")[0], fitting(text, columns)
    assert line.startswith(fits)
    assert sum(map(cells, fits)) <= columns
    assert fits == line or sum(map(cells, line[: len(fits) + 1])) > columns
