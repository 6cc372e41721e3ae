"""The question whether a proposed call may run: how it is put to a person, and what their answer means."""

import contextlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Literal

from deckhand.domain.errors import InvalidJson
from deckhand.domain.json_text import dumps, loads
from infra.local.terminal_text import one_line, unhidden

QUESTION = "Do it? [y]es, [n]o, [e]dit arguments, [l]ater: "
REASON = "Why not? (Enter gives no reason): "
ARGUMENTS = "Arguments as one line of JSON (Enter leaves them as they are): "
INDENT, ONE_LINE = " " * 4, 64


@dataclass(frozen=True)
class Verdict:
    """`more` are the fields that go with it: `arguments` or `reason`."""

    decision: Literal["confirm", "reject", "later"]
    more: Mapping[str, Any]


LATER = Verdict("later", {})
Read = Callable[[str, str], str]
"""Shows a prompt, and a text to start from, and gives the line that was typed. Raises KeyboardInterrupt, EOFError."""


def whole(proposal: Mapping[str, Any], zone: tzinfo | None = None, *, named: bool = False) -> str:
    """A proposal in full, nothing of it hidden. `zone`: of the time until which it waits, None for this machine's.
    `named`: with its id.
    """
    lines = [
        one_line(str(proposal["summary"])),
        f"  tool: {one_line(str(proposal['tool']))}",
        *(f"  id: {one_line(str(proposal['id']))}" for _ in range(named)),
        _field("arguments", proposal["arguments"]),
        *(_field("changes", proposal["target"]) for _ in range("target" in proposal)),
        f"  until: {_local(str(proposal['expiresAt']), zone)}",
    ]
    return "\n".join(lines)


def _field(name: str, value: Any) -> str:
    short = unhidden(json.dumps(value, ensure_ascii=False))
    tall = unhidden(json.dumps(value, ensure_ascii=False, indent=2)).replace("\n", f"\n{INDENT}")
    return f"  {name}: {short}" if len(short) <= ONE_LINE else f"  {name}:\n{INDENT}{tall}"


def ask(proposal: Mapping[str, Any], read: Read) -> Verdict:
    """Until the answer is one. Other arguments are shown and asked about once more: what runs is what was read last.
    Ctrl-C is «later»; raises EOFError at the end of the input.
    """
    wanted = proposal
    while True:
        try:
            answer = read(QUESTION, "").strip().lower()
            if answer in ("y", "yes"):
                return Verdict("confirm", {} if wanted is proposal else {"arguments": wanted["arguments"]})
            if answer in ("n", "no"):
                reason = _text(read(REASON, "")).strip()
                return Verdict("reject", {"reason": reason} if reason else {})
            if answer in ("e", "edit"):
                before, wanted = wanted, _edited(proposal, wanted, read)
                if wanted is not before:
                    print(whole(wanted))
            elif answer in ("l", "later"):
                return LATER
        except KeyboardInterrupt:
            print()
            return LATER
        except UnicodeDecodeError:
            print("This line is not in the terminal's encoding.", file=sys.stderr)
        except InvalidJson as invalid:
            print(invalid, file=sys.stderr)


def _edited(proposal: Mapping[str, Any], wanted: Mapping[str, Any], read: Read) -> Mapping[str, Any]:
    """`wanted` itself where its arguments stay, `proposal` itself where they are the proposed ones again. Raises
    InvalidJson.
    """
    start = unhidden(dumps(wanted["arguments"]))
    typed = read(ARGUMENTS, start).strip()
    arguments = wanted["arguments"] if typed in ("", start) else parsed(typed)
    for known in (wanted, proposal):
        if dumps(arguments) == dumps(known["arguments"]):
            return known
    # What other arguments would change was looked up by nobody.
    return {**{name: value for name, value in proposal.items() if name != "target"}, "arguments": arguments}


def parsed(line: str) -> dict[str, Any]:
    """Raises InvalidJson."""
    try:
        given = loads(line)
    except InvalidJson as invalid:
        told = str(invalid)
        raise InvalidJson("This is not valid JSON." if told == InvalidJson.sentence else told) from None
    if not isinstance(given, dict):
        raise InvalidJson('Arguments are one object: {"name": value}.')
    return given


def read_line(prompt: str, start: str) -> str:
    """From the terminal, with `start` to edit where the terminal can."""
    with contextlib.ExitStack() as after:
        with contextlib.suppress(ImportError):
            import readline

            readline.set_startup_hook(lambda: readline.insert_text(start))
            after.callback(readline.set_startup_hook)
            # Its answers are no lines to come back to.
            readline.set_auto_history(False)
            after.callback(readline.set_auto_history, True)
        return input(prompt)


def _text(typed: str) -> str:
    """What the terminal sent need not be UTF-8."""
    return typed.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _local(instant: str, zone: tzinfo | None) -> str:
    try:
        return datetime.fromisoformat(instant).astimezone(zone).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return one_line(instant)
