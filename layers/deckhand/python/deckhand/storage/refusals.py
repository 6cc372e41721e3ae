"""What an error answer of DynamoDB means for the call that got it. Pure: it reads the parsed answer only.

Source: DynamoDB API reference, "TransactWriteItems" and "Common errors".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Refusal(Enum):
    """The value of one that may be repeated is the first delay in seconds; it doubles with every try."""

    CONDITION = "condition"
    INVALID = "invalid"
    TOKEN_USED = "token used"  # noqa: S105
    FINAL = "final"
    CONFLICT = 0.02
    BUSY = 0.1

    @property
    def first_delay(self) -> float | None:
        return self.value if isinstance(self.value, float) else None


_BY_CODE = {
    "ConditionalCheckFailedException": Refusal.CONDITION,
    "ConditionalCheckFailed": Refusal.CONDITION,
    "ValidationException": Refusal.INVALID,
    "ValidationError": Refusal.INVALID,
    "IdempotentParameterMismatchException": Refusal.TOKEN_USED,
    "TransactionConflictException": Refusal.CONFLICT,
    "TransactionInProgressException": Refusal.CONFLICT,
    "ReplicatedWriteConflictException": Refusal.CONFLICT,
    "TransactionConflict": Refusal.CONFLICT,
    "ThrottlingException": Refusal.BUSY,
    "ThrottlingError": Refusal.BUSY,
    "Throttling": Refusal.BUSY,
    "ProvisionedThroughputExceededException": Refusal.BUSY,
    "ProvisionedThroughputExceeded": Refusal.BUSY,
    "RequestLimitExceeded": Refusal.BUSY,
}
# What decides when a cancelled transaction names several: an answer first, then what makes a repeat useless.
_PRECEDENCE = (Refusal.CONDITION, Refusal.INVALID, Refusal.FINAL, Refusal.BUSY, Refusal.CONFLICT)


@dataclass(frozen=True, slots=True)
class FailedCondition:
    """`attributes` of what is stored there, empty when nothing is."""

    index: int
    attributes: Mapping[str, Any]


def refusal(answer: Mapping[str, Any]) -> Refusal:
    code = answer.get("Error", {}).get("Code", "")
    if code == "TransactionCanceledException":
        return _strongest(reason["Code"] for reason in _reasons(answer) if reason.get("Code", "None") != "None")
    known = _BY_CODE.get(code)
    if known is None and answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500:
        return Refusal.BUSY
    return known or Refusal.FINAL


def failed_conditions(answer: Mapping[str, Any]) -> list[FailedCondition]:
    """In the order of the ops; a single write has one."""
    if answer["Error"]["Code"] == "ConditionalCheckFailedException":
        return [FailedCondition(0, answer.get("Item", {}))]
    return [
        FailedCondition(index, reason.get("Item", {}))
        for index, reason in enumerate(_reasons(answer))
        if reason.get("Code") == "ConditionalCheckFailed"
    ]


def _strongest(codes: Iterable[str]) -> Refusal:
    found = {_BY_CODE.get(code, Refusal.FINAL) for code in codes}
    return next((kind for kind in _PRECEDENCE if kind in found), Refusal.FINAL)


def _reasons(answer: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    reasons: Sequence[Mapping[str, Any]] = answer.get("CancellationReasons", [])
    return reasons
