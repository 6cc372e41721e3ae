"""What was begun for somebody whose rights have ended since: it does nothing more, whoever says yes to it."""

from typing import Any

import pytest

from deckhand.domain.account import Account
from deckhand.domain.job import Actor
from deckhand.domain.principal import Principal
from deckhand.storage.accounts import Accounts
from deckhand.storage.conversations import Owner
from deckhand.storage.port import ItemStore
from deckhand.storage.proposals import Proposals
from tests.fakes import Gate, asks, says
from tests.gated import DONE, WEIGHTS, Gated, append, before_calls_run, remove, rewritten

FORBIDDEN = (403, "forbidden")
OWNER = Principal(kind="user", id="owner", user="owner", role="owner")


@pytest.fixture
def device(api: Gated) -> tuple[str, str]:
    """Id and secret of a token that acts for Ann."""
    made = api("POST", "/api/tokens", {"name": "t", "role": "agent"}).body
    return made["id"], made["secret"]


def revoke(api: Gated, id: str) -> None:
    assert api("DELETE", f"/api/tokens/{id}").status == 200


def test_a_persons_yes_runs_what_their_token_proposed(api: Gated, device: tuple[str, str]) -> None:
    [proposal] = api.propose(remove(), token=device[1])
    assert api.confirm(proposal, DONE).status == 200
    assert api.rows("weight") == WEIGHTS[1:]


def test_what_a_token_proposed_that_was_revoked_since_does_not_run(api: Gated, device: tuple[str, str]) -> None:
    [proposal] = api.propose(remove(), token=device[1])
    revoke(api, device[0])
    assert api.confirm(proposal).refusal == FORBIDDEN
    assert api.rows("weight") == WEIGHTS
    assert [one["outcome"] for one in api.audit() if one["operation"] == "remove_row"] == ["proposed", "denied"]


def test_nor_when_it_is_revoked_while_the_yes_is_looked_at(
    api: Gated, device: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    [proposal] = api.propose(remove(), token=device[1])
    decisions = api.parts.decisions
    take = decisions._take

    def revoked_first(*given: Any) -> Any:
        revoke(api, device[0])
        return take(*given)

    monkeypatch.setattr(decisions, "_take", revoked_first)
    assert api.confirm(proposal).refusal == FORBIDDEN
    assert api.rows("weight") == WEIGHTS


def test_what_a_token_proposed_that_has_expired_since_does_not_run(store: ItemStore, api: Gated) -> None:
    secret = api.token("agent", expiresAt="2999-01-01T00:00:00Z")
    [proposal] = api.propose(remove(), token=secret)
    stored = Proposals(store).find(Owner("main", "ann"), proposal).proposal
    assert stored.actor.until == 32_472_144_000
    rewritten(store, proposal, actor=stored.actor.model_copy(update={"until": stored.created_at}))
    assert api.confirm(proposal).refusal == FORBIDDEN
    assert api.rows("weight") == WEIGHTS


def test_a_no_is_taken_but_the_turn_of_a_revoked_token_does_not_go_on(api: Gated, device: tuple[str, str]) -> None:
    [proposal] = api.propose(remove(), token=device[1])
    revoke(api, device[0])
    answer = api.reject(proposal)
    assert answer.refusal == FORBIDDEN
    assert answer.body["outcome"] == "rejected"
    assert api.open() == []


@pytest.mark.parametrize("change", [{"role": "editor"}, {"disabled": True}])
def test_what_a_person_proposed_who_lost_their_role_does_not_run_by_another_credential(
    store: ItemStore, api: Gated, change: dict[str, Any]
) -> None:
    api.people["Bearer owner"] = OWNER
    accounts = Accounts(store, "main", new_id=iter("abcdefghij").__next__)
    accounts.add(Account(id="owner", name="Olga", role="owner", created_at=0), [])
    api.talk = api("POST", "/api/conversations", {}, token="owner").body["conversation"]["id"]
    kept, lost = api.propose(remove(), remove(row=1, id="c2"), token="owner")
    assert api.confirm(kept, token="agent").status == 200
    assert api("PATCH", "/api/users/owner", change).status == 200
    assert api.confirm(lost, token="agent").refusal == FORBIDDEN
    assert len(api.rows("weight") or []) == 1
    back = {"role": "owner"} if "role" in change else {"disabled": False}
    assert api("PATCH", "/api/users/owner", back).status == 200
    assert api.confirm(lost, DONE, token="agent").status == 200, "who got it back has it"


def test_a_message_that_queued_for_a_token_is_not_answered_once_it_is_revoked(
    api: Gated, device: tuple[str, str]
) -> None:
    gate = Gate()
    running = api.say("Hello.", [gate, *says("Hi.")], stream=True)
    gate.wait_reached()
    assert api.say("And more.", token=device[1], onBusy="enqueue").status == 202
    revoke(api, device[0])
    gate.open()
    assert running.frames
    api.work("queued_turn")
    assert len(api.gateway.requests) == 1
    assert api.texts(api.talk) == ["Hello.", "Hi.", "And more."]


def test_a_turn_that_runs_writes_and_asks_nothing_more_once_its_token_is_revoked(
    api: Gated, device: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before_calls_run(monkeypatch, lambda: revoke(api, device[0]))
    assert api.say("Log it.", asks(append()), token=device[1]).refusal == FORBIDDEN
    assert api.rows("weight") == WEIGHTS
    assert len(api.gateway.requests) == 1


def test_how_long_a_token_lasts_goes_with_what_is_done_for_it() -> None:
    principal = Principal("token", "t", "ann", "agent", until=5.5)
    assert Actor.model_validate_json(Actor.of(principal).to_json()).principal() == principal
