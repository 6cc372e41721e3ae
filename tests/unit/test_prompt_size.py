"""How much of a model's context the product takes before anybody says a word."""

import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from deckhand.agent.prompt import Profile, Surroundings, segments
from deckhand.agent.tools import OperationTools
from deckhand.domain.principal import Principal
from deckhand.operations.caller import Caller
from deckhand.operations.catalog import REGISTRY
from deckhand.operations.docs import DOCS
from deckhand.storage.reports import FolderReports
from deckhand.storage.sqlite import SqliteStore
from tests.fakes import FakeQueue, Ids
from tests.policies import SHIPPED
from tests.stores import Clock


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
    clock = Clock()
    caller = Caller(
        principal=Principal("user", "ann", "ann", "owner"),
        channel="chat",
        policy=SHIPPED,
        store=SqliteStore(":memory:", now=clock),
        jobs=FakeQueue(),
        reports=FolderReports("/nonexistent"),
        now=clock,
        new_id=Ids(),
        default_zone=ZoneInfo("UTC"),
    )
    definitions = OperationTools(REGISTRY.tools(profile), caller).definitions()
    return len(json.dumps(definitions, ensure_ascii=False).encode())


def test_the_static_part_with_all_tools_fits_a_small_model() -> None:
    assert static_bytes("full") + tools_bytes("full") <= 24_000


def test_the_compact_form_with_its_tools_fits_a_tiny_model() -> None:
    assert static_bytes("compact") + tools_bytes("compact") <= 6_000
