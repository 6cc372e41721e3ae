"""The agent loop against a scripted model and fake tools."""

import asyncio
import gc
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from deckhand.agent import wording
from deckhand.agent.budget import Budget
from deckhand.agent.chat import DeadlineReached, Filtered, StepIdle, Usage
from deckhand.agent.loop import MAX_CUT_CALLS, MAX_SAME_FAILURES, Loop, LoopItem, Plan, StopFlag
from deckhand.agent.outcome import Outcome, Step
from deckhand.agent.toolbox import ToolResult
from deckhand.domain.conversation import Exchange
from deckhand.domain.errors import (
    AllowanceUsedUp,
    ContextFull,
    GatewayError,
    GatewayFailed,
    GatewayTimeout,
    GatewayUnreadable,
)
from deckhand.domain.events import Event
from tests.fakes import FakeGateway, FakeTools, Gate, Hang, asks, call, marks, says, until
from tests.stores import Clock

SYSTEM = [{"role": "system", "content": "Be brief."}]
FAILED = ToolResult('{"error":"no","code":"no_match"}', failed=True)


@dataclass
class Run:
    """One run of the loop and everything that it yielded."""

    gateway: FakeGateway
    tools: FakeTools
    clock: Clock = field(default_factory=Clock)
    stop: StopFlag = field(default_factory=StopFlag)
    items: list[LoopItem] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=lambda: [{"role": "user", "content": "hi"}])
    shorter: Callable[[], list[dict[str, Any]]] = list
    budget: Budget = field(default_factory=Budget)
    voice: bool = False
    cache: bool = True

    def loop(self) -> Loop:
        plan = Plan(
            system=SYSTEM,
            history=self.history,
            shorter=self.shorter,
            turn_id="t1",
            anchor=7,
            voice=self.voice,
            cache=self.cache,
        )
        return Loop(self.gateway, self.tools, self.budget, plan, stop=self.stop, clock=self.clock)

    async def outcome(self) -> Outcome:
        async for item in self.loop().run():
            self.items.append(item)
        outcomes = [item for item in self.items if isinstance(item, Outcome)]
        assert outcomes == self.items[-1:], "exactly one outcome, and nothing after it"
        return outcomes[0]

    @property
    def events(self) -> list[Event]:
        return [item for item in self.items if isinstance(item, Event)]

    @property
    def names(self) -> list[str]:
        return [event.data.get("phase", event.name) for event in self.events]

    @property
    def exchanges(self) -> list[Exchange]:
        return [item for item in self.items if isinstance(item, Exchange)]

    def visible(self) -> str:
        """The text that a client has on its screen at the end."""
        text = ""
        for event in self.events:
            text = "" if event.name == "reset" else text + event.data.get("text", "")
        return text


@pytest.fixture
def run() -> Iterator[Run]:
    run = Run(FakeGateway(), FakeTools())
    yield run
    run.gateway.verify()


def result_of(run: Run, index: int = -1, call_index: int = 0) -> Any:
    result = run.exchanges[index].calls[call_index].result
    assert result is not None
    return json.loads(result)


async def test_an_answer_in_text_is_streamed_as_it_comes_and_ends_the_turn(run: Run) -> None:
    run.gateway.script(says("Hel", "lo"))
    outcome = await run.outcome()
    assert (outcome.status, outcome.text, outcome.model, outcome.steps) == ("done", "Hello", "small-1", 1)
    assert [event.data for event in run.events] == [{"phase": "thinking"}, {"text": "Hel"}, {"text": "lo"}]


async def test_a_call_is_run_and_its_result_is_sent_back_with_it(run: Run) -> None:
    run.tools.add("find_note", '{"n":1}', card="notes", label="Looking")
    run.gateway.script(asks(call("find_note", {"q": "tea"})), says("One."))
    assert (await run.outcome()).text == "One."
    assert run.gateway.messages() == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "find_note", "arguments": '{"q":"tea"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": '{"n":1}'},
    ]
    assert run.events[1].data == {"phase": "tool", "tool": "find_note", "id": "notes", "label": "Looking"}


async def test_usage_is_summed_over_the_steps_and_stays_none_when_nothing_was_reported(run: Run) -> None:
    run.tools.add("find_note")
    run.gateway.script(asks(call("find_note"), usage=Usage(10, 2, 4, 6)), says("ok", usage=Usage(20, 3, 10, 0)))
    assert (await run.outcome()).usage == Usage(30, 5, 14, 6)
    silent = Run(FakeGateway(says("ok")), FakeTools())
    assert (await silent.outcome()).usage is None


