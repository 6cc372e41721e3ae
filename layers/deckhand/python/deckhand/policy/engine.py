"""Decides for the principals of every tenant, by what ships and the tenant's stored document."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from deckhand.domain.access import Access, ConfirmWrites, Decision, Kept, Sees
from deckhand.domain.policy_document import PolicyDocument
from deckhand.policy.cedar import UnreadablePolicyError
from deckhand.policy.rules import REPAIRS, Rules, RulesFailedError

FRESH_S = 2.0
"""How long a process goes by what it read. A changed document holds everywhere after this time."""
REPAIR = Decision("allow", ("repair",))
UNUSABLE = Decision("deny", ("unusable-document",))

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """`rules` is None when the document cannot be used."""

    version: int
    rules: Rules | None
    shadow: Rules | None
    read_at: float


class Engine:
    """A `Policy`. Parses a version once a process, and asks the store at most every `FRESH_S` seconds; storage errors
    pass through.
    """

    def __init__(
        self,
        find: Callable[[str], PolicyDocument | None],
        *,
        confirm_writes: ConfirmWrites,
        monotonic: Callable[[], float],
    ) -> None:
        self._find, self._confirm_writes, self._monotonic = find, confirm_writes, monotonic
        self._loaded: dict[str, _Loaded] = {}

    @property
    def confirm_writes(self) -> ConfirmWrites:
        return self._confirm_writes

    def decide(self, access: Access) -> Decision:
        loaded = self._current(access.principal.tenant)
        decision = _decided(loaded.rules, access)
        if loaded.shadow is not None:
            _tell_difference(access, decision, _decided(loaded.shadow, access), loaded.version)
        return decision

    def offers(self, access: Access) -> bool:
        rules = self._current(access.principal.tenant).rules
        if rules is None:
            return False
        try:
            return rules.offers(access)
        except RulesFailedError:
            logger.error("policy not evaluated", extra={"operation": access.operation})
            return False

    def sees(self, access: Access, kept: Kept) -> Sees:
        rules = self._current(access.principal.tenant).rules
        try:
            if rules is not None:
                return rules.sees(access, kept)
        except RulesFailedError:
            logger.error("policy not evaluated", extra={"operation": access.operation})
        return lambda _: False

    def _current(self, tenant: str) -> _Loaded:
        known, now = self._loaded.get(tenant), self._monotonic()
        if known is not None and now - known.read_at < FRESH_S:
            return known
        document = self._find(tenant)
        version = 0 if document is None else document.version
        if known is None or known.version != version:
            policy, shadow = ("", None) if document is None else (document.policy, document.shadow)
            beside = None if shadow is None else self._parsed(shadow, version)
            loaded = _Loaded(version, self._parsed(policy, version), beside, now)
        else:
            loaded = _Loaded(version, known.rules, known.shadow, now)
        self._loaded[tenant] = loaded
        return loaded

    def _parsed(self, text: str, version: int) -> Rules | None:
        try:
            return Rules(text, confirm_writes=self._confirm_writes)
        except UnreadablePolicyError:
            logger.error("policy document not readable", extra={"version": version})
            return None


def _decided(rules: Rules | None, access: Access) -> Decision:
    try:
        if rules is not None:
            return rules.decide(access)
    except RulesFailedError:
        logger.error("policy not evaluated", extra={"operation": access.operation})
    repairs = access.operation in REPAIRS and access.principal.role == "owner" and access.channel == "api"
    return REPAIR if repairs else UNUSABLE


def _tell_difference(access: Access, decision: Decision, shadow: Decision, version: int) -> None:
    if decision.verdict == shadow.verdict:
        return
    logger.info(
        "shadow policy differs",
        extra={
            "version": version,
            "principal": access.principal.name,
            "operation": access.operation,
            "channel": access.channel,
            "verdict": decision.verdict,
            "shadow": shadow.verdict,
            "policies": list(decision.policies),
            "shadowPolicies": list(shadow.policies),
        },
    )
