"""A deployment whose scripted model asks for gated writes: one deck, one conversation, people with different roles."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest

from deckhand import bootstrap
from deckhand.agent.chat import ToolCall
from deckhand.agent.tools import OperationTools
from deckhand.domain.job import Job
from deckhand.storage.cards import Cards
from deckhand.storage.conversations import Owner
from deckhand.storage.port import ItemStore
from deckhand.storage.proposals import Proposals
from tests.api import Answer, Api, others
from tests.fakes import PATIENCE_S, Script, asks, call, says

PROPOSALS = "/api/chat/proposals"
WEIGHTS = [{"date": "2026-04-13", "kg": 85.5}, {"date": "2026-04-14", "kg": 85.0}]


Make = Callable[..., "Gated"]
"""Makes a deployment with these cards and settings."""


class Gated(Api):
    """`deck` answers card routes as Ann."""

    def __init__(self, store: ItemStore, **settings: str) -> None:
        super().__init__(store, configured=True, **settings)
        self.talk = ""

    def cards(self, *ids: str) -> None:
        for card in ids:
            given = {
                "$schema": "klebb.datafile.v1",
                "meta": {"id": card, "label": card.title(), "writeable": {"fromWebapp": True, "pastAllowed": True}},
                "data": WEIGHTS,
            }
            assert self("POST", "/api/manifests", given).status == 201

    def rows(self, card: str) -> list[Any] | None:
        answer = self("GET", f"/api/manifests/{card}/data")
        return answer.body["data"] if answer.status == 200 else None

    def say(self, text: str, *scripts: Script, token: str = "ann", **more: Any) -> Answer:  # noqa: S107
        self.gateway.script(*scripts)
        body = {"conversationId": self.talk, "messages": [{"role": "user", "content": text}], **more}
        return self("POST", "/api/chat", body, token=token)

    def propose(self, *calls: ToolCall, text: str = "", **more: Any) -> list[str]:
        """The ids of what the model's calls wait for."""
        answer = self.say("Please.", asks(*calls, text=text), **more)
        assert answer.status == 200, answer.content
        return [one["id"] for one in answer.body["proposals"]]

    def open(self, *, token: str = "ann") -> list[dict[str, Any]]:  # noqa: S107
        found: list[dict[str, Any]] = self("GET", f"{PROPOSALS}?conversationId={self.talk}", token=token).body[
            "proposals"
        ]
        return found

    def confirm(
        self,
        id: str,
        *scripts: Script,
        token: str = "ann",  # noqa: S107
        headers: Mapping[str, str] | None = None,
        **body: Any,
    ) -> Answer:
        self.gateway.script(*scripts)
        return self("POST", f"{PROPOSALS}/{id}/confirm", body, token=token, headers=headers)

    def reject(self, id: str, *scripts: Script, token: str = "ann", **body: Any) -> Answer:  # noqa: S107
        self.gateway.script(*scripts)
        return self("POST", f"{PROPOSALS}/{id}/reject", body, token=token)

    def told(self) -> list[Any]:
        """The results of tools in the newest request to the model, in order."""
        return [json.loads(message["content"]) for message in self.gateway.messages() if message["role"] == "tool"]

    def decide(self, *decisions: Mapping[str, Any], token: str = "ann", **body: Any) -> Answer:  # noqa: S107
        return self("POST", f"{PROPOSALS}/decisions", {"decisions": list(decisions), **body}, token=token)

    def token(self, role: str, **limits: Any) -> str:
        """The secret of a token that acts for Ann."""
        made = self("POST", "/api/tokens", {"name": "t", "role": role, **limits})
        assert made.status == 201, made.content
        return str(made.body["secret"])

    def grant(self, proposal: str, *, token: str = "ann") -> Answer:  # noqa: S107
        """A standing yes for a day."""
        until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        return self("POST", "/api/grants", {"proposalId": proposal, "until": until}, token=token)

    def switch(self, enabled: bool, scope: str = "all", id: str | None = None) -> None:
        named = {} if id is None else {"id": id}
        answer = self("PUT", "/api/agent/switches", {"scope": scope, **named, "enabled": enabled})
        assert answer.status == 200, answer.content

    def settle(self) -> None:
        """Waits for what turns still do after their answer."""
        if self._thread._loop is not None:
            self._thread.submit(others()).result(PATIENCE_S)

    def work(self, kind: str, *scripts: Script) -> list[Job]:
        """Does the jobs of a kind that were sent, and gives them."""
        self.settle()
        self.gateway.script(*scripts)
        jobs = [job for job in self.queue.jobs if job.kind == kind]
        self.queue.jobs = [job for job in self.queue.jobs if job.kind != kind]
        with patch.object(bootstrap, "EventLoopThread", return_value=self._thread):
            worker = self.parts.job_worker()
        for job in jobs:
            event = {"Records": [{"messageId": "1", "body": job.to_json(), "eventSource": "aws:sqs"}]}
            assert worker(event, None) == {"batchItemFailures": []}
        return jobs

    def audit(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self("GET", "/api/audit?limit=500").body["entries"]
        return found


def delete(card: str = "weight", *, id: str = "c1", **more: Any) -> ToolCall:
    return call("delete_manifest", {"id": card, **more}, id=id)


def remove(card: str = "weight", *, row: int = 0, id: str = "c1", **more: Any) -> ToolCall:
    return call("remove_row", {"id": card, "path": f"[index={row}]", **more}, id=id)


def read(card: str = "weight", *, id: str = "r1") -> ToolCall:
    return call("read_manifest_rows", {"id": card}, id=id)


def append(card: str = "weight", *, id: str = "a1", **row: Any) -> ToolCall:
    return call("append_row", {"id": card, "value": row or {"date": "2026-04-15", "kg": 84.5}}, id=id)


@contextmanager
def gated(store: ItemStore, *cards: str, **settings: str) -> Iterator[Gated]:
    api = Gated(store, **settings)
    try:
        api.cards(*(cards or ("weight",)))
        api.talk = api.conversation()
        yield api
    finally:
        api.close()


def rewritten(store: ItemStore, proposal: str, **update: Any) -> None:
    """Changes what is stored of one of Ann's proposals, as if it had come about."""
    owner = Owner("main", "ann")
    found = Proposals(store).find(owner, proposal)
    Proposals(store).move(owner, found.proposal.model_copy(update=update), after=found, token=f"{proposal}.rewritten")


def run_out(store: ItemStore, proposal: str) -> None:
    """Moves the proposal's end into the past, as if its time had gone by."""
    created = Proposals(store).find(Owner("main", "ann"), proposal).proposal.created_at
    rewritten(store, proposal, expires_at=created)


def generations(store: ItemStore, card: str) -> int:
    """The version of a card: how often it was changed."""
    return Cards(store, "main").find(card).state.version


DONE = says("Done.")


def before_calls_run(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Each time that tools are to run."""
    real = OperationTools.run

    async def run(self: OperationTools, call: Any) -> Any:
        await asyncio.to_thread(act)
        return await real(self, call)

    monkeypatch.setattr(OperationTools, "run", run)
