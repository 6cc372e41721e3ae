"""What anybody may ask: whether the service is alive, how its agent is called, and which routes there are."""

from typing import Any

from deckhand.edge.answer import json_answer
from deckhand.edge.app import Route
from deckhand.edge.shapes import Agent, Instance
from deckhand.settings import Settings


def public_routes(settings: Settings) -> list[Route]:
    agent: Agent = {"name": settings.chat_agent_name, "emoji": settings.chat_agent_emoji}

    def healthz(*_: Any) -> Any:
        return json_answer(200, {"ok": True})

    def instance(*_: Any) -> Any:
        told: Instance = {"name": "Deckhand", "chatAgent": agent, "demo": settings.deckhand_demo}
        return json_answer(200, told)

    def openapi(*_: Any) -> Any:
        # Only who asks for the document waits until what makes it is loaded.
        from deckhand.edge.openapi import document

        return json_answer(200, document())

    return [
        Route("GET", "/healthz", healthz),
        Route("GET", "/api/instance", instance),
        Route("GET", "/openapi.json", openapi),
    ]
