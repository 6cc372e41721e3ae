"""The confirm gate at the terminal: what waits is shown whole, the person is asked, and the turn goes on."""

import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from infra.local.api_client import Api, ApiError, Decision, conversation_of
from infra.local.question import LATER, Read, Verdict, ask, whole
from infra.local.screen import Screen
from infra.local.watcher import Watcher

LEFT = "Left open. /waiting asks again, and so do /open N and deckhand chat --continue."
NOBODY = "Nothing of this is done yet: deckhand chat --confirm ID, or --reject ID."
INVALID = 422
GONE = (403, 404, 410)
Proposals = Sequence[Mapping[str, Any]]


class Gate:
    """`read` is None where nobody can be asked: what waits is printed then, with its id. `waits`: whether it is so."""

    def __init__(self, api: Api, watcher: Watcher, read: Read | None) -> None:
        self._api, self._watcher, self._read = api, watcher, read
        self.waits = False

    def settle(self, conversation: str, screen: Screen) -> Screen:
        """Asks about what a turn waits for, and about what its next one does; gives the last that was shown."""
        return self._settle(conversation, screen.waiting) or screen

    def ask_again(self, conversation: str, found: Proposals) -> None:
        """Asks about what a conversation waits for, turn by turn."""
        waiting = [one for one in found if one["state"] == "proposed"]
        if len(waiting) < len(found):
            print("Something that was agreed to is being done now.", file=sys.stderr)
        waits = False
        for _, of_one_turn in groupby(waiting, key=lambda one: one["turnId"]):
            self._settle(conversation, [*of_one_turn])
            waits |= self.waits
        self.waits = waits

    def decide(self, proposal: str, verdict: Decision, more: Mapping[str, Any]) -> Screen:
        """One by its id; then asks about what its turn still waits for. Raises ApiError."""
        conversation = conversation_of(proposal)
        screen = self._watcher.show(conversation, self._api.decide(proposal, verdict, more))
        screen.waiting = self._still(conversation, screen)
        return self.settle(conversation, screen)

    def _settle(self, conversation: str, waiting: Proposals) -> Screen | None:
        """What the last decision showed; None when there was none."""
        screen: Screen | None = None
        while waiting:
            if self._read is None:
                print("\n".join([*(whole(one, named=True) for one in waiting), NOBODY]))
                break
            shown, left = self._ask_all(waiting, self._read)
            screen = shown or screen
            if left:
                print(LEFT)
                waiting = left
                break
            waiting = self._still(conversation, shown) if shown else ()
        self.waits = bool(waiting)
        return screen

    def _still(self, conversation: str, screen: Screen) -> list[dict[str, Any]]:
        """What the last decision showed to wait: of the turn that goes on, or of the same one."""
        if not screen.still:
            return screen.waiting
        found = self._api.proposals(conversation)
        return [one for one in found if one["id"] in screen.still and one["state"] == "proposed"]

    def _ask_all(self, waiting: Proposals, read: Read) -> tuple[Screen | None, list[Mapping[str, Any]]]:
        """What the last decision showed (None when none came through), and what was left open."""
        shown: Screen | None = None
        left: list[Mapping[str, Any]] = []
        for at, proposal in enumerate(waiting):
            print(whole(proposal))
            try:
                decided = self._ask(proposal, read)
            except EOFError:
                print()
                return shown, [*left, *waiting[at:]]
            if decided is LATER:
                left.append(proposal)
            elif isinstance(decided, Screen):
                shown = decided
                if not decided.still:
                    # The turn has gone on: what else it asked for is not open any more.
                    return shown, []
        return shown, left

    def _ask(self, proposal: Mapping[str, Any], read: Read) -> Screen | Verdict | None:
        """What a decision showed, `LATER`, or None where it was refused."""
        while True:
            verdict = ask(proposal, read)
            if verdict.decision == "later":
                return LATER
            events = self._api.decide(str(proposal["id"]), verdict.decision, verdict.more)
            try:
                return self._watcher.show(conversation_of(str(proposal["id"])), events)
            except ApiError as refused:
                print(refused, file=sys.stderr)
                if refused.status != INVALID:
                    return None if refused.outcome or refused.status in GONE else LATER
                if verdict.more.get("arguments") is not None:
                    print(whole(proposal))
