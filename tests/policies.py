"""Policies for tests: what ships, with a document added, on a clock that the test moves."""

from deckhand.domain.access import ConfirmWrites
from deckhand.domain.policy_document import PolicyDocument
from deckhand.policy.engine import Engine

SHIPPED = Engine(lambda _: None, confirm_writes="destructive", monotonic=lambda: 0.0)


def document(policy: str, *, version: int = 1, shadow: str | None = None) -> PolicyDocument:
    return PolicyDocument(
        version=version, policy=policy, shadow=shadow, written_by="user:ann", written_at="2026-04-20T00:00:00Z"
    )


def engine(policy: str = "", *, shadow: str | None = None, confirm_writes: ConfirmWrites = "destructive") -> Engine:
    stored = document(policy, shadow=shadow)
    return Engine(lambda _: stored, confirm_writes=confirm_writes, monotonic=lambda: 0.0)
