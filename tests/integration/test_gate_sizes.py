"""Calls that are large, or many: they wait or are refused, and never break a turn."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from deckhand.agent.chat import ToolCall
from deckhand.agent.tools import MAX_PROPOSED_BYTES
from deckhand.operations.execution import perform
from deckhand.storage.port import Item, ItemStore, Key, Op
from tests.fakes import asks, call, says
from tests.gated import DONE, WEIGHTS, Gated, delete, gated, remove, rewritten
from tests.stores import EachCall


def empty_texts(bytes_: int, *, id: str = "c1") -> ToolCall:
    """A replacement whose arguments are so long: quotes only, which grow when a JSON text is put into another."""
    return call("write_manifest_data", {"id": "weight", "data": quotes(bytes_)}, id=id)


def quotes(bytes_: int) -> list[str]:
    return [""] * ((bytes_ - 40) // 3)


@pytest.mark.parametrize(
    "large",
    [empty_texts(180_000), empty_texts(290_000), delete("w" * 150_000), empty_texts(MAX_PROPOSED_BYTES + 200)],
    ids=["quotes", "more quotes", "a long id", "just too long"],
)
def test_a_call_that_is_too_large_to_wait_is_refused_and_the_turn_goes_on(api: Gated, large: ToolCall) -> None:
    assert api.say("Go on.", asks(large), says("That is too much.")).body["reply"] == "That is too much."
    assert api.told()[0]["code"] == "too_large"
    assert (api.open(), api.rows("weight")) == ([], WEIGHTS)


def test_a_call_for_a_card_of_a_long_name_waits_with_a_short_summary(api: Gated) -> None:
    answer = api.say("Go on.", asks(delete("w" * 50_000)))
    assert answer.status == 200
    assert len(answer.body["proposals"][0]["summary"]) < 200


def test_of_ninety_nine_calls_some_wait_and_the_others_are_not_run(api: Gated) -> None:
    answer = api.say("Go on.", asks(*[remove(id=f"c{n}") for n in range(99)]))
    assert answer.status == 200
    waiting = [one["id"] for one in answer.body["proposals"]]
    assert len(waiting) == 10
    assert api.rows("weight") == WEIGHTS
    api.gateway.script(DONE)
    assert api.decide(*({"id": id, "decision": "reject"} for id in waiting)).body["reply"] == "Done."
    assert [one.get("code", one.get("status")) for one in api.told()] == ["rejected"] * 10 + ["not_run"] * 89


def test_as_many_calls_as_may_wait_may_each_be_as_large_as_they_may(api: Gated) -> None:
    answer = api.say("Go on.", asks(*[empty_texts(MAX_PROPOSED_BYTES, id=f"c{n}") for n in range(10)]))
    assert answer.status == 200
    waiting = [one["id"] for one in answer.body["proposals"]]
    assert len(waiting) == len(api.open()) == 10
    api.gateway.script(DONE)
    assert api.decide(*({"id": id, "decision": "reject"} for id in waiting)).body["reply"] == "Done."


def test_a_large_call_streams(api: Gated) -> None:
    frames = api.say("Go on.", asks(empty_texts(MAX_PROPOSED_BYTES)), stream=True).frames
    [shown] = [frame.data for frame in frames if frame.name == "proposal"]
    assert len(shown["arguments"]["data"]) == len(quotes(MAX_PROPOSED_BYTES))
    assert frames[-1].data["status"] == "awaiting_confirmation"


def test_other_arguments_that_are_too_large_are_refused_before_anything_is_done(api: Gated) -> None:
    [proposal] = api.propose(call("write_manifest_data", {"id": "weight", "data": ["x"]}))
    for size in (MAX_PROPOSED_BYTES, 300_000, 408_200):
        assert api.confirm(proposal, arguments={"id": "weight", "data": ["x" * size]}).refusal == (
            413,
            "body_too_large",
        )
    assert api.rows("weight") == WEIGHTS
    assert [one["state"] for one in api.open()] == ["proposed"]


def test_other_arguments_may_be_as_large_as_the_ones_that_they_replace(api: Gated) -> None:
    [proposal] = api.propose(empty_texts(MAX_PROPOSED_BYTES))
    other = quotes(MAX_PROPOSED_BYTES)
    other[0] = "x"
    answer = api.confirm(proposal, DONE, arguments={"id": "weight", "data": other[:-1]})
    assert answer.status == 200, answer.content
    assert api.rows("weight") == other[:-1]
    assert api.told()[0].get("truncated") or api.told()[0]["result"]["ok"]


def test_a_large_row_of_other_arguments_is_written_or_refused_and_never_lost_sight_of(api: Gated) -> None:
    api("POST", "/api/manifests/weight/rows", {"value": {"date": "2026-04-16", "tags": ["a", "b"]}})
    changes: dict[str, Any] = {"tags": ["a"]}
    [proposal] = api.propose(call("update_row", {"id": "weight", "path": "[index=2]", "changes": changes}))
    edited = {"id": "weight", "path": "[index=2]", "changes": {**changes, "note": "x" * 59_000}}
    assert api.confirm(proposal, DONE, arguments=edited).status == 200
    assert len((api.rows("weight") or [])[2]["note"]) == 59_000
    assert api.open() == []


# -- what asking costs


class Counting(EachCall):
    """Counts requests, but for those that come by the clock: batches of the log, and looks at the lease."""

    def __init__(self, inner: ItemStore) -> None:
        super().__init__(inner)
        self.count = 0

    def at(self, call: Callable[[], Any]) -> Any:
        self.count += 1
        return call()

    def get(self, key: Key) -> Item | None:
        self.count -= key.sk == "head"
        return super().get(key)

    def write(self, ops: Sequence[Op], *, token: str) -> None:
        self.count -= all(op.key.sk.startswith("e#") for op in ops)
        super().write(ops, token=token)


def cost(counting: Counting, act: Callable[[], object], settle: Callable[[], None]) -> int:
    began = counting.count
    act()
    settle()
    return counting.count - began


@pytest.mark.parametrize(
    "asked",
    [
        remove(),
        delete(),
        call("update_row", {"id": "weight", "path": "[index=0]", "changes": {"doses": None}}),
        call("write_manifest_data", {"id": "weight", "data": WEIGHTS[:1]}),
        call("rename_data_field", {"id": "weight", "from_key": "kg", "to_key": "kilos"}),
        call("patch_manifest", {"id": "weight", "patch": {"meta": {"writeable": {"fromWebapp": False}}}}),
    ],
    ids=lambda asked: str(asked.name),
)
def test_a_gated_write_costs_at_most_three_requests_more_than_a_free_one(store: ItemStore, asked: ToolCall) -> None:
    """Beside the turn that goes on, which costs what a turn costs that calls nothing."""
    counting, costs = Counting(store), dict[str, int]()
    for switch, card in (("none", "sleep"), ("destructive", "weight")):
        there = ToolCall(asked.id, asked.name, asked.arguments.replace("weight", card))
        with gated(counting, card, CONFIRM_WRITES=switch) as api:
            rows = api("GET", f"/api/manifests/{card}/rows").body["rows"]
            changes = {"changes": {"doses": [1]}}
            assert api("PATCH", f"/api/manifests/{card}/rows/{rows[0]['rowId']}", changes).status == 200
            if switch == "none":
                costs["plain"] = cost(counting, lambda: api.say("Hello.", DONE), api.settle)
                costs["free"] = cost(counting, lambda: api.say("Do it.", asks(there), DONE), api.settle)  # noqa: B023
                continue
            costs["plain"] = min(costs["plain"], cost(counting, lambda: api.say("Hello.", DONE), api.settle))
            proposals = list[str]()
            costs["gated"] = cost(counting, lambda: proposals.extend(api.propose(there)), api.settle)  # noqa: B023
            assert len(proposals) == 1
            costs["gated"] += cost(counting, lambda: api.confirm(proposals[0], DONE), api.settle)  # noqa: B023
            assert api.told()[-1].get("ok") is True
    assert costs["gated"] - costs["free"] - costs["plain"] <= 3, costs


def test_rows_that_were_written_for_a_yes_that_another_process_took_over_are_dropped(
    api: Gated, store: ItemStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    [proposal] = api.propose(call("write_manifest_data", {"id": "weight", "data": []}))

    def taken_over(*given: Any, **more: Any) -> Any:
        rewritten(store, proposal, state="proposed")
        return perform(*given, **more)

    monkeypatch.setattr("deckhand.turns.decision.perform", taken_over)
    assert api.confirm(proposal).refusal == (409, "already_decided")
    assert api.rows("weight") == WEIGHTS
    assert len(api.work("drop_rows")) == 1
