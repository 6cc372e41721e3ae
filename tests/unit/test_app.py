"""One app asked by several threads."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from aws_lambda_powertools.event_handler import api_gateway

from deckhand.edge.answer import json_answer
from deckhand.edge.app import App, Route
from infra.local.events import Request, proxy_event
from tests.deck import MOMENT

PATIENCE_S = 30


def test_each_thread_is_answered_what_it_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    both, call = Barrier(2), api_gateway._registered_api_adapter

    def together(*given: Any) -> Any:
        """Right before the library calls an endpoint."""
        both.wait(PATIENCE_S)
        return call(*given)

    monkeypatch.setattr(api_gateway, "_registered_api_adapter", together)
    told = [Route("GET", "/{id}", lambda request, parts, left: json_answer(200, [request.path, parts["id"], left]))]
    app = App(told)

    def ask(name: str) -> Any:
        event = proxy_event(Request("GET", f"/{name}", f"/{name}"), request_id=name, now=MOMENT)
        return json.loads(app(event, f"time of {name}")["body"])

    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(ask, "ab"))
    assert answers == [["/a", "a", "time of a"], ["/b", "b", "time of b"]]