async def test_each_step_reports_its_structure(run: Run) -> None:
    run.tools.add("find_note")
    run.gateway.script(asks(call("find_note"), text="Let me see."), says("ok"))
    await run.outcome()
    steps = [item for item in run.items if isinstance(item, Step)]
    assert [(step.number, step.finish, step.tools) for step in steps] == [
        (1, "tool_calls", ("find_note",)),
        (2, "stop", ()),
    ]


# -- calls


@pytest.mark.parametrize("finish", ["stop", "tool_calls", None, "eos", "something_new"])
async def test_case_6_whole_calls_run_whatever_the_finish_reason_says(run: Run, finish: str | None) -> None:
    run.tools.add("find_note")
    run.gateway.script(asks(call("find_note"), text="Checking. ", finish=finish), says("Found."))
    assert (await run.outcome()).text == "Found."
    assert run.tools.ended == ["c1"]
    assert run.exchanges[-1].text == "Checking. "


@pytest.mark.parametrize("arguments", ['{"path":"a.txt","text":"once upon', '{"text":"once"}'])
async def test_case_7_a_and_b_no_call_of_an_answer_that_was_cut_by_length_runs(run: Run, arguments: str) -> None:
    run.tools.add("write_note", mutates=True)
    cut = asks(call("write_note", '{"text":"whole"}', id="c0"), call("write_note", arguments), finish="length")
    run.gateway.script(cut, says("Smaller then."))
    outcome = await run.outcome()
    assert run.tools.began == []
    assert [json.loads(c.result or "")["code"] for c in run.exchanges[0].calls] == ["cut_off", "cut_off"]
    assert run.gateway.messages()[-1]["content"] == run.exchanges[0].calls[1].result
    assert (outcome.status, outcome.capped_by) == ("done", None)


async def test_case_7_cut_calls_are_answered_twice_a_turn_and_then_cap_it(run: Run) -> None:
    run.tools.add("write_note", mutates=True)
    run.gateway.script(*[asks(call("write_note", '{"a'), finish="length") for _ in range(MAX_CUT_CALLS + 1)])
    outcome = await run.outcome()
    assert (outcome.status, outcome.capped_by) == ("done", "size")
    assert len(run.exchanges) == MAX_CUT_CALLS
    assert outcome.shown() == wording.RESUME["size"]


async def test_case_7_c_broken_arguments_are_sent_back_as_an_empty_object(run: Run) -> None:
    run.tools.add("write_note", FAILED)
    run.gateway.script(asks(call("write_note", '{"path":"a.txt","text":"once upon')), says("Sorry."))
    await run.outcome()
    assert run.gateway.messages()[1]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert run.exchanges[-1].calls[0].arguments == '{"path":"a.txt","text":"once upon'


async def test_case_8_an_invented_tool_is_an_error_result_and_the_turn_goes_on(run: Run) -> None:
    run.tools.add("search_notes")
    run.gateway.script(asks(call("serach_notes")), asks(call("search_notes", id="c2")), says("Found."))
    assert (await run.outcome()).text == "Found."
    assert result_of(run, 0)["code"] == "unknown_tool"


async def test_case_8_a_cap_ends_calls_that_fail_the_same_way_again_and_again(run: Run) -> None:
    run.tools.add("find_note", FAILED)
    run.gateway.script(*[asks(call("find_note", {"q": "tea"})) for _ in range(MAX_SAME_FAILURES)])
    assert (await run.outcome()).capped_by == "early"


async def test_case_8_other_arguments_or_a_success_between_are_no_repetition(run: Run) -> None:
    run.tools.add("find_note", FAILED)
    run.gateway.script(*[asks(call("find_note", {"q": n})) for n in range(MAX_SAME_FAILURES + 1)], says("No luck."))
    assert (await run.outcome()).capped_by is None


