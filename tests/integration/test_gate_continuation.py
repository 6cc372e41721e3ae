"""How a turn goes on after the last decision: once, whoever decides when, and never before."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from deckhand.domain.errors import AllowanceUsedUp, DeckhandError, GatewayFailed, StorageUnavailable
from deckhand.edge import proposals as edge_proposals
from deckhand.edge.proposals import ProposalRoutes
from deckhand.storage.conversations import Owner
from deckhand.storage.port import ItemStore
from deckhand.storage.proposals import Proposals
from deckhand.turns.chat import Chats
from deckhand.turns.decision import Decisions
from deckhand.turns.finish import LeaseLost, finish_turn
from deckhand.turns.sweep import sweep
from tests.api import Answer
from tests.fakes import PATIENCE_S, Gate, asks, says
from tests.faults import Killed
from tests.gated import DONE, PROPOSALS, WEIGHTS, Gated, Make, read, remove, rewritten, run_out

KEY = {"Idempotency-Key": "k"}


@pytest.fixture
def api(make: Make) -> Gated:
    return make("weight", "sleep")


def two(api: Gated) -> tuple[str, str]:
    first, second = api.propose(remove(), remove("sleep", id="c2"))
    return first, second


def goes_on_no_more(api: Gated, act: Callable[[], Answer]) -> Answer:
    """Neither the request itself nor a job that it leaves asks the model again."""
    asked = len(api.gateway.requests)
    answer = act()
    api.work("continued_turn")
    assert len(api.gateway.requests) == asked
    return answer


# -- what starts nothing


def test_a_decision_that_cannot_be_used_starts_nothing(api: Gated) -> None:
    [proposal] = api.propose(remove())
    verdict = {"id": proposal, "decision": "confirm", "arguments": {"bad": 1}}
    answer = goes_on_no_more(api, lambda: api.decide(verdict))
    assert (answer.status, answer.body["status"], answer.body["open"]) == (200, "awaiting_confirmation", [proposal])
    assert answer.body["decisions"][0]["code"] == "invalid"
    assert api.confirm(proposal, DONE).body["reply"] == "Done."


def test_a_decision_of_who_may_not_starts_nothing(api: Gated) -> None:
    viewer = api.token("viewer")
    [proposal] = api.propose(remove())
    answer = goes_on_no_more(api, lambda: api.decide({"id": proposal, "decision": "confirm"}, token=viewer))
    assert answer.body["decisions"][0]["code"] == "forbidden"
    assert [one["id"] for one in api.open()] == [proposal]
    assert api.rows("weight") == WEIGHTS


# -- once


def test_the_same_decisions_again_start_no_other_turn(api: Gated) -> None:
    [proposal] = api.propose(remove())
    api.confirm(proposal, DONE)
    api.say("Hello.", says("Hi."))
    answer = goes_on_no_more(api, lambda: api.decide({"id": proposal, "decision": "confirm"}))
    assert answer.body["decisions"][0]["code"] == "already_decided"


def test_the_first_of_two_decisions_again_with_its_key_starts_no_other_turn(api: Gated) -> None:
    first, second = two(api)
    assert api.confirm(first, headers=KEY).body["status"] == "awaiting_confirmation"
    api.confirm(second, DONE)
    api.say("Hello.", says("Hi."))
    answer = goes_on_no_more(api, lambda: api.confirm(first, headers=KEY))
    assert (answer.status, answer.body["outcome"]) == (200, "succeeded")


def test_who_decided_first_and_goes_on_last_starts_no_other_turn(api: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between their decision and their going on, the other one decided, the turn went on, and a message was sent."""
    first, second = two(api)
    gate, real, late = Gate(), Decisions.open_in, threading.Event()

    def open_in(self: Decisions, *given: Any) -> list[str]:
        if threading.current_thread().name.startswith("late") and not late.is_set():
            late.set()
            gate.pass_in_thread()
        return real(self, *given)

    monkeypatch.setattr(Decisions, "open_in", open_in)
    with ThreadPoolExecutor(1, thread_name_prefix="late") as pool:
        waiting = pool.submit(api.confirm, first)
        gate.wait_reached()
        api.confirm(second, DONE)
        api.say("Hello.", says("Hi."))
        gate.open()
        answer = goes_on_no_more(api, lambda: waiting.result(PATIENCE_S))
    assert answer.body == {"status": "decided", "id": first, "outcome": "succeeded"}


