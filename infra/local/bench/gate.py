"""What asking costs: a request's look at who is calling, and a write that waits for a yes."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from deckhand.agent.chat import Answer, StepRequest, TextDelta, ToolCall
from deckhand.bootstrap import Parts
from deckhand.domain.access_token import AccessToken
from deckhand.domain.errors import Unauthenticated
from deckhand.domain.json_text import dumps
from deckhand.domain.principal import Principal
from deckhand.domain.proposal import Proposal
from deckhand.edge.auth import Authenticator
from deckhand.edge.request import Request
from deckhand.operations.execution import perform
from deckhand.operations.registry import REGISTRY
from deckhand.settings import read_settings
from deckhand.storage.proposals import StoredProposal
from deckhand.storage.sqlite import SqliteStore
from deckhand.turns.chat import Run, TurnWish
from deckhand.turns.idempotency import Claimed
from deckhand.turns.start import NewTurn, Turn
from infra.local.bench.numbers import Measure, at_least, at_most, measure
from infra.local.bench.processes import CannotMeasureError
from infra.local.bench.storage_cost import CountingStore, conversation_of

OWNER = Principal(kind="user", id="owner", user="owner", role="owner")
REQUESTS, ROUNDS = 500, 5
CALLS = {"free": "append_row", "gated": "remove_row"}
ARGUMENTS = {"free": {"id": "weight", "value": 4}, "gated": {"id": "weight", "path": "[index=0]"}}


class _Writer:
    """A gateway in this process that calls one tool, or none, then answers."""

    def __init__(self, kind: str | None) -> None:
        self._calls = () if kind is None else (ToolCall("c1", CALLS[kind], dumps(ARGUMENTS[kind])),)

    async def stream(self, request: StepRequest) -> AsyncIterator[TextDelta | Answer]:
        if not self._calls or request.messages[-1]["role"] == "tool":
            yield TextDelta("Done.")
            yield Answer(text="Done.", finish="stop")
        else:
            yield Answer(text="", calls=self._calls, finish="tool_calls")


def gate_measures(folder: Path) -> Iterator[Measure]:
    with closing(SqliteStore(folder / "deckhand.sqlite3", now=time.time)) as store:
        counting = CountingStore(store)
        parts = _parts(folder, counting)
        _card(parts)
        yield measure("who is calling: a stored token", "ms", list(_lookups(parts)), at_most(3.0))
        nearly = "a refused token that is right but for its end, to one that is wrong from its start"
        yield measure(nearly, "×", list(_nearly(parts)), at_least(0.8), at_most(1.25))
        plain, free, gated = (_requests(parts, counting, kind) for kind in (None, "free", "gated"))
        more = "a gated write: storage requests more than a free one and a turn without a tool"
        yield measure(more, "", [gated - free - plain], at_most(3))


def _parts(folder: Path, counting: CountingStore) -> Parts:
    settings = {
        "CHAT_ENDPOINT_URL": "http://bench.invalid/v1",
        "DECKHAND_SQLITE": str(folder / "deckhand.sqlite3"),
        "DECKHAND_REPORTS": str(folder / "reports"),
    }
    return Parts(read_settings(settings), store=counting)


def _card(parts: Parts) -> None:
    meta = {"id": "weight", "label": "Weight", "writeable": {"fromWebapp": True, "pastAllowed": True}}
    manifest = {"$schema": "klebb.datafile.v1", "meta": meta, "data": [1, 2, 3]}
    operation = REGISTRY.find("create_manifest")
    if operation is None:
        raise CannotMeasureError("There is no operation that makes a card.")
    perform(parts.caller(OWNER, "api"), operation, operation.input.model_validate({"manifest": manifest}))


def _lookups(parts: Parts) -> Iterator[float]:
    token = AccessToken(id="bench", name="bench", role="agent", user="owner", tenant="main", created_at="")
    parts.tokens.add(token, secret="dk_bench", expires=None)  # noqa: S106 - of this measurement's own store
    request = Request("GET", "/", {"authorization": "Bearer dk_bench"}, {}, b"", "r")
    parts.authenticate(request)
    for _ in range(REQUESTS):
        began = time.perf_counter()
        parts.authenticate(request)
        yield (time.perf_counter() - began) * 1000


def _nearly(parts: Parts) -> Iterator[float]:
    """Ratios of medians. One that rose with what is right would tell a stranger how far they are."""
    known = "x" * 64
    authenticator = Authenticator(known, tokens=parts.tokens)
    wrong, near = ("y" + known[1:], known[:-1] + "y")
    for _ in range(ROUNDS):
        times: dict[str, list[float]] = {wrong: [], near: []}
        for _ in range(REQUESTS):
            for given, samples in times.items():
                request = Request("GET", "/", {"authorization": f"Bearer {given}"}, {}, b"", "r")
                began = time.perf_counter()
                with suppress(Unauthenticated):
                    authenticator.principal(request)
                samples.append(time.perf_counter() - began)
        yield statistics.median(times[near]) / statistics.median(times[wrong])


def _requests(parts: Parts, counting: CountingStore, kind: str | None) -> int:
    """Storage requests of a turn that writes; where the write waits, with the yes and the turn that goes on."""
    parts.__dict__.pop("chats", None)
    parts.__dict__["gateway"] = _Writer(kind)
    chats = parts.chats
    if chats is None:
        raise CannotMeasureError("There is no gateway.")
    conversation = conversation_of(parts.turns, OWNER, 0)
    new, wish = NewTurn(OWNER, conversation, ["go"]), TurnWish(messages=[("user", "go")])
    began = counting.operations
    turn = _run(chats.start(new, wish))
    if kind != "gated":
        return counting.operations - began
    asked = counting.operations
    proposal = _only(parts.decisions.all(turn.owner, conversation))
    began += counting.operations - asked  # no client looks for it: the turn's end names it
    decided = parts.decisions.confirm(OWNER, parts.decisions.find(turn.owner, proposal.id)).proposal
    _run(chats.go_on(NewTurn(OWNER, conversation, [], answers=proposal.turn_id), TurnWish([], decided=[decided])))
    return counting.operations - began


def _run(started: tuple[Turn, Run] | Claimed | None) -> Turn:
    if not isinstance(started, tuple):
        raise CannotMeasureError("The turn did not start.")
    asyncio.run(started[1](lambda *_: None))
    return started[0]


def _only(found: Sequence[StoredProposal]) -> Proposal:
    if len(found) != 1:
        raise CannotMeasureError("The write was not proposed.")
    return found[0].proposal