async def test_case_9_a_call_in_text_never_runs_and_a_real_one_is_asked_for_once(run: Run) -> None:
    run.tools.add("delete_note", mutates=True)
    markup = '<tool_call>{"name":"delete_note","arguments":{"id":"n1"}}</tool_call>'
    run.gateway.script(says(markup[:30], markup[30:]), says("Shall I?"))
    outcome = await run.outcome()
    assert run.tools.began == []
    assert (outcome.text, run.visible()) == ("Shall I?", "Shall I?")
    assert run.gateway.messages()[-1] == {"role": "user", "content": wording.CALL_AS_TEXT}
    assert run.exchanges == []


async def test_case_9_a_call_in_text_again_is_a_plain_error_and_nothing_of_it_is_kept(run: Run) -> None:
    run.tools.add("delete_note", mutates=True)
    markup = '<tool_call>{"name":"delete_note","arguments":{"id":"n1"}}</tool_call>'
    run.gateway.script(says(markup), says(markup))
    outcome = await run.outcome()
    assert (outcome.status, outcome.text, run.visible()) == ("failed", "", "")
    assert outcome.error is not None
    assert outcome.error.as_body() == {"error": wording.CALL_AS_TEXT_FAILED, "code": "gateway_failed"}


async def test_case_9_text_that_quotes_a_call_in_a_code_block_is_left_alone(run: Run) -> None:
    run.tools.add("delete_note")
    text = 'Write it like this:\n```\n<tool_call>{"name":"delete_note","arguments":{}}</tool_call>\n```'
    run.gateway.script(says(text))
    assert (await run.outcome()).text == text


async def test_cases_10_and_21_a_opaque_fields_go_back_on_the_call_and_on_the_message(run: Run) -> None:
    run.tools.add("find_note")
    signature = {"google": {"thought_signature": "c2ln"}}
    asked = asks(call("find_note", extra_content=signature), extra={"reasoning_content": "r1"})
    run.gateway.script(asked, says("ok"))
    await run.outcome()
    sent = run.gateway.messages()[1]
    assert sent["reasoning_content"] == "r1"
    assert sent["tool_calls"][0]["extra_content"] == signature
    assert run.exchanges[-1].extra == {"reasoning_content": "r1"}
    assert run.exchanges[-1].calls[0].extra == {"extra_content": signature}


async def test_reads_of_one_step_run_side_by_side_and_their_results_keep_the_calls_order(run: Run) -> None:
    gates = {"c1": Gate(), "c2": Gate(), "c3": Gate()}
    run.tools.add("find_note", gates=gates)
    run.gateway.script(asks(*[call("find_note", {"n": n}, id=f"c{n}") for n in (1, 2, 3)]), says("ok"))
    running = asyncio.create_task(run.outcome())
    for gate in gates.values():
        await gate.reached()
    for name in ("c3", "c1", "c2"):
        gates[name].open()
        await until(partial(run.tools.ended.count, name))
    await running
    assert run.tools.ended == ["c3", "c1", "c2"]
    assert [m["tool_call_id"] for m in run.gateway.messages() if m["role"] == "tool"] == ["c1", "c2", "c3"]


async def test_what_changes_something_runs_alone_and_in_its_place(run: Run) -> None:
    gates = {"r1": Gate(), "w2": Gate()}
    run.tools.add("find_note", gates=gates)
    run.tools.add("write_note", gates=gates, mutates=True)
    calls = [call("find_note", id="r1"), call("write_note", id="w2"), call("find_note", id="r3")]
    run.gateway.script(asks(*calls), says("ok"))
    running = asyncio.create_task(run.outcome())
    await gates["r1"].reached()
    assert run.tools.began == ["r1"]
    gates["r1"].open()
    await gates["w2"].reached()
    assert run.tools.began == ["r1", "w2"]
    gates["w2"].open()
    await running
    assert run.tools.ended == ["r1", "w2", "r3"]


async def test_a_step_that_changes_something_is_told_before_it_runs(run: Run) -> None:
    run.tools.add("write_note", mutates=True)
    run.gateway.script(asks(call("write_note")), says("ok"))
    await run.outcome()
    before, after = run.exchanges
    assert (before.anchor, before.turn_id, before.step) == (7, "t1", 1)
    assert (before.calls[0].result, after.calls[0].result) == (None, '{"ok":true}')
    assert run.items.index(before) < next(
        n for n, item in enumerate(run.items) if isinstance(item, Event) and item.data.get("phase") == "tool"
    )


async def test_a_step_that_only_reads_is_told_once(run: Run) -> None:
    run.tools.add("find_note")
    run.gateway.script(asks(call("find_note")), says("ok"))
    await run.outcome()
    assert len(run.exchanges) == 1


