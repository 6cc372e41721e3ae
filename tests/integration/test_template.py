"""What the template becomes: linters pass much that would not work, so this looks at what SAM makes of it."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from fnmatch import fnmatchcase
from typing import Any

import pytest

from deckhand.domain.access_token import AccessToken
from deckhand.domain.account import Account
from deckhand.storage.accounts import Accounts
from deckhand.storage.port import Item, ItemStore, Key, Op, Page, Table
from deckhand.storage.sqlite import SqliteStore
from deckhand.storage.tokens import Tokens
from tests.api import Api
from tests.sam import TEMPLATE, transformed_template
from tests.stores import Clock, new_token

# The only actions that have no resource to name.
RESOURCELESS = {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}
ITEM_ACTIONS = {
    f"dynamodb:{name}" for name in ("GetItem", "Query", "PutItem", "DeleteItem", "ConditionCheckItem", "BatchWriteItem")
}
TABLES_OF = {
    "ChatFunction": {"DeckTable", "TurnsTable"},
    "ConversationsFunction": {"DeckTable", "TurnsTable"},
    "ManifestsFunction": {"DeckTable"},
    "IdentityFunction": {"DeckTable", "IdentityTable"},
    "RemindersFunction": {"DeckTable"},
    "JobsFunction": {"DeckTable", "TurnsTable"},
}
LOOKED_UP_BY = {"ChatFunction", "ConversationsFunction", "ManifestsFunction"}
"""They ask who is calling, so they may look up one credential at a time; only identity may list or change any."""
SWITCHED = ["*#users", "*#tokens"]
"""Whom the switch of the assistant may name."""
GATEWAY_WAITS_S = 29
SECRETS = {
    "ChatApiKeyParameter": "/deckhand/key",
    "AgentApiTokenParameter": "/deckhand/token",
    "AdminTokenParameter": "/deckhand/admin",
    "ChatApiTokenParameter": "/deckhand/direct",
    "ConductorTokenParameter": "/deckhand/conductor",
    "EnrolCodeParameter": "/deckhand/enrol",
    "VapidKeyParameter": "/deckhand/vapid",
}
SECRET_VARIABLES = {
    "CHAT_API_KEY",
    "CHAT_API_TOKEN",
    "CHAT_CONDUCTOR_TOKEN",
    "AGENT_API_TOKEN",
    "DECKHAND_ADMIN_TOKEN",
    "DECKHAND_ENROL_CODE",
    "DECKHAND_VAPID_KEY",
}
SECRETS_OF = {
    "ChatFunction": {
        "ChatApiKeyParameter",
        "ChatApiTokenParameter",
        "ConductorTokenParameter",
        "AgentApiTokenParameter",
        "AdminTokenParameter",
    },
    "ConversationsFunction": {"AgentApiTokenParameter"},
    "ManifestsFunction": {"AgentApiTokenParameter", "AdminTokenParameter"},
    "IdentityFunction": {"AgentApiTokenParameter", "EnrolCodeParameter", "VapidKeyParameter"},
    "RemindersFunction": set(),
    "JobsFunction": {"ChatApiKeyParameter", "VapidKeyParameter"},
}
Resources = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def resources() -> Resources:
    """All resources after the transform, by logical id."""
    found: Resources = transformed_template(parameters=SECRETS)["Resources"]
    return found


def of_type(resources: Resources, kind: str) -> Resources:
    found = {name: resource["Properties"] for name, resource in resources.items() if resource["Type"] == kind}
    assert found
    return found


def integrations(resources: Resources) -> Iterator[tuple[str, str, Any]]:
    """Method, path and integration of every route."""
    paths: dict[str, dict[str, Any]] = resources["Api"]["Properties"]["Body"]["paths"]
    for path, methods in paths.items():
        for method, described in methods.items():
            yield method.upper(), path, described["x-amazon-apigateway-integration"]


def statements(resources: Resources, role: str) -> list[dict[str, Any]]:
    """Every statement of a role, those that stand behind a condition included."""
    policies = resources[role]["Properties"]["Policies"]
    found = [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]
    return [statement["Fn::If"][1] if "Fn::If" in statement else statement for statement in found]


def statements_of(resources: Resources, function: str) -> list[dict[str, Any]]:
    return statements(resources, resources[function]["Properties"]["Role"]["Fn::GetAtt"][0])


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def named(resource: Any) -> str:
    """The logical id, or the parameter, that a policy's resource names."""
    if "Fn::GetAtt" in resource:
        name: str = resource["Fn::GetAtt"][0]
        return name
    text: str = resource["Fn::Sub"]
    return text.rpartition("${")[2].rstrip("}")


