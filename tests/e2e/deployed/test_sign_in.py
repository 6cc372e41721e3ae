"""Signing in to the deployment: each function looks sessions up by the little that its role allows."""

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import httpx2
import pytest
from botocore.exceptions import ClientError

from tests.authenticator import Authenticator
from tests.e2e.deployed.conftest import ENROL_CODE, ORIGIN, WAIT_S, Deployed, Emulator


def enrolled(client: httpx2.Client, code: str) -> httpx2.Client:
    """Signed in by the cookie of the answer alone."""
    options = client.post("/auth/register/options", json={"invite": code, "name": "Ada"})
    assert options.status_code == 200, options.text
    made = client.post("/auth/register/verify", json=Authenticator(ORIGIN).create(options.json()))
    assert made.status_code == 201, made.text
    name, _, secret = made.headers["set-cookie"].partition(";")[0].partition("=")
    assert name == "__Host-deckhand"
    client.headers["Cookie"] = f"{name}={secret}"
    return client


@pytest.fixture(scope="module")
def owner(deployed: Deployed) -> Iterator[httpx2.Client]:
    """Enrolled with the code from the parameter store."""
    with httpx2.Client(base_url=deployed.api.base_url, headers={"Origin": ORIGIN}, timeout=WAIT_S) as client:
        yield enrolled(client, ENROL_CODE)


@pytest.mark.parametrize("path", ["/api/manifests", "/api/conversations", "/api/chat/turns", "/api/users"])
def test_every_function_knows_who_is_signed_in(owner: httpx2.Client, path: str) -> None:
    assert owner.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/api/manifests", "/api/conversations", "/api/chat/turns", "/api/users"])
def test_a_cookie_that_is_made_up_opens_nothing(owner: httpx2.Client, path: str) -> None:
    answer = owner.get(path, headers={"Cookie": "__Host-deckhand=made-up"})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


def test_an_invited_viewer_reads_and_writes_nothing(owner: httpx2.Client) -> None:
    invite = owner.post("/api/invites", json={"role": "viewer"}).json()["code"]
    with httpx2.Client(base_url=owner.base_url, headers={"Origin": ORIGIN}, timeout=WAIT_S) as client:
        viewer = enrolled(client, invite)
        assert viewer.get("/api/manifests").status_code == 200
        assert viewer.post("/api/manifests", json={"meta": {"id": "x", "label": "X"}}).status_code == 403


def table_as(emulator: Emulator, function: str) -> tuple[Any, str]:
    """A client with the rights of a function's role, and the name of the identity table."""
    resources = emulator.client("cloudformation").describe_stack_resources(StackName="deckhand")["StackResources"]
    names = {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources}
    role = emulator.client("iam").get_role(RoleName=names[f"{function}Role"])["Role"]["Arn"]
    keys = emulator.client("sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
    session = boto3.Session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], region_name="us-east-1")
    return session.client("dynamodb", endpoint_url=emulator.url), names["IdentityTable"]


def refusal(step: Callable[[], object]) -> str | None:
    try:
        step()
    except ClientError as error:
        return error.response["Error"]["Code"]
    return None


@pytest.mark.parametrize("function", ["Chat", "Conversations", "Manifests"])
def test_other_functions_look_up_sessions_and_list_no_users(
    owner: httpx2.Client, emulator: Emulator, function: str
) -> None:
    client, table = table_as(emulator, function)

    key = {"pk": {"S": "session#none"}, "sk": {"S": "it"}}
    of_users = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": "main#users"}}}
    # Which keys they may look up is a condition that the emulator does not know; the template's tests hold it.
    assert refusal(lambda: client.get_item(TableName=table, Key=key)) is None
    assert refusal(lambda: client.query(TableName=table, **of_users)) == "AccessDeniedException"
    assert refusal(lambda: client.scan(TableName=table)) == "AccessDeniedException"
    assert refusal(lambda: client.delete_item(TableName=table, Key=key)) == "AccessDeniedException"
