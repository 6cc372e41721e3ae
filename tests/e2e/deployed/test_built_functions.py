"""Each function as it was built, on the layers as they were built, in the emulator of Lambda's runtime interface."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from infra.local.template import read_template
from infra.rie import Emulated, find_function, layer_folders, running
from infra.tools import ROOT
from tests.e2e.deployed.conftest import REPLY, TOKEN

EVENTS = ROOT / "infra" / "events"
PRELUDE_END = b"\0" * 8


def sample(name: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return event


def authorized(event: dict[str, Any], body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    headers = {**event["headers"], "Authorization": f"Bearer {TOKEN}"}
    written = event["body"] if body is None else json.dumps(body)
    return {**event, "headers": headers, "multiValueHeaders": None, "body": written}


@pytest.fixture
def root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount what a function sees as /var/task and /opt")


def started(built: Path, name: str, variables: Mapping[str, str]) -> AbstractContextManager[Emulated]:
    return running(find_function(name, built), layer_folders(built), variables)


@pytest.fixture
def chat(root: None, built_template: Path, variables: Mapping[str, str]) -> Iterator[Emulated]:
    with started(built_template, "ChatFunction", variables) as emulated:
        yield emulated


@pytest.fixture
def conversations(root: None, built_template: Path, variables: Mapping[str, str]) -> Iterator[Emulated]:
    with started(built_template, "ConversationsFunction", variables) as emulated:
        yield emulated


def test_the_build_has_each_function_without_tests_or_leavings(built_template: Path) -> None:
    for function in read_template(built_template):
        assert {path.name for path in function.code.iterdir()} == {"handler.py"}


def test_conversations_says_that_it_is_alive(conversations: Emulated) -> None:
    answer = json.loads(conversations.invoke(sample("health")))
    assert (answer["statusCode"], json.loads(answer["body"])) == (200, {"ok": True})


def test_conversations_makes_one_and_lists_it(conversations: Emulated) -> None:
    made = json.loads(conversations.invoke(authorized(sample("create-conversation"))))
    listed = json.loads(conversations.invoke(authorized(sample("list-conversations"))))
    assert made["statusCode"] == 201
    identity = json.loads(made["body"])["conversation"]["id"]
    assert identity in {conversation["id"] for conversation in json.loads(listed["body"])["conversations"]}


def test_chat_streams_a_turn_with_its_prelude_first(chat: Emulated) -> None:
    messages = [{"role": "user", "content": "Hello"}]
    answer = chat.invoke(authorized(sample("chat"), {"messages": messages, "stream": True}))
    prelude, separator, body = answer.partition(PRELUDE_END)
    assert separator
    assert json.loads(prelude)["statusCode"] == 200
    assert f'"reply":"{REPLY}"' in body.decode()
    assert body.decode().rstrip().rpartition("event: ")[2].startswith("done")


def test_chat_answers_a_refusal_in_the_streaming_form_too(chat: Emulated) -> None:
    prelude, _, body = chat.invoke(sample("chat")).partition(PRELUDE_END)
    assert json.loads(prelude)["statusCode"] == 401
    assert json.loads(body)["code"] == "unauthenticated"


def test_chat_answers_plainly_where_nothing_can_stream(
    root: None, built_template: Path, variables: Mapping[str, str]
) -> None:
    with started(built_template, "ChatFunction", {**variables, "RESPONSE_MODE": "buffer"}) as chat:
        answer = json.loads(chat.invoke(authorized(sample("chat"))))
    assert (answer["statusCode"], json.loads(answer["body"])["reply"]) == (200, REPLY)


def test_manifests_lists_the_cards(root: None, built_template: Path, variables: Mapping[str, str]) -> None:
    with started(built_template, "ManifestsFunction", variables) as manifests:
        answer = json.loads(manifests.invoke(authorized(sample("list-cards"))))
    assert (answer["statusCode"], json.loads(answer["body"])["entries"]) == (200, [])


def test_reminders_sweeps_at_the_minute(root: None, built_template: Path, variables: Mapping[str, str]) -> None:
    with started(built_template, "RemindersFunction", variables) as reminders:
        assert json.loads(reminders.invoke(sample("minute"))) == {"claimed": 0, "pushes": 0}


def test_jobs_sweeps_at_the_minute(root: None, built_template: Path, variables: Mapping[str, str]) -> None:
    with started(built_template, "JobsFunction", variables) as jobs:
        assert set(json.loads(jobs.invoke(sample("minute")))) == {"closed", "woken"}
