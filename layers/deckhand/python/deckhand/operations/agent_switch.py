"""`chat.ai-agent`: the switch that takes the assistant away, for all, for one user, for one token. Reading goes on."""

from typing import Literal, NotRequired

from pydantic import Field, StrictBool
from typing_extensions import TypedDict

from deckhand.domain.errors import ConditionFailed, InvalidRequest, UnknownUser
from deckhand.domain.principal import AGENT, DIRECT
from deckhand.domain.times import iso
from deckhand.operations.arguments import Arguments, Nothing
from deckhand.operations.caller import Caller
from deckhand.operations.registry import Http, operation
from deckhand.operations.shapes import Done
from deckhand.storage.accounts import Accounts
from deckhand.storage.conversations import Owner
from deckhand.storage.switches import SwitchedOff, Switches
from deckhand.storage.tokens import Tokens
from deckhand.storage.turns import Running

ATTEMPTS = 20


class Switch(Arguments):
    scope: Literal["all", "user", "token"] = Field(description="Whom it concerns.")
    id: str = Field(default="", max_length=200, description="The user's or the token's id; empty for all.")
    enabled: StrictBool


class Off(TypedDict):
    """`id` is the user's or the token's, and left out for all. `by` is who switched it off, `at` ISO 8601."""

    scope: Literal["all", "user", "token"]
    id: NotRequired[str]
    by: str
    at: str


class OffSwitches(TypedDict):
    off: list[Off]


class Switched(Done):
    """`stopped` counts the turns that ran and were stopped."""

    stopped: int


@operation(summary="List where the assistant is off", input=Nothing, http=Http("GET", "/api/agent/switches"))
def list_switches(caller: Caller, _: Nothing) -> OffSwitches:
    """It is on for everybody else."""
    return {"off": [_shown(one) for one in Switches(caller.store, caller.principal.tenant).all()]}


def _shown(one: SwitchedOff) -> Off:
    if not one.id:
        return {"scope": one.scope, "by": one.by, "at": one.at}
    return {"scope": one.scope, "id": one.id, "by": one.by, "at": one.at}


@operation(
    summary="Switch the assistant on or off", input=Switch, mutates=True, http=Http("PUT", "/api/agent/switches")
)
def switch_agent(caller: Caller, given: Switch) -> Switched:
    """Turns that run are stopped. What was switched off can be switched on though it is there no more. Raises
    `InvalidRequest`, `UnknownUser`, `UnknownToken`.
    """
    if (given.scope == "all") == bool(given.id):
        raise InvalidRequest("id names the user or the token, and is left out for all.")
    tenant = caller.principal.tenant
    switches = Switches(caller.store, tenant)
    if given.scope != "all" and not (given.enabled and switches.is_off(given.scope, given.id)):
        _check_known(caller, given)
    switches.turn(
        given.scope,
        given.id,
        on=given.enabled,
        by=caller.principal.name,
        at=iso(caller.now()),
        token=caller.new_id(),
    )
    if given.enabled:
        return {"ok": True, "stopped": 0}
    running = caller.turns.running(tenant)
    return {"ok": True, "stopped": sum(_stop(caller, entry) for entry in running if _concerns(caller, given, entry))}


def _check_known(caller: Caller, given: Switch) -> None:
    """A mistyped id would switch off nobody, and look as if it had. The function of this route may look up an account
    or a token, and list none.
    """
    tenant = caller.principal.tenant
    if given.scope == "token":
        if given.id != AGENT.id:
            Tokens(caller.store, now=caller.now, new_id=caller.new_id).named(tenant, given.id)
        return
    if given.id in (AGENT.user, DIRECT.user, caller.principal.user):
        return
    if Accounts(caller.store, tenant, new_id=caller.new_id).find(given.id) is None:
        raise UnknownUser()


def _concerns(caller: Caller, given: Switch, entry: Running) -> bool:
    if given.scope == "token":
        stored = caller.turns.head(Owner(caller.principal.tenant, entry.user), entry.conversation)
        return stored is not None and stored.head.principal == f"token:{given.id}"
    return given.scope == "all" or entry.user == given.id


def _stop(caller: Caller, entry: Running) -> int:
    """Asks one turn to stop; 0 when it does not run any more."""
    owner = Owner(caller.principal.tenant, entry.user)
    for _ in range(ATTEMPTS):
        stored = caller.turns.head(owner, entry.conversation)
        if stored is None or stored.head.stop or not stored.head.running(caller.now()):
            return 0
        try:
            caller.turns.move(
                owner, entry.conversation, stored.head.asked_to_stop(), after=stored, token=caller.new_id()
            )
        except ConditionFailed:
            continue
        return 1
    return 0