def test_all_routes_of_chat_stream_and_no_others(resources: Resources) -> None:
    streaming = {
        (method, path)
        for method, path, integration in integrations(resources)
        if integration.get("responseTransferMode") == "STREAM"
    }
    assert streaming == {
        ("POST", "/api/chat"),
        ("GET", "/api/chat/status"),
        ("GET", "/api/chat/turns"),
        ("DELETE", "/api/chat/turns"),
        ("GET", "/api/chat/proposals"),
        ("POST", "/api/chat/proposals/decisions"),
        ("POST", "/api/chat/proposals/{id}/confirm"),
        ("POST", "/api/chat/proposals/{id}/reject"),
        ("GET", "/api/chat/turn/{conversationId}"),
        ("DELETE", "/api/chat/turn/{conversationId}"),
    }


def test_a_streaming_route_calls_its_function_by_the_streaming_address(resources: Resources) -> None:
    for _, path, integration in integrations(resources):
        streams = integration.get("responseTransferMode") == "STREAM"
        end = "/response-streaming-invocations" if streams else "/invocations"
        assert integration["uri"]["Fn::Sub"].endswith(f"Function.Arn}}{end}"), path
        assert streams == ("/2021-11-15/" in integration["uri"]["Fn::Sub"]), path


def test_a_stream_may_last_as_long_as_its_function_may_run(resources: Resources) -> None:
    chat = resources["ChatFunction"]["Properties"]
    times = {i.get("timeoutInMillis") for _, _, i in integrations(resources) if "responseTransferMode" in i}
    assert times == {chat["Timeout"] * 1000} == {900_000}


def test_a_buffered_function_ends_within_the_time_that_the_gateway_waits(resources: Resources) -> None:
    for _, path, integration in integrations(resources):
        if "responseTransferMode" not in integration:
            function = integration["uri"]["Fn::Sub"].rpartition("${")[2].partition(".")[0]
            assert resources[function]["Properties"]["Timeout"] <= GATEWAY_WAITS_S, path
            assert "timeoutInMillis" not in integration, path


def test_no_route_takes_any_method(resources: Resources) -> None:
    assert {method for method, _, _ in integrations(resources)} <= {"GET", "POST", "PUT", "PATCH", "DELETE"}


def test_the_api_is_regional(resources: Resources) -> None:
    assert resources["Api"]["Properties"]["EndpointConfiguration"] == {"Types": ["REGIONAL"]}


def test_chat_starts_through_the_wrapper_that_streams_and_the_others_do_not(resources: Resources) -> None:
    started = {}
    for name, function in of_type(resources, "AWS::Lambda::Function").items():
        variables = function["Environment"]["Variables"]
        started[name] = variables.get("AWS_LAMBDA_EXEC_WRAPPER"), variables.get("RESPONSE_MODE")
    assert started == {
        "ChatFunction": ("/opt/stream-wrapper", "stream"),
        "ConversationsFunction": (None, None),
        "ManifestsFunction": (None, None),
        "IdentityFunction": (None, None),
        "RemindersFunction": (None, None),
        "JobsFunction": (None, None),
    }


def test_the_tracer_never_reads_an_answer(resources: Resources) -> None:
    for function in of_type(resources, "AWS::Lambda::Function").values():
        assert function["Environment"]["Variables"]["POWERTOOLS_TRACER_CAPTURE_RESPONSE"] == "false"


def test_the_wrapper_in_the_layer_can_be_executed() -> None:
    assert (TEMPLATE.parent / "layers/deckhand/stream-wrapper").stat().st_mode & 0o111 == 0o111


def test_every_function_runs_on_the_layers_with_a_log_group_whose_entries_go(resources: Resources) -> None:
    groups = of_type(resources, "AWS::Logs::LogGroup")
    for function in of_type(resources, "AWS::Lambda::Function").values():
        assert function["Runtime"] == "python3.13"
        assert function["TracingConfig"] == {"Mode": "Active"}
        assert len(function["Layers"]) == 2
        assert groups[function["LoggingConfig"]["LogGroup"]["Ref"]]["RetentionInDays"] == {"Ref": "LogRetentionDays"}


@pytest.mark.parametrize("table", ["DeckTable", "TurnsTable", "IdentityTable"])
def test_items_that_expire_are_removed(resources: Resources, table: str) -> None:
    assert resources[table]["Properties"]["TimeToLiveSpecification"] == {"AttributeName": "expires", "Enabled": True}


