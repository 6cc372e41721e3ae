"""What `sam build` made, and an account of AWS's that is only an emulator, with the application deployed into it."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import boto3
import httpx2
import pytest

from infra.sam_local.emulated_resources import make
from tests.sam import build, run, sam_environment, sam_tool
from tests.scripted_gateway import Reply, ScriptedGateway, text_reply
from tests.stores import running_ministack

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
TOKEN, KEY = "the callers' token", "the gateway's key"
TOKEN_PARAMETER, KEY_PARAMETER = "/deckhand/agent-api-token", "/deckhand/chat-api-key"
ENROL_CODE, ENROL_PARAMETER, ORIGIN = "the first owner's code", "/deckhand/enrol-code", "https://deck.example.test"
ZONE = "Asia/Kolkata"
"""Its clocks never change, so that any time of its day comes up once."""
WAIT_S = 240
T = TypeVar("T")
REPLY, TITLE = "Noted, all is well.", "Smooth sailing"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.deploy)
            # The first test of a run builds and deploys, and a fresh machine downloads first.
            item.add_marker(pytest.mark.timeout(1500))


def until(state: Callable[[], T]) -> T:
    """What it gives once that is true. Asks slowly: a caller has 120 requests a minute."""
    deadline = time.monotonic() + WAIT_S
    while not (found := state()):
        assert time.monotonic() < deadline, "the state never came"
        time.sleep(1)
    return found


def reply_to(request: Any) -> Reply:
    """Titles are asked for without tools."""
    return text_reply(REPLY if request.get("tools") else TITLE)


@dataclass(frozen=True)
class Emulator:
    url: str

    def client(self, service: str) -> Any:
        session = boto3.Session("test", "test", region_name="us-east-1")
        return session.client(service, endpoint_url=self.url)  # type: ignore[call-overload]


@dataclass(frozen=True)
class Deployed:
    """The deployed application: `api` for callers who have the token, `gateway` as it asked it."""

    api: httpx2.Client
    gateway: ScriptedGateway


@pytest.fixture(scope="session")
def built_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """It enforces the policies of roles, so that a permission that is missing shows."""
    with running_ministack(tmp_path_factory.mktemp("account"), AUTH="true", **KEYS) as url:
        yield Emulator(url)


@pytest.fixture(scope="session")
def gateway() -> Iterator[ScriptedGateway]:
    with ScriptedGateway() as gateway:
        gateway.respond = reply_to
        yield gateway


@pytest.fixture(scope="session")
def variables(emulator: Emulator, gateway: ScriptedGateway) -> Mapping[str, str]:
    """The environment of functions that run outside of the deployment, with tables of their own."""
    return {
        "DYNAMODB_ENDPOINT": emulator.url,
        "SQS_ENDPOINT": emulator.url,
        "S3_ENDPOINT": emulator.url,
        "JOBS_QUEUE_URL": make(emulator.url),
        "DECK_TABLE": "deck",
        "TURNS_TABLE": "turns",
        "IDENTITY_TABLE": "identity",
        "REPORTS_BUCKET": "reports",
        "AGENT_API_TOKEN": TOKEN,
        "CHAT_ENDPOINT_URL": gateway.url,
        "CHAT_MODEL": "scripted-1",
    }


@pytest.fixture(scope="session")
def deployed(built_template: Path, emulator: Emulator, gateway: ScriptedGateway) -> Iterator[Deployed]:
    emulator.client("s3").create_bucket(Bucket="artifacts")
    for name, value in {TOKEN_PARAMETER: TOKEN, KEY_PARAMETER: KEY, ENROL_PARAMETER: ENROL_CODE}.items():
        emulator.client("ssm").put_parameter(Name=name, Value=value, Type="SecureString")
    template = built_template.with_name("buffered.yaml")
    template.write_text(without_streaming(built_template.read_text()))
    overrides = {
        "ChatEndpointUrl": gateway.url,
        "ChatModel": "scripted-1",
        "ChatApiKeyParameter": KEY_PARAMETER,
        "AgentApiTokenParameter": TOKEN_PARAMETER,
        "EnrolCodeParameter": ENROL_PARAMETER,
        "Origins": ORIGIN,
        "TimeZone": ZONE,
    }
    command = [
        *(str(sam_tool()), "deploy", "--template-file", str(template), "--stack-name", "deckhand"),
        *("--s3-bucket", "artifacts", "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset"),
        *("--parameter-overrides", *(f"{name}={value}" for name, value in overrides.items())),
    ]
    run(command, sam_environment(AWS_ENDPOINT_URL=emulator.url, **KEYS), cwd=template.parent)
    [stack] = emulator.client("cloudformation").describe_stacks(StackName="deckhand")["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    address = urlsplit(outputs["ApiUrl"])
    api = f"{emulator.url}/_aws/execute-api/{str(address.hostname).partition('.')[0]}{address.path}"
    with httpx2.Client(base_url=api, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=WAIT_S) as client:
        yield Deployed(client, gateway)


def without_streaming(template: str) -> str:
    """The emulator has no streaming integrations; the template's tests and the runtime's own hold that part."""
    plain, count = re.subn(r"\n *(ResponseTransferMode|TimeoutInMillis): .*", "", template)
    assert count > 0
    buffered, count = re.subn(r"RESPONSE_MODE: stream\b", "RESPONSE_MODE: buffer", plain)
    assert count == 1
    return buffered
