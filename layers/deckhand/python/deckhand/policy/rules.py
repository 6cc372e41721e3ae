"""One set of policies as the answer to the question of `domain/access.py`. Pure: no storage, no clock."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from deckhand.domain.access import Access, ConfirmWrites, Decision, Kept, Sees
from deckhand.domain.principal import Kind, Principal
from deckhand.policy.cedar import Entity, Judgement, Policies, Question, UnreadablePolicyError, entities_in
from deckhand.policy.groups import names_of, parents, scope_of

TYPES: Mapping[Kind, str] = {"user": "User", "token": "Token", "service": "Service", "schedule": "Schedule"}
DECK = "Deck"
"""What a call is about that is about no single card or conversation."""
KEPT: Mapping[Kept, str] = {"card": "Card", "conversation": "Conversation"}
REPAIRS = frozenset({"read_policy", "write_policy"})
"""What an owner may do even while the document cannot be used."""


class RulesFailedError(Exception):
    """A policy could not be evaluated. One that forbids would have been passed over, so nothing is decided."""


@cache
def shipped() -> str:
    """The text of the policies that ship."""
    return (Path(__file__).parent / "roles.cedar").read_text(encoding="utf-8")


class Rules:
    """What ships, with one document added. Raises `UnreadablePolicyError`."""

    def __init__(self, document: str = "", *, confirm_writes: ConfirmWrites = "destructive") -> None:
        self._policies = Policies(shipped(), document)
        self._named = sorted(entities_in(document), key=lambda one: (one.type, one.id)) if document else []
        self._confirm_writes = confirm_writes

    def decide(self, access: Access) -> Decision:
        """Raises `RulesFailedError`."""
        # On the API the call is the person's own act.
        confirmed = access.confirmed or access.channel == "api"
        given = self._judge(access, confirmed=confirmed)
        if given.allowed:
            return Decision("allow", given.policies)
        if confirmed:
            return Decision("deny", given.policies)
        agreed = self._judge(access, confirmed=True)
        if agreed.allowed:
            return Decision("confirm", given.policies or agreed.policies)
        return Decision("deny", agreed.policies)

    def offers(self, access: Access) -> bool:
        """Whether some card's call would be more than denied: those are tried that policies, or the principal's own
        limits, name. Raises `RulesFailedError`.
        """
        cards = (access.card, *self._known(access, "card"))
        return any(self.decide(replace(access, card=card)).verdict != "deny" for card in cards)

    def sees(self, access: Access, kept: Kept) -> Sees:
        """Cards have nothing but their id, and conversations that are looked through are all the principal's own: those
        that nobody names are decided alike. Raises `RulesFailedError`.
        """
        named = {id: self._shows(access, kept, id) for id in self._known(access, kept)}
        unnamed = self._shows(access, kept, "")
        return lambda id: named.get(id, unnamed)

    def _known(self, access: Access, kept: Kept) -> list[str]:
        """The ids that policies, or the principal's own limits, name."""
        named = [one.id for one in self._named if one.type == KEPT[kept]]
        return [*named, *sorted(access.principal.cards or ())] if kept == "card" else named

    def _shows(self, access: Access, kept: Kept, id: str) -> bool:
        one = replace(access, card=id) if kept == "card" else replace(access, conversation=id)
        return self.decide(one).verdict == "allow"

    def _judge(self, access: Access, *, confirmed: bool) -> Judgement:
        context = {
            "channel": access.channel,
            "operation": access.operation,
            "mutates": access.mutates,
            "destructive": access.destructive,
            "confirmed": confirmed,
            "confirmWrites": self._confirm_writes,
        }
        judged = _joined(self._policies.judge(_question(access), context))
        if judged.failed:
            raise RulesFailedError()
        return judged


def _joined(names: Sequence[Judgement]) -> Judgement:
    """Of the names of one act: forbidden by one is forbidden, else permitted by one is permitted."""
    if len(names) == 1:
        return names[0]
    forbidden = [one for one in names if not one.allowed and one.policies]
    said = forbidden or [one for one in names if one.allowed]
    policies = sorted({policy for one in said for policy in one.policies})
    return Judgement(bool(said) and not forbidden, tuple(policies), failed=any(one.failed for one in names))


def keeps_policy(rules: Rules, owners: Iterable[Principal]) -> bool:
    """Whether some owner could still read and write the document under these rules."""
    return any(all(_may(rules, owner, operation) for operation in REPAIRS) for owner in owners)


def signed_in_owner(id: str, tenant: str) -> Principal:
    return Principal("user", id, id, "owner", tenant)


def governs(document: str, owner: Principal) -> bool:
    """Whether an owner may read and write the document by itself; every owner may where it cannot be used."""
    try:
        return keeps_policy(Rules(document), [owner])
    except UnreadablePolicyError:
        return True


def _may(rules: Rules, owner: Principal, operation: str) -> bool:
    access = Access(owner, operation, "api", mutates=operation == "write_policy", destructive=False)
    try:
        return rules.decide(access).verdict == "allow"
    except RulesFailedError:
        return False


def _question(access: Access) -> Question:
    who = access.principal
    principal = Entity(TYPES[who.kind], who.id)
    actions = {Entity("Action", name): parents(name) for name in names_of(access.operation)}
    resource = _resource(access)
    return Question(
        principal=principal,
        actions=list(actions),
        resource=resource,
        parents={
            principal: [Entity("Role", who.role)],
            **{action: [Entity("Action", group) for group in groups] for action, groups in actions.items()},
        },
        attributes={principal: _attributes(who), **_whose(resource, who)},
    )


def _whose(resource: Entity, who: Principal) -> dict[Entity, dict[str, Any]]:
    """Nobody reaches a conversation but whose it is, and who acts for them."""
    return {resource: {"user": who.user}} if resource.type == KEPT["conversation"] else {}


def _resource(access: Access) -> Entity:
    if access.card is not None:
        return Entity(KEPT["card"], access.card)
    if access.conversation is not None:
        return Entity(KEPT["conversation"], access.conversation)
    return Entity(DECK, access.principal.tenant)


def _attributes(who: Principal) -> dict[str, Any]:
    attributes: dict[str, Any] = {"user": who.user}
    if who.operations is not None:
        attributes["operations"] = sorted(scope_of(who.operations))
    if who.cards is not None:
        attributes["cards"] = [Entity("Card", card).reference for card in sorted(who.cards)]
    return attributes
