"""What a decision costs in a process that has made one: parsed policies, entities of each request. Time of the thread,
as a decision waits for nothing.
"""

import itertools
import time
from collections.abc import Iterator

from deckhand.domain.access import Access
from deckhand.domain.principal import Principal
from deckhand.policy.rules import Rules
from infra.local.bench.numbers import Measure, at_most, measure

DECISIONS = 2_000
DOCUMENT = "\n".join(
    f'@id("rule-{n}") forbid (principal in Role::"agent", action in Action::"write", resource == Card::"card-{n}") '
    'unless { context.confirmed && principal.user == "owner" };'
    for n in range(20)
)


def policy_measures() -> Iterator[Measure]:
    for name, document in (("what ships", ""), ("20 policies added", DOCUMENT)):
        yield measure(f"a policy decision, {name}", "ms", _decisions_ms(Rules(document)), at_most(1, "p99"))


def _decisions_ms(rules: Rules) -> list[float]:
    """Half of them are judged twice, without and with a yes, as whatever needs one is."""
    cards = frozenset(f"card-{n}" for n in range(10))
    people = (Principal("user", "ann", "ann", "editor"), Principal("token", "t", "ann", "agent", cards=cards))
    asked = [
        Access(who, operation, "chat", mutates=True, destructive=destructive, card="card-3")
        for who in people
        for operation, destructive in (("append_row", False), ("remove_row", True))
    ]
    rules.decide(asked[0])
    samples = []
    for access in itertools.islice(itertools.cycle(asked), DECISIONS):
        began = time.thread_time()
        rules.decide(access)
        samples.append((time.thread_time() - began) * 1000)
    return samples
