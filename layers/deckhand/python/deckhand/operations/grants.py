"""Standing yeses: «always allow this tool on this card, until then», given on the ground of a proposal."""

from dataclasses import replace
from typing import NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from deckhand.domain.errors import InvalidRequest, NotAllowed, UnknownProposal
from deckhand.domain.grant import MAX_DAYS, Grant
from deckhand.domain.json_text import loads
from deckhand.domain.proposal import Proposal
from deckhand.domain.times import epoch, iso
from deckhand.operations.arguments import Arguments, Nothing
from deckhand.operations.caller import Caller
from deckhand.operations.permission import permission
from deckhand.operations.registry import REGISTRY, Http, operation
from deckhand.operations.shapes import Done
from deckhand.storage.grants import Grants
from deckhand.storage.proposals import Proposals


class NewGrant(Arguments):
    proposalId: str = Field(description="Its tool and its card are what is granted.")
    until: str = Field(max_length=40, description="An instant in ISO 8601, at most 90 days ahead.")


class GrantId(Arguments):
    id: str


class StandingYes(TypedDict):
    """It holds `until`, an instant in ISO 8601."""

    id: str
    operation: str
    card: NotRequired[str]
    until: str


class StandingYeses(TypedDict):
    grants: list[StandingYes]


@operation(summary="Give a standing yes", input=NewGrant, mutates=True, http=Http("POST", "/api/grants", status=201))
def create_grant(caller: Caller, given: NewGrant) -> StandingYes:
    """The proposal itself is still to be decided. Raises `UnknownProposal`, `InvalidRequest`, `NotAllowed`,
    `TooManyGrants`.
    """
    until = _until(given.until, caller.now())
    proposal = Proposals(caller.store).find(caller.owner, given.proposalId).proposal
    _check_may_decide(caller, proposal)
    grant = Grant(
        id=caller.new_id(),
        operation=proposal.tool,
        card=proposal.card,
        created_at=caller.now(),
        until=until,
        granted_by=caller.principal.name,
    )
    Grants(caller.store, caller.owner).add(grant, token=caller.new_id())
    return _shown(grant)


@operation(summary="List standing yeses", input=Nothing, http=Http("GET", "/api/grants"))
def list_grants(caller: Caller, _: Nothing) -> StandingYeses:
    """The caller's own, those that still hold."""
    return {"grants": [_shown(grant) for grant in Grants(caller.store, caller.owner).all()]}


@operation(summary="Revoke a standing yes", input=GrantId, mutates=True, http=Http("DELETE", "/api/grants/{id}"))
def revoke_grant(caller: Caller, given: GrantId) -> Done:
    """Raises `UnknownGrant`."""
    Grants(caller.store, caller.owner).revoke(given.id, token=caller.new_id())
    return {"ok": True}


def _check_may_decide(caller: Caller, proposal: Proposal) -> None:
    """Only who could say yes to the call itself may say it for the time to come. Raises `UnknownProposal`,
    `InvalidRequest`, `NotAllowed`.
    """
    operation = REGISTRY.find(proposal.tool)
    if operation is None:
        raise UnknownProposal()
    if proposal.card is None:
        raise InvalidRequest("A standing yes is for one card, and this call is about none.")
    if proposal.state_at(caller.now()) not in ("proposed", "executing", "succeeded"):
        raise InvalidRequest("This was not agreed to, so there is nothing that could be agreed to for longer.")
    given = operation.input.model_validate(loads(proposal.arguments))
    there = replace(caller, channel=proposal.channel)
    if permission(there, operation, given, confirmed=True).verdict != "allow":
        raise NotAllowed()


def _until(text: str, now: float) -> float:
    try:
        instant = epoch(text)
    except ValueError:
        raise InvalidRequest("until must be an instant such as 2027-01-31T00:00:00Z.") from None
    if not now < instant <= now + MAX_DAYS * 86_400:
        raise InvalidRequest(f"until must lie ahead, by at most {MAX_DAYS} days.")
    return instant


def _shown(grant: Grant) -> StandingYes:
    until = iso(grant.until)
    if grant.card is None:
        return {"id": grant.id, "operation": grant.operation, "until": until}
    return {"id": grant.id, "operation": grant.operation, "card": grant.card, "until": until}