@pytest.mark.parametrize("table", ["DeckTable", "IdentityTable"])
def test_what_cannot_be_made_again_can_be_restored_and_outlives_its_stack(resources: Resources, table: str) -> None:
    recovery = resources[table]["Properties"]["PointInTimeRecoverySpecification"]
    assert recovery == {"PointInTimeRecoveryEnabled": True}
    assert resources[table]["DeletionPolicy"] == resources[table]["UpdateReplacePolicy"] == "Retain"


def test_tables_are_encrypted_paid_by_use_and_keyed_alike(resources: Resources) -> None:
    tables = of_type(resources, "AWS::DynamoDB::Table")
    assert set(tables) == {"DeckTable", "TurnsTable", "IdentityTable"}
    for table in tables.values():
        assert table["BillingMode"] == "PAY_PER_REQUEST"
        assert table["SSESpecification"] == {"SSEEnabled": True}
        assert [(key["AttributeName"], key["KeyType"]) for key in table["KeySchema"]] == [
            ("pk", "HASH"),
            ("sk", "RANGE"),
        ]
        assert {a["AttributeType"] for a in table["AttributeDefinitions"]} == {"S"}


def test_each_function_has_a_role_of_its_own(resources: Resources) -> None:
    functions = of_type(resources, "AWS::Lambda::Function").values()
    roles = {function["Role"]["Fn::GetAtt"][0] for function in functions}
    assert len(roles) == len(functions)


def test_no_role_has_a_wildcard_or_a_policy_that_is_not_ours(resources: Resources) -> None:
    for name, role in of_type(resources, "AWS::IAM::Role").items():
        assert "ManagedPolicyArns" not in role, name
        for statement in statements(resources, name):
            actions = set(listed(statement["Action"]))
            assert not any("*" in action for action in actions), name
            assert actions <= RESOURCELESS or "*" not in listed(statement["Resource"]), name


@pytest.mark.parametrize("function", list(TABLES_OF))
def test_a_function_reaches_only_its_tables_and_only_by_items(resources: Resources, function: str) -> None:
    allowed = [
        (set(listed(statement["Action"])), {named(resource) for resource in listed(statement["Resource"])})
        for statement in statements_of(resources, function)
        if any(action.startswith("dynamodb:") for action in listed(statement["Action"]))
        and "Condition" not in statement
    ]
    assert allowed == [(ITEM_ACTIONS, TABLES_OF[function])]