async def test_a_card_that_was_created_and_then_changed_counts_as_created(run: Run) -> None:
    run.tools.add("create", ToolResult("{}", changes=({"id": "mood", "change": "created"},)), mutates=True)
    run.tools.add("append", ToolResult("{}", changes=({"id": "mood", "change": "changed"},)), mutates=True)
    run.gateway.script(asks(call("create")), asks(call("append", id="c2")), says("ok"))
    outcome = await run.outcome()
    assert outcome.changes == {"mood": "created"}
    assert outcome.tools == ("create", "append")


# -- reset


async def test_text_before_calls_is_dropped_by_a_reset(run: Run) -> None:
    run.tools.add("find_note")
    run.gateway.script(asks(call("find_note"), text="Let me see."), says("Found."))
    await run.outcome()
    assert run.names == ["thinking", "token", "reset", "tool", "thinking", "token"]
    assert run.visible() == "Found."


async def test_without_shown_text_there_is_no_reset(run: Run) -> None:
    run.tools.add("find_note")
    run.gateway.script(asks(call("find_note")), asks(call("find_note"), finish="length"), says("Found."))
    await run.outcome()
    assert "reset" not in run.names


async def test_a_cut_call_drops_its_text_and_a_stop_after_it_keeps_nothing(run: Run) -> None:
    run.tools.add("find_note")
    run.gateway.script([*asks(call("find_note"), text="Let me see.", finish="length")])
    async for item in run.loop().run():
        run.items.append(item)
        if isinstance(item, Exchange):
            run.stop.set()
    outcome = run.items[-1]
    assert isinstance(outcome, Outcome)
    assert (outcome.status, outcome.text, run.visible()) == ("stopped", "", "")


# -- voice


async def test_a_voice_turn_shows_no_tokens_and_no_resets(run: Run) -> None:
    run.voice = True
    run.tools.add("find_note")
    run.gateway.script(asks(call("find_note"), text="Hm."), says('{"speak":"Hi","display":"Hi!"}'))
    outcome = await run.outcome()
    assert run.names == ["thinking", "tool", "thinking"]
    assert outcome.text == '{"speak":"Hi","display":"Hi!"}'


async def test_a_voice_turn_that_is_stopped_or_cut_keeps_no_half_envelope(run: Run) -> None:
    run.voice = True
    run.gateway.script(['{"speak":"H', GatewayFailed()])
    outcome = await run.outcome()
    assert (outcome.status, outcome.text, outcome.interrupted) == ("failed", "", False)


# -- how a step can end badly


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AllowanceUsedUp(), "allowance_used_up"),
        (GatewayFailed(), "gateway_failed"),
        (GatewayUnreadable(), "gateway_unreadable"),
        (GatewayTimeout(), "gateway_timeout"),
        (GatewayError(), "gateway_failed"),
    ],
)
async def test_an_error_of_the_gateway_fails_the_turn_with_its_code(run: Run, error: GatewayError, code: str) -> None:
    run.gateway.script([error])
    outcome = await run.outcome()
    assert outcome.error is not None
    assert (outcome.status, outcome.text, outcome.error.code, outcome.interrupted) == ("failed", "", code, False)


async def test_a_cut_stream_after_visible_text_keeps_the_text_as_interrupted(run: Run) -> None:
    run.gateway.script(["Half of ", GatewayFailed()])
    outcome = await run.outcome()
    assert (outcome.status, outcome.text, outcome.interrupted) == ("failed", "Half of ", True)


async def test_a_stream_that_ends_without_an_answer_is_a_failure(run: Run) -> None:
    run.gateway.script(["Half"])
    outcome = await run.outcome()
    assert (outcome.status, outcome.text) == ("failed", "Half")


async def test_idle_before_any_text_answers_with_the_timeout_copy(run: Run) -> None:
    run.gateway.script([StepIdle()])
    outcome = await run.outcome()
    assert (outcome.status, outcome.text, outcome.interrupted) == ("done", wording.STEP_IDLE, False)


async def test_idle_after_text_keeps_it_with_a_notice_as_interrupted(run: Run) -> None:
    run.gateway.script(["Half of it ", StepIdle()])
    outcome = await run.outcome()
    assert (outcome.status, outcome.interrupted) == ("done", True)
    assert outcome.text == f"Half of it\n\n{wording.STEP_IDLE_AFTER_TEXT}"