def test_two_who_both_see_the_last_decision_start_one_turn(api: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = two(api)
    together, real = threading.Barrier(2), ProposalRoutes._go_on

    def go_on(self: ProposalRoutes, *given: Any) -> Any:
        together.wait(PATIENCE_S)
        return real(self, *given)

    decided, both = Decisions.open_in, threading.Barrier(2)

    def open_in(self: Decisions, *given: Any) -> list[str]:
        both.wait(PATIENCE_S)
        return decided(self, *given)

    monkeypatch.setattr(ProposalRoutes, "_go_on", go_on)
    monkeypatch.setattr(Decisions, "open_in", open_in)
    api.gateway.script(DONE)
    with ThreadPoolExecutor(2) as pool:
        answers = [one.result(PATIENCE_S) for one in [pool.submit(api.confirm, id) for id in (first, second)]]
    assert [answer.status for answer in answers] == [200, 200]
    assert sorted("reply" in answer.body for answer in answers) == [False, True]
    monkeypatch.undo()
    api.work("continued_turn")
    assert len(api.gateway.requests) == 2


def test_a_job_that_comes_twice_goes_on_once(api: Gated) -> None:
    [proposal] = api.propose(remove())
    api.say("What else?", [lambda: api.confirm(proposal), *says("It waits.")])
    [job] = api.work("continued_turn", says("Gone."))
    api.queue.jobs.append(job)
    api.work("continued_turn")
    assert api.texts(api.talk) == ["Please.", "What else?", "It waits.", "Gone."]


# -- by words


def test_a_yes_in_words_is_answered_once_by_the_turn_that_runs_the_call(api: Gated) -> None:
    [proposal] = api.propose(remove())
    api.say("Yes.", asks(remove(confirmationId=proposal)), DONE)
    api.work("continued_turn")
    api.say("Thanks.", says("Any time."))
    api.work("continued_turn")
    assert api.texts(api.talk) == ["Please.", "Yes.", "Done.", "Thanks.", "Any time."]


def test_the_last_yes_in_words_is_answered_once_too(api: Gated) -> None:
    first, second = two(api)
    api.confirm(first)
    api.say("Yes.", asks(remove("sleep", confirmationId=second)), DONE)
    api.work("continued_turn")
    assert api.texts(api.talk) == ["Please.", "Yes.", "Done."]
    assert [told.get("ok", told.get("status")) for told in api.told()] == [True, "awaiting_confirmation", True]


def test_what_was_decided_beside_a_yes_in_words_is_gone_on_from(api: Gated) -> None:
    """By a button, while the turn ran: it was not told of that."""
    first, second = two(api)
    yes = asks(remove("sleep", confirmationId=second))
    api.say("Yes.", [lambda: api.confirm(first), *yes], DONE)
    assert len(api.work("continued_turn", says("Both are gone."))) == 1
    assert api.texts(api.talk) == ["Please.", "Yes.", "Done.", "Both are gone."]


def test_a_yes_in_words_whose_turn_fails_then_is_answered_behind_it(api: Gated) -> None:
    [proposal] = api.propose(remove())
    assert api.say("Yes.", asks(remove(confirmationId=proposal)), [GatewayFailed()]).refusal == (502, "gateway_failed")
    assert len(api.work("continued_turn", says("It is gone."))) == 1
    assert api.texts(api.talk) == ["Please.", "Yes.", "It is gone."]


# -- while a turn runs


def test_who_is_quicker_than_the_end_of_the_turn_that_asks_them_gets_its_continuation(
    api: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, answers = finish_turn, list[Future[Answer]]()
    with ThreadPoolExecutor(1) as pool:

        def finishing(*given: Any) -> Any:
            if not answers:
                [one] = api.open()
                answers.append(pool.submit(api.confirm, one["id"], DONE))
                _until(lambda: not api.open())
            return real(*given)

        monkeypatch.setattr("deckhand.turns.recorder.finish_turn", finishing)
        api.propose(remove())
        assert answers[0].result(PATIENCE_S).body["reply"] == "Done."
    api.work("continued_turn")
    assert len(api.gateway.requests) == 2
    assert api.texts(api.talk) == ["Please.", "Done."]


def test_a_turn_that_ends_later_than_its_decider_waits_is_gone_on_from_by_a_job(
    api: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, answers = finish_turn, list[Answer]()

    def finishing(*given: Any) -> Any:
        if not answers:
            [one] = api.open()
            answers.append(api.confirm(one["id"]))
        return real(*given)

    monkeypatch.setattr(edge_proposals, "PATIENCE", 0)
    monkeypatch.setattr("deckhand.turns.recorder.finish_turn", finishing)
    api.propose(remove())
    assert answers[0].body["status"] == "decided"
    assert len(api.work("continued_turn", says("Gone."))) == 1
    assert api.texts(api.talk) == ["Please.", "Gone."]


def test_what_was_decided_before_the_process_that_asked_is_found_dead_is_gone_on_from(
    api: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: Any) -> None:
        raise LeaseLost()

    monkeypatch.setattr(edge_proposals, "PATIENCE", 0)
    with monkeypatch.context() as dying:
        dying.setattr("deckhand.turns.recorder.finish_turn", die)
        api.say("Please.", asks(remove()))
    [one] = api.open()
    assert api.confirm(one["id"]).body["outcome"] == "succeeded"
    assert sweep(api.parts.turns, all_dead=True).closed == 1
    assert len(api.work("continued_turn", says("Gone."))) == 1
    assert api.texts(api.talk) == ["Please.", "Gone."]


@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("DELETE", 404)])
def test_what_was_decided_while_a_turn_was_under_way_is_gone_on_from_by_whoever_finds_that_turn_dead(
    api: Gated, monkeypatch: pytest.MonkeyPatch, method: str, status: int
) -> None:
    def die(*_: Any) -> None:
        raise LeaseLost()

    [proposal] = api.propose(remove())
    with monkeypatch.context() as dying:
        dying.setattr("deckhand.turns.recorder.finish_turn", die)
        api.say("What else?", [lambda: api.confirm(proposal), *says("It waits.")])
    owner, turns = Owner("main", "ann"), api.parts.turns.turns
    stored = turns.head(owner, api.talk)
    assert stored is not None
    turns.move(owner, api.talk, stored.head.model_copy(update={"lease_until": 1.0}), after=stored, token="past")
    assert api(method, f"/api/chat/turn/{api.talk}").status == status
    assert len(api.work("continued_turn", says("Gone."))) == 1
    assert api.texts(api.talk) == ["Please.", "What else?", "Gone."]


def decided_long_ago(api: Gated, secret: str) -> None:
    """Two turns, one of a token, out of the model's sight, and both decided while a third ran."""
    waiting = []
    for again, token in ((remove(), secret), (remove("sleep", id="c2"), "ann")):
        waiting += api.propose(again, token=token)
        for number in range(3):
            api.say(f"Look, {number}.", asks(read()), DONE)

    def decide() -> None:
        for one in waiting:
            assert api.confirm(one).body["outcome"] == "succeeded"

    api.say("What else?", [decide, *says("It waits.")])


def test_a_turn_that_may_not_go_on_keeps_no_other_from_it(api: Gated) -> None:
    """The token is revoked meanwhile."""
    made = api("POST", "/api/tokens", {"name": "t", "role": "agent"}).body
    decided_long_ago(api, made["secret"])
    assert api("DELETE", f"/api/tokens/{made['id']}").status == 200
    assert len(api.work("continued_turn", says("Gone."))) == 1
    assert api.texts(api.talk)[-1] == "Gone."
    goes_on_no_more(api, lambda: api("GET", "/api/chat/status"))


def test_of_two_turns_each_goes_on_in_a_job_of_its_own(api: Gated) -> None:
    """Each may take all the time that a process has."""
    decided_long_ago(api, api.token("agent"))
    for text in ("One is gone.", "And the other."):
        assert api.work("continued_turn", says(text))
        assert api.texts(api.talk)[-1] == text
    goes_on_no_more(api, lambda: api("GET", "/api/chat/status"))


def later(api: Gated, seconds: float = 1_000) -> int:
    """What a sweep finds to do when so much time has gone by."""
    return sweep(replace(api.parts.turns, now=lambda: time.time() + seconds)).woken


def test_a_turn_whose_last_open_call_nobody_decides_is_gone_on_from_by_the_sweep(api: Gated, store: ItemStore) -> None:
    first, second = two(api)
    api.confirm(first)
    assert later(api, 0) == 0
    run_out(store, second)
    assert later(api) == 1
    assert len(api.work("continued_turn", says("One is done, the other ran out of time."))) == 1
    assert [one.get("ok", one.get("status")) for one in api.told()] == [True, "expired"]
    assert api.texts(api.talk) == ["Please.", "One is done, the other ran out of time."]
    assert later(api) == 0, "once"


def test_the_sweep_goes_on_from_nothing_that_was_gone_on_from_or_that_nobody_decided(
    api: Gated, store: ItemStore
) -> None:
    first, second = two(api)
    api.confirm(first)
    api.reject(second, DONE)
    third, fourth = two(api)
    for one in (third, fourth):
        run_out(store, one)
    assert later(api) == 0
    assert api.work("continued_turn") == []


@pytest.mark.parametrize("decide", [Gated.confirm, Gated.reject])
def test_the_sweep_goes_on_where_a_process_died_between_the_only_decision_and_the_turn(
    api: Gated, monkeypatch: pytest.MonkeyPatch, decide: Callable[[Gated, str], Answer]
) -> None:
    [only] = api.propose(remove())

    def die(*_: object) -> None:
        raise Killed()

    with monkeypatch.context() as patched:
        patched.setattr(ProposalRoutes, "_go_on", die)
        with pytest.raises(Killed):
            decide(api, only)
    assert later(api, 0) == 0
    assert later(api) == 1
    assert len(api.work("continued_turn", says("There you are."))) == 1
    assert api.texts(api.talk) == ["Please.", "There you are."]
    assert later(api) == 0


def test_the_sweep_leaves_a_turn_whose_last_call_is_being_done_to_a_later_one(api: Gated, store: ItemStore) -> None:
    first, second = two(api)
    api.confirm(first)
    rewritten(store, second, state="executing", decided_at=time.time(), lease_until=time.time() + 2_000)
    assert later(api) == 0
    rewritten(store, second, state="proposed", lease_until=None, expires_at=1.0)
    assert later(api) == 1


@pytest.mark.parametrize(("done", "told"), [(True, "done"), (False, None)])
def test_the_sweep_finds_what_a_process_that_is_gone_had_begun(
    api: Gated, store: ItemStore, done: bool, told: str | None
) -> None:
    """The other call ran out of time, and nobody looks at either."""
    first, second = two(api)
    api.confirm(first)
    decided_at = Proposals(store).find(Owner("main", "ann"), first).proposal.decided_at
    assert decided_at is not None
    begun = decided_at if done else decided_at - 1
    rewritten(store, first, state="executing", decided_at=begun, lease_until=begun + 60, result=None, expires_at=begun)
    run_out(store, second)
    assert later(api, 0) == 0
    later(api)
    rewritten(store, first, lease_until=begun)
    assert len(api.work("continued_turn", *([says("It is done.")] if done else []))) == 1
    assert [one.get("status") for one in api.told()] == ([told, "expired"] if done else [])
    assert later(api) == 0
    assert api.work("continued_turn") == []


def _until(state: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not state():
        assert time.monotonic() < ends, "the state never came"
        time.sleep(0.001)


def test_what_is_decided_while_another_turn_runs_is_gone_on_from_behind_it(api: Gated) -> None:
    [proposal] = api.propose(remove())
    answers = list[Answer]()
    api.say("What else?", [lambda: answers.append(api.confirm(proposal)), *says("It waits.")])
    assert (answers[0].body["status"], answers[0].body["outcome"]) == ("decided", "succeeded")
    assert len(api.work("continued_turn", says("Gone."))) == 1
    assert api.texts(api.talk) == ["Please.", "What else?", "It waits.", "Gone."]
    assert '"ok":true' in api.gateway.messages()[-1]["content"]


def test_what_is_decided_while_a_turn_fails_before_it_has_begun_is_gone_on_from(
    api: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    [proposal] = api.propose(remove())

    def failing(*_: Any) -> None:
        assert api.confirm(proposal).body["outcome"] == "succeeded"
        raise StorageUnavailable()

    with monkeypatch.context() as broken:
        broken.setattr(Chats, "_read", failing)
        assert api.say("What else?").refusal == (500, "internal")
    assert len(api.work("continued_turn", says("Gone."))) == 1
    assert api.texts(api.talk) == ["Please.", "What else?", "Gone."]


def test_what_was_proposed_many_turns_ago_is_gone_on_from_as_well(api: Gated) -> None:
    """Further back than the tool exchanges that the model is shown."""
    [proposal] = api.propose(remove())
    for number in range(4):
        api.say(f"Look, {number}.", asks(read()), DONE)
    api.say("What else?", [lambda: api.confirm(proposal), *says("It waits.")])
    assert len(api.work("continued_turn", says("Gone."))) == 1
    assert api.texts(api.talk)[-1] == "Gone."


# -- time


def test_the_last_one_running_out_of_time_lets_the_turn_go_on(api: Gated, store: ItemStore) -> None:
    first, second = two(api)
    api.confirm(first)
    run_out(store, second)
    assert api.confirm(second).refusal == (410, "expired")
    assert len(api.work("continued_turn", says("One is gone."))) == 1
    assert [told.get("ok", told.get("status")) for told in api.told()] == [True, "expired"]
    assert api.texts(api.talk) == ["Please.", "One is gone."]


def test_the_last_one_running_out_of_time_among_several_lets_the_turn_go_on(api: Gated, store: ItemStore) -> None:
    first, second = two(api)
    api.confirm(first)
    run_out(store, second)
    api.gateway.script(says("One is gone."))
    answer = api.decide({"id": second, "decision": "reject"})
    assert (answer.body["reply"], answer.body["decisions"][0]["code"]) == ("One is gone.", "expired")


# -- keys


def test_a_key_stands_for_one_proposal(api: Gated) -> None:
    [first] = api.propose(remove())
    api.confirm(first, DONE, headers=KEY)
    [second] = api.propose(remove("sleep"))
    answer = api("POST", f"{PROPOSALS}/{second}/reject", {}, headers=KEY)
    assert answer.refusal == (422, "idempotency_mismatch")
    assert [one["id"] for one in api.open()] == [second]


def test_a_key_stands_for_one_decision(api: Gated) -> None:
    first, _ = two(api)
    api.confirm(first, headers=KEY)
    answer = api("POST", f"{PROPOSALS}/{first}/reject", {}, headers=KEY)
    assert answer.refusal == (409, "already_decided")


# -- what is told


@pytest.mark.parametrize("failure", [AllowanceUsedUp(), StorageUnavailable()], ids=lambda one: one.code)
def test_the_outcome_is_told_when_the_turn_cannot_go_on(
    api: Gated, monkeypatch: pytest.MonkeyPatch, failure: DeckhandError
) -> None:
    def go_on(*_: Any) -> None:
        raise failure

    monkeypatch.setattr(Chats, "go_on", go_on)
    [proposal] = api.propose(remove())
    answer = api.confirm(proposal)
    assert answer.refusal[1] == failure.code
    assert (answer.body["id"], answer.body["outcome"]) == (proposal, "succeeded")
    assert api.rows("weight") == WEIGHTS[1:]


def test_the_outcome_is_told_when_the_assistant_is_switched_off_behind_it(
    api: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Decisions.confirm

    def confirm(self: Decisions, *given: Any, **more: Any) -> Any:
        decided = real(self, *given, **more)
        api.switch(enabled=False)
        return decided

    monkeypatch.setattr(Decisions, "confirm", confirm)
    [proposal] = api.propose(remove())
    answer = api.confirm(proposal)
    assert answer.refusal == (403, "agent_switched_off")
    assert answer.body["outcome"] == "succeeded"


def test_a_turn_that_was_spoken_goes_on_in_voice(api: Gated) -> None:
    [proposal] = api.propose(remove(), voiceMode=True)
    body = api.confirm(proposal, says('{"speak": "It is gone.", "display": "Gone."}')).body
    assert (body["reply"], body["speak"]) == ("Gone.", "It is gone.")
