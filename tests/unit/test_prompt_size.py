"""How much of a model's context the product takes before anybody says a word."""

import json
from datetime import UTC, datetime

from deckhand.agent.prompt import Profile, Surroundings, segments
from deckhand.agent.tools import OperationTools
from deckhand.operations.catalog import REGISTRY
from deckhand.operations.docs import DOCS
from tests.callers import chatting


def static_bytes(profile: Profile) -> int:
    around = Surroundings(
        agent_name="Chat",
        base=None,
        cards=[],
        now=datetime(2026, 4, 20, tzinfo=UTC),
        docs=tuple(DOCS.items()),
        profile=profile,
    )
    return len(segments(around)[0].encode())


def tools_bytes(profile: Profile) -> int:
    caller = chatting()
    definitions = OperationTools(REGISTRY.tools(profile), caller).definitions()
    return len(json.dumps(definitions, ensure_ascii=False).encode())


def test_the_static_part_with_all_tools_fits_a_small_model() -> None:
    assert static_bytes("full") + tools_bytes("full") <= 24_000


def test_the_compact_form_with_its_tools_fits_a_tiny_model() -> None:
    assert static_bytes("compact") + tools_bytes("compact") <= 6_000
