"""A deployment in this process with its card routes, reached by events of API Gateway."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deckhand.bootstrap import Parts
from deckhand.domain import json_text
from deckhand.domain.principal import Principal
from deckhand.edge.app import App
from deckhand.settings import read_settings
from deckhand.storage.port import Item, ItemStore, Key, Op, Page, Table
from infra.local.events import Request, proxy_event
from tests.answers import check_answer
from tests.fakes import FakeQueue

PERSON = Principal(kind="user", id="ada", user="ada", role="owner")
TOKENS = {"AGENT_API_TOKEN": "agent", "DECKHAND_ADMIN_TOKEN": "operator"}
WRITEABLE = {"fromWebapp": True, "pastAllowed": True}
MOMENT = datetime(2026, 4, 20, tzinfo=UTC)


def manifest(card: str = "weight", *, data: Any = None, **meta: Any) -> dict[str, Any]:
    """A card that takes entries. `data` None leaves it out."""
    made: dict[str, Any] = {
        "$schema": "klebb.datafile.v1",
        "meta": {"id": card, "label": card.title(), "writeable": WRITEABLE, **meta},
    }
    return made if data is None else {**made, "data": data}


def event_of(method: str, path: str, body: Any = None, *, raw: bytes | None = None, **more: Any) -> dict[str, Any]:
    """An event of API Gateway with the agent's token; `body` is sent as JSON, `raw` as it is."""
    sent = raw if raw is not None else b"" if body is None else json.dumps(body, ensure_ascii=False).encode()
    given = {"headers": [("authorization", "Bearer agent")], **more}
    return proxy_event(Request(method, path, path, body=sent, **given), request_id="r", now=MOMENT)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def body(self) -> Any:
        return json_text.loads(self.text)

    @property
    def code(self) -> str:
        return str(self.body["code"])


class HookedStore:
    """A real store with something done before a query, or before or after a write. What a hook does itself comes by
    its hooks again, unless it takes them away first.
    """

    def __init__(self, inner: ItemStore) -> None:
        self.inner = inner
        self.before: Callable[[Sequence[Op]], None] | None = None
        self.after: Callable[[Sequence[Op]], None] | None = None
        self.before_query: Callable[[str], None] | None = None

    def get(self, key: Key) -> Item | None:
        return self.inner.get(key)

    def query(self, table: Table, pk: str, **options: Any) -> Page:
        if self.before_query is not None:
            self.before_query(pk)
        return self.inner.query(table, pk, **options)

    def write(self, ops: Sequence[Op], *, token: str) -> None:
        if self.before is not None:
            self.before(ops)
        self.inner.write(ops, token=token)
        if self.after is not None:
            self.after(ops)

    def delete_many(self, keys: Sequence[Key]) -> None:
        self.inner.delete_many(keys)


@dataclass
class Deck:
    """`app` answers what `manifests_app` answers; requests carry the agent's token unless told otherwise."""

    folder: Path
    store: ItemStore | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        environment = {
            **TOKENS,
            "DECKHAND_SQLITE": str(self.folder / "deckhand.sqlite3"),
            "DECKHAND_REPORTS": str(self.folder / "reports"),
            **self.settings,
        }
        self.parts = Parts(read_settings(environment), store=self.store)
        self.queue = self.parts.__dict__["jobs"] = FakeQueue()
        self.app: App = self.parts.manifests_app()

    def sign_in(self, principal: Principal = PERSON) -> None:
        """From here on every request is this principal's."""
        self.parts.__dict__["authenticate"] = lambda _: principal
        self.app = self.parts.manifests_app()

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        token: str = "agent",  # noqa: S107
    ) -> Answer:
        """`body` is sent as JSON, `raw` as it is."""
        named = [("authorization", f"Bearer {token}"), *(headers or {}).items()]
        event = event_of(method, path, body, raw=raw, headers=named, query=list((query or {}).items()))
        answer = self.app(event, None)
        check_answer(method, path, answer["statusCode"], answer["body"])
        headers_ = {name.lower(): values[0] for name, values in answer["multiValueHeaders"].items()}
        return Answer(answer["statusCode"], headers_, answer["body"] or "")

    def get(self, path: str, **query: str) -> Any:
        """The body of an answer that must be 200."""
        answer = self("GET", path, query=query)
        assert answer.status == 200, answer
        return answer.body

    def create(self, card: str = "weight", *, data: Any = None, **meta: Any) -> None:
        answer = self("POST", "/api/manifests", manifest(card, data=data, **meta))
        assert answer.status == 201, answer

    def append(self, card: str, *values: Any) -> list[str]:
        """The new rows' ids."""
        answers = [self("POST", f"/api/manifests/{card}/rows", {"value": value}) for value in values]
        assert [answer.status for answer in answers] == [201] * len(values)
        return [answer.body["rowId"] for answer in answers]

    def data(self, card: str = "weight") -> Any:
        return self.get(f"/api/manifests/{card}/data")["data"]

    def version(self, card: str = "weight") -> int:
        return int(self.get(f"/api/manifests/{card}")["version"])

    def everything(self) -> Any:
        """All cards with their data, to see that nothing changed."""
        entries = self.get("/api/manifests")["entries"]
        return [(entry, self.data(entry["id"])) for entry in entries]

    def work_off(self) -> None:
        """Drops all rows that jobs were sent for."""
        worker = self.parts.job_worker()
        jobs, self.queue.jobs = self.queue.jobs, []
        for job in jobs:
            if job.kind != "drop_rows":
                continue
            event = {"Records": [{"messageId": "1", "body": job.to_json(), "eventSource": "aws:sqs"}]}
            assert worker(event, None) == {"batchItemFailures": []}
