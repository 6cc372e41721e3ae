"""The demo gateway over HTTP."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from infra.local.demo_gateway import app
from infra.local.stack import server

TOOLS = [{"type": "function", "function": {"name": "append_row", "parameters": {}}}]


@pytest.fixture
async def gateway() -> AsyncIterator[httpx2.AsyncClient]:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        http = server(app(piece_seconds=0))
        serving = asyncio.create_task(http.serve(sockets=[bound]))
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{bound.getsockname()[1]}", trust_env=False) as client:
            yield client
        http.should_exit = True
        await serving


def request(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "demo", "messages": [{"role": "user", "content": text}], **more}


async def streamed(gateway: httpx2.AsyncClient, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await gateway.post("/v1/chat/completions", json={**body, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, done, rest = answer.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


async def test_a_text_is_streamed_word_by_word(gateway: httpx2.AsyncClient) -> None:
    chunks = await streamed(gateway, request("hello"))
    pieces = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
    assert "".join(pieces).startswith("I am Deckhand's demo")
    assert len(pieces) > 10
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


async def test_usage_comes_last_when_it_is_asked_for(gateway: httpx2.AsyncClient) -> None:
    last = (await streamed(gateway, request("hello", stream_options={"include_usage": True})))[-1]
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == last["usage"]["prompt_tokens"] + last["usage"]["completion_tokens"] > 0


async def test_usage_is_left_out_of_a_stream_otherwise(gateway: httpx2.AsyncClient) -> None:
    assert all("usage" not in chunk for chunk in await streamed(gateway, request("hello")))


async def test_a_tool_calls_arguments_come_in_parts(gateway: httpx2.AsyncClient) -> None:
    chunks = await streamed(gateway, request("log 80 kg", tools=TOOLS))
    calls = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert calls[0]["function"]["name"] == "append_row"
    assert json.loads("".join(call["function"]["arguments"] for call in calls))["value"]["kg"] == 80
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_what_is_said_before_a_call_comes_before_it(gateway: httpx2.AsyncClient) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "append_row", "arguments": "{}"}}
    unknown = {"role": "tool", "tool_call_id": "c", "content": '{"error": "None.", "code": "unknown_manifest"}'}
    tools = [{"type": "function", "function": {"name": "create_manifest", "parameters": {}}}]
    body = request("log 80 kg", tools=tools)
    body["messages"] += [{"role": "assistant", "content": None, "tool_calls": [call]}, unknown]
    deltas = [chunk["choices"][0]["delta"] for chunk in await streamed(gateway, body)]
    said = "".join(delta.get("content", "") for delta in deltas)
    assert said.startswith("There is no weight card yet")
    assert "tool_calls" in deltas[-2]
    whole = (await gateway.post("/v1/chat/completions", json=body)).json()["choices"][0]["message"]
    assert (whole["content"], len(whole["tool_calls"])) == (said, 1)


async def test_an_answer_can_be_had_whole(gateway: httpx2.AsyncClient) -> None:
    body = (await gateway.post("/v1/chat/completions", json=request("hello"))).json()
    assert body["choices"][0]["message"]["content"].startswith("I am Deckhand's demo")
    assert body["usage"]["completion_tokens"] > 0


async def test_its_one_model_is_listed(gateway: httpx2.AsyncClient) -> None:
    assert [model["id"] for model in (await gateway.get("/v1/models")).json()["data"]] == ["demo"]


@pytest.mark.parametrize("body", [b"no json", b"[]", b'{"messages": 1}', b"{}"])
async def test_what_is_no_chat_request_is_refused(gateway: httpx2.AsyncClient, body: bytes) -> None:
    answer = await gateway.post("/v1/chat/completions", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