@pytest.mark.parametrize(
    ("finish", "cause"), [("length", "size"), ("tomorrow", "early"), ("malformed_function_call", "early")]
)
async def test_an_answer_that_was_cut_is_capped_by_its_cause(run: Run, finish: str, cause: str) -> None:
    run.gateway.script(says("Once upon", finish=finish))
    outcome = await run.outcome()
    assert (outcome.status, outcome.capped_by, outcome.text) == ("done", cause, "Once upon")
    assert outcome.shown().startswith("Once upon\n\n")


@pytest.mark.parametrize("finish", ["stop", None, "end_turn"])
async def test_an_answer_that_ends_normally_is_not_capped(run: Run, finish: str | None) -> None:
    run.gateway.script(says("All.", finish=finish))
    assert (await run.outcome()).capped_by is None


async def test_an_empty_answer_says_so(run: Run) -> None:
    run.gateway.script(says(" \n"))
    outcome = await run.outcome()
    assert (outcome.status, outcome.text) == ("done", wording.EMPTY)


async def test_an_empty_answer_after_calls_shows_the_text_that_came_with_them(run: Run) -> None:
    run.tools.add("write_note", mutates=True)
    run.gateway.script(asks(call("write_note"), text="I have logged it."), says(""))
    assert (await run.outcome()).text == "I have logged it."


async def test_case_22_a_a_filtered_answer_is_marked_and_not_asked_for_again(run: Run) -> None:
    run.gateway.script(says("It is ", finish="content_filter"))
    outcome = await run.outcome()
    assert (outcome.status, outcome.filtered) == ("done", True)
    assert outcome.text == f"It is\n\n{wording.FILTERED}"


async def test_case_22_a_calls_of_a_filtered_answer_do_not_run(run: Run) -> None:
    run.tools.add("write_note", mutates=True)
    run.gateway.script(asks(call("write_note"), finish="content_filter"))
    assert (await run.outcome()).filtered
    assert run.tools.began == []


async def test_case_22_b_a_filtered_request_is_a_notice(run: Run) -> None:
    run.gateway.script([Filtered()])
    outcome = await run.outcome()
    assert (outcome.status, outcome.filtered, outcome.text) == ("done", True, wording.FILTERED)


async def test_the_step_cap_ends_the_turn_with_what_was_said_on_the_way(run: Run) -> None:
    run.budget = Budget(steps=2)
    run.tools.add("find_note")
    run.gateway.script(*[asks(call("find_note", {"n": n}), text=f"Looking, {n}.") for n in range(2)])
    outcome = await run.outcome()
    assert (outcome.status, outcome.capped_by, outcome.text, outcome.steps) == ("done", "steps", "Looking, 1.", 2)


async def test_the_deadline_between_steps_caps_the_turn(run: Run) -> None:
    run.budget = Budget(turn_s=60.0)
    run.tools.add("find_note")
    run.gateway.script([lambda: run.clock.__setattr__("time", run.clock.time + 60), *asks(call("find_note"))])
    assert (await run.outcome()).capped_by == "deadline"


async def test_the_deadline_within_a_step_keeps_the_text_so_far(run: Run) -> None:
    run.gateway.script(["Half of ", DeadlineReached()])
    outcome = await run.outcome()
    assert (outcome.status, outcome.capped_by, outcome.text) == ("done", "deadline", "Half of ")


async def test_each_step_is_given_what_is_left_of_the_turn(run: Run) -> None:
    run.budget = Budget(idle_s=600.0, turn_s=100.0)
    run.tools.add("find_note")
    run.gateway.script([lambda: run.clock.__setattr__("time", run.clock.time + 30), *asks(call("find_note"))], says(""))
    await run.outcome()
    limits = [request.limits for request in run.gateway.requests]
    assert [limit.deadline for limit in limits] == [100.0, 70.0]
    assert limits[0].idle == 535.0, "an idle limit over the hard ceiling would end a call as a 504"


def test_limits_that_are_switched_off_are_none() -> None:
    limits = Budget(idle_s=None, turn_s=None).step_limits(10_000)
    assert (limits.idle, limits.deadline, limits.ceiling) == (None, None, 540.0)