@pytest.mark.parametrize("function", list(TABLES_OF))
def test_credentials_are_looked_up_one_by_one_and_listed_by_identity_only(resources: Resources, function: str) -> None:
    conditional = [
        statement
        for statement in statements_of(resources, function)
        if "Condition" in statement and not reaches_devices(statement)
    ]
    reaches = [
        (listed(statement["Action"]), [named(resource) for resource in listed(statement["Resource"])])
        for statement in conditional
    ]
    read, written = (["dynamodb:GetItem"], ["IdentityTable"]), (["dynamodb:PutItem"], ["IdentityTable"])
    who, rules = ["token#*", "session#*", "configured"], "*#policy"
    keys = [statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"] for statement in conditional]
    if function in ("IdentityFunction", "RemindersFunction"):
        assert reaches == []
    elif function in LOOKED_UP_BY:
        # The one thing that is written is that a session was used.
        named_by_switch = [read] if function == "ConversationsFunction" else []
        assert reaches == [read, *named_by_switch, written]
        assert keys == [[*who, rules], *([SWITCHED] if named_by_switch else []), ["session#*"]]
    else:
        assert (reaches, keys) == ([read], [[rules]])


class Reached:
    """A store by the rights of a function: of credentials it reaches what it may look up, and what it may list."""

    def __init__(self, inner: ItemStore, allowed: list[dict[str, Any]]) -> None:
        self.inner, self.allowed = inner, allowed

    def get(self, key: Key) -> Item | None:
        self.check("dynamodb:GetItem", key.table, key.pk)
        return self.inner.get(key)

    def query(self, table: Table, pk: str, **options: Any) -> Page:
        self.check("dynamodb:Query", table, pk)
        return self.inner.query(table, pk, **options)

    def write(self, ops: Sequence[Op], *, token: str) -> None:
        assert "identity" not in {op.key.table for op in ops}
        self.inner.write(ops, token=token)

    def delete_many(self, keys: Sequence[Key]) -> None:
        assert "identity" not in {key.table for key in keys}
        self.inner.delete_many(keys)

    def check(self, action: str, table: Table, pk: str) -> None:
        keys = [
            key
            for statement in self.allowed
            if "Condition" in statement and action in listed(statement["Action"])
            for key in statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
        ]
        assert table != "identity" or any(fnmatchcase(pk, key) for key in keys), (action, pk)


@pytest.mark.parametrize(
    ("scope", "id", "status"),
    [("user", "cat", 200), ("token", "t1", 200), ("user", "nobody", 404), ("token", "none", 404)],
)
def test_the_switch_asks_for_nothing_that_its_function_may_not_read(
    resources: Resources, scope: str, id: str, status: int
) -> None:
    clock = Clock()
    with closing(SqliteStore(":memory:", now=clock)) as store:
        cat = Account(id="cat", name="Cat", role="viewer", created_at=0.0)
        Accounts(store, "main", new_id=new_token).add(cat, [])
        token = AccessToken(id="t1", name="t", role="agent", user="cat", tenant="main", created_at="")
        Tokens(store, now=clock, new_id=new_token).add(token, secret="s", expires=None)
        reached = Reached(store, statements_of(resources, "ConversationsFunction"))
        with closing(Api(reached)) as api:
            answer = api("PUT", "/api/agent/switches", {"scope": scope, "id": id, "enabled": False})
    assert answer.status == status, answer.content


def reaches_devices(statement: dict[str, Any]) -> bool:
    keys = statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
    return bool(keys == ["*#push#*", "*#device#*"])


@pytest.mark.parametrize("function", list(TABLES_OF))
def test_only_the_function_that_pushes_reaches_devices_and_makes_none(resources: Resources, function: str) -> None:
    found = [one for one in statements_of(resources, function) if "Condition" in one and reaches_devices(one)]
    reaches = [(set(one["Action"]), named(one["Resource"])) for one in found]
    actions = {"dynamodb:GetItem", "dynamodb:Query", "dynamodb:DeleteItem"}
    assert reaches == ([(actions, "IdentityTable")] if function == "JobsFunction" else [])


@pytest.mark.parametrize("function", list(SECRETS_OF))
def test_a_function_reads_the_secrets_that_its_environment_names_and_no_others(
    resources: Resources, function: str
) -> None:
    readable = {
        named(statement["Resource"])
        for statement in statements_of(resources, function)
        if listed(statement["Action"]) == ["ssm:GetParameter"]
    }
    variables = resources[function]["Properties"]["Environment"]["Variables"].values()
    given = {
        value["Fn::If"][1]["Fn::Sub"].removeprefix("ssm:${").rstrip("}")
        for value in variables
        if isinstance(value, dict) and "Fn::If" in value
    }
    assert readable == given == SECRETS_OF[function]


def test_reports_are_encrypted_and_never_public(resources: Resources) -> None:
    bucket = resources["ReportsBucket"]["Properties"]
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["BucketEncryption"]
    assert resources["ReportsBucket"]["DeletionPolicy"] == "Retain"


def test_only_the_function_for_cards_writes_reports(resources: Resources) -> None:
    writers = {
        function
        for function in TABLES_OF
        for statement in statements_of(resources, function)
        if {"s3:PutObject", "s3:DeleteObject"} & set(listed(statement["Action"]))
    }
    assert writers == {"ManifestsFunction"}


def test_every_function_has_expectations_here(resources: Resources) -> None:
    assert set(of_type(resources, "AWS::Lambda::Function")) == set(TABLES_OF) == set(SECRETS_OF)


def test_a_job_stays_hidden_while_its_worker_may_run_and_is_put_aside_after_five_tries(resources: Resources) -> None:
    queue = resources["JobsQueue"]["Properties"]
    assert queue["VisibilityTimeout"] > resources["JobsFunction"]["Properties"]["Timeout"]
    assert queue["RedrivePolicy"]["maxReceiveCount"] == 5


def test_a_job_that_fails_is_the_only_one_that_comes_again(resources: Resources) -> None:
    [mapping] = of_type(resources, "AWS::Lambda::EventSourceMapping").values()
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_the_template_names_no_secret(resources: Resources) -> None:
    for function in of_type(resources, "AWS::Lambda::Function").values():
        variables = function["Environment"]["Variables"]
        for name in SECRET_VARIABLES & set(variables):
            assert variables[name]["Fn::If"][1]["Fn::Sub"].startswith("ssm:")
