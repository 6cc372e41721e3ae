"""A person at work on an empty store in memory."""

from zoneinfo import ZoneInfo

from deckhand.domain.principal import Principal
from deckhand.operations.caller import Caller
from deckhand.storage.reports import FolderReports
from deckhand.storage.sqlite import SqliteStore
from tests.fakes import FakeQueue, Ids
from tests.policies import SHIPPED
from tests.stores import Clock


def chatting() -> Caller:
    """An owner, in chat."""
    clock = Clock()
    return Caller(
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