async def test_case_18_a_full_context_is_tried_again_once_with_a_shorter_history(run: Run) -> None:
    run.history = [{"role": "user", "content": "old"}, {"role": "user", "content": "hi"}]
    run.shorter = lambda: run.history[-1:]
    run.gateway.script([ContextFull()], says("ok"))
    assert (await run.outcome()).text == "ok"
    assert run.gateway.messages() == [{"role": "user", "content": "hi"}]


async def test_case_18_a_context_that_is_still_full_is_told(run: Run) -> None:
    run.shorter = lambda: [{"role": "user", "content": "hi"}]
    run.gateway.script([ContextFull()], [ContextFull()])
    outcome = await run.outcome()
    assert outcome.error is not None
    assert (outcome.status, outcome.error.code) == ("failed", "context_full")


async def test_a_shorter_history_keeps_the_calls_of_this_turn(run: Run) -> None:
    run.history = [{"role": "user", "content": "old"}, {"role": "user", "content": "hi"}]
    run.shorter = lambda: run.history[-1:]
    run.tools.add("find_note")
    run.gateway.script(asks(call("find_note")), [ContextFull()], says("ok"))
    await run.outcome()
    assert [message["role"] for message in run.gateway.messages()] == ["user", "assistant", "tool"]


# -- stop


async def test_a_stop_before_the_first_step_asks_nothing(run: Run) -> None:
    run.stop.set()
    outcome = await run.outcome()
    assert (outcome.status, outcome.text, run.events) == ("stopped", "", [])


async def test_a_stop_while_the_gateway_hangs_cancels_the_call(run: Run) -> None:
    gate = Gate()
    gate.open()
    run.gateway.script([gate, Hang()])
    running = asyncio.create_task(run.outcome())
    await gate.reached()
    run.stop.set()
    outcome = await running
    assert (outcome.status, outcome.text, run.gateway.closed) == ("stopped", "", 1)


async def test_case_30_a_a_stop_in_the_text_keeps_it(run: Run) -> None:
    gate = Gate()
    run.gateway.script(["One, ", "two, ", gate, "three"])
    running = asyncio.create_task(run.outcome())
    await gate.reached()
    run.stop.set()
    outcome = await running
    assert (outcome.status, outcome.text) == ("stopped", "One, two, ")


async def test_case_30_c_a_stop_between_calls_gives_the_others_a_result_that_they_were_not_run(run: Run) -> None:
    gates = {"c1": Gate()}
    run.tools.add("write_note", gates=gates, mutates=True)
    run.gateway.script(asks(call("write_note", id="c1"), call("write_note", id="c2"), text="Writing."))
    running = asyncio.create_task(run.outcome())
    await gates["c1"].reached()
    run.stop.set()
    gates["c1"].open()
    outcome = await running
    assert run.tools.began == ["c1"]
    assert [result_of(run, -1, 0), result_of(run, -1, 1)["code"]] == [{"ok": True}, "stopped"]
    assert (outcome.status, outcome.text) == ("stopped", ""), "the text before the calls was dropped by a reset"


async def test_a_stop_that_comes_with_a_failure_leaves_no_unseen_exception(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    def stop_and_fail() -> None:
        run.stop.set()
        raise GatewayFailed()

    run.gateway.script([stop_and_fail])
    assert (await run.outcome()).status in ("stopped", "failed")
    gc.collect()
    await asyncio.sleep(0)
    assert "never retrieved" not in caplog.text


# -- what is sent


async def test_case_27_a_rolling_mark_is_set_on_one_message_and_never_kept(run: Run) -> None:
    run.tools.add("find_note")
    calls = [call("find_note", {"n": n}, id=f"c{n}") for n in (1, 2, 3)]
    run.gateway.script(asks(*calls), asks(*calls), says("ok"))
    await run.outcome()
    assert [marks(request.messages) for request in run.gateway.requests] == [1, 1, 1]


async def test_without_a_prompt_cache_nothing_is_marked(run: Run) -> None:
    run.cache = False
    run.gateway.script(says("ok"))
    await run.outcome()
    assert marks(run.gateway.requests[0].messages) == 0


async def test_a_run_that_is_cancelled_closes_its_call(run: Run) -> None:
    gate = Gate()
    gate.open()
    run.gateway.script(["One", gate, Hang()])
    running = asyncio.create_task(run.outcome())
    await gate.reached()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert run.gateway.closed == 1
