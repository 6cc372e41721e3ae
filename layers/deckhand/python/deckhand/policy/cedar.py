"""The one file that uses Cedar: parsed policies, judged requests. The library is loaded with the first decision."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cedarpy import AuthzResult


class UnreadablePolicyError(Exception):
    """The text is no set of policies; the message says what the parser said."""


@dataclass(frozen=True, slots=True)
class Entity:
    type: str
    id: str

    @property
    def reference(self) -> dict[str, dict[str, str]]:
        """As an attribute's value refers to it."""
        return {"__entity": self.plain}

    @property
    def plain(self) -> dict[str, str]:
        return {"type": self.type, "id": self.id}


@dataclass(frozen=True, slots=True)
class Question:
    """`actions` are the names of one act. `parents` and `attributes` are by entity, and travel with each question:
    nothing about principals is kept.
    """

    principal: Entity
    actions: Sequence[Entity]
    resource: Entity
    parents: Mapping[Entity, Sequence[Entity]]
    attributes: Mapping[Entity, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Judgement:
    """`policies` decided, by their names. `failed`: the request or a policy could not be evaluated."""

    allowed: bool
    policies: tuple[str, ...]
    failed: bool = False


def parse_fault(text: str) -> str | None:
    """What the parser says against a text, without where."""
    from cedarpy import PolicySet

    try:
        PolicySet.from_str(text)
    except ValueError as error:
        return str(error)
    return None


def ids_in(text: str) -> list[str | None]:
    """The `@id` of each policy and template, in the text's order. Raises `UnreadablePolicyError`."""
    parsed = _json(text)
    policies = {**parsed["staticPolicies"], **parsed["templates"]}
    return [policies[f"policy{n}"].get("annotations", {}).get("id") for n in range(len(policies))]


def schema_faults(text: str, schema: str) -> list[tuple[int, str]]:
    """What the schema says against a text that can be parsed: the policy's place in it, from 0, and the message."""
    from cedarpy import Schema, validate_policies

    told = validate_policies(text, Schema.from_str(schema)).errors
    return [(_number(fault.policy_id), re.sub(r"^for policy `policy\d+`[,:] ", "", fault.error)) for fault in told]


def _number(policy_id: str) -> int:
    return int(policy_id.removeprefix("policy"))


def entities_in(text: str) -> set[Entity]:
    """What policies name. Raises `UnreadablePolicyError`."""
    return set(_entities(_json(text)))


def _json(text: str) -> Any:
    from cedarpy import policies_to_json_str

    try:
        return json.loads(policies_to_json_str(text))
    except ValueError as error:
        raise UnreadablePolicyError(str(error)) from error


def _entities(node: Any) -> Iterator[Entity]:
    if isinstance(node, Mapping):
        if isinstance(node.get("type"), str) and isinstance(node.get("id"), str):
            yield Entity(node["type"], node["id"])
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _entities(child)


class Policies:
    """A parsed set, made once and asked from any thread. `@id` names a policy, else its place in its text does."""

    def __init__(self, shipped: str, document: str = "") -> None:
        """`document` is added to what is shipped. Raises `UnreadablePolicyError`."""
        from cedarpy import PolicySet

        try:
            self._shipped = len(PolicySet.from_str(shipped))
            self._parsed = PolicySet.from_str(f"{shipped}\n{document}")
        except ValueError as error:
            raise UnreadablePolicyError(str(error)) from error

    def judge(self, question: Question, context: Mapping[str, Any]) -> list[Judgement]:
        """A judgement for each of the actions. What Cedar cannot take (a lone surrogate) has failed."""
        from cedarpy import is_authorized_batch

        told = json.dumps(context)
        requests = [
            {
                "principal": question.principal.plain,
                "action": action.plain,
                "resource": question.resource.plain,
                "context": told,
            }
            for action in question.actions
        ]
        entities = [
            {
                "uid": entity.plain,
                "attrs": question.attributes.get(entity, {}),
                "parents": [parent.plain for parent in question.parents.get(entity, ())],
            }
            for entity in {*question.parents, *question.attributes}
        ]
        try:
            results = is_authorized_batch(requests, self._parsed, json.dumps(entities))
        except ValueError:
            return [Judgement(allowed=False, policies=(), failed=True)]
        return [self._judgement(result) for result in results]

    def _judgement(self, result: "AuthzResult") -> Judgement:
        names = result.diagnostics.id_annotations_by_reason
        policies = sorted(names.get(reason) or self._place(reason) for reason in result.diagnostics.reasons)
        return Judgement(result.allowed, tuple(policies), failed=bool(result.diagnostics.errors))

    def _place(self, reason: str) -> str:
        """Cedar counts policies from 0, those that ship first."""
        return f"policy {_number(reason) - self._shipped + 1}"
