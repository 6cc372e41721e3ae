"""What the laptop stack reads from a template."""

from pathlib import Path
from typing import Any

import pytest

from infra.local.intrinsics import Resolver, TemplateError
from infra.local.template import Function, Route, read_template, specificity, starlette_path

TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Parameters:
  Model: {Type: String, Default: small}
  Stage: {Type: String, Default: dev}
Conditions:
  Production: !Equals [!Ref Stage, prod]
  Always: !Not [!Condition Production]
Globals:
  Function:
    Timeout: 30
    Handler: handler.handler
    Environment:
      Variables:
        CHAT_MODEL: !Ref Model
        DECK_TABLE: !Ref DeckTable
        ONLY_IN_PRODUCTION: !If [Production, "1", !Ref AWS::NoValue]
        FLAG: true
Resources:
  DeckTable:
    Type: AWS::DynamoDB::Table
  Chat:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: functions/chat/
      Timeout: 900
      MemorySize: 512
      Environment:
        Variables:
          CHAT_MODEL: !Sub "${Model}-${AWS::Region}"
      Policies: [!GetAtt DeckTable.Arn, {"Fn::Transform": {Name: x}}]
      Events:
        Start:
          Type: Api
          Properties: {Path: /api/chat, Method: post, ResponseTransferMode: RESPONSE_STREAM, RestApiId: !Ref Api}
        Turn:
          Type: Api
          Properties: {Path: "/api/chat/turn/{conversationId}", Method: GET, ResponseTransferMode: RESPONSE_STREAM}
        Sweep:
          Type: Schedule
          Properties: {Schedule: rate(1 minute)}
  Cards:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: functions/manifests/
      Events:
        Any: {Type: Api, Properties: {Path: "/api/docs/{path+}", Method: any}}
  Sweeper:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: functions/reminders/
      Events:
        Sweep: {Type: Schedule, Properties: {Schedule: rate(1 minute)}}
  Extra:
    Type: AWS::Serverless::Function
    Condition: Production
    Properties:
      CodeUri: functions/extra/
      Events:
        Get: {Type: Api, Properties: {Path: /extra, Method: get}}
"""


@pytest.fixture
def functions(tmp_path: Path) -> dict[str, Function]:
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    return {function.name: function for function in read_template(tmp_path / "template.yaml")}


def test_a_function_whose_condition_is_false_is_left_out(functions: dict[str, Function]) -> None:
    assert list(functions) == ["Chat", "Cards", "Sweeper"]


def test_what_starts_a_function_besides_requests_is_known(functions: dict[str, Function]) -> None:
    assert [function.schedule for function in functions.values()] == [True, False, True]
    assert [function.queue for function in functions.values()] == [False, False, False]


def test_a_functions_own_values_win_over_the_shared_ones(functions: dict[str, Function]) -> None:
    assert (functions["Chat"].timeout, functions["Cards"].timeout) == (900.0, 30.0)
    assert (functions["Chat"].memory, functions["Cards"].handler) == (512, "handler.handler")


def test_the_code_is_beside_the_template(functions: dict[str, Function], tmp_path: Path) -> None:
    assert functions["Chat"].code == tmp_path / "functions" / "chat"


def test_routes_keep_method_resource_and_transfer_mode(functions: dict[str, Function]) -> None:
    assert functions["Chat"].routes == (
        Route("POST", "/api/chat", streams=True),
        Route("GET", "/api/chat/turn/{conversationId}", streams=True),
    )
    assert functions["Cards"].routes == (Route("ANY", "/api/docs/{path+}"),)


def test_variables_are_merged_and_resolved(functions: dict[str, Function]) -> None:
    assert functions["Chat"].environment == {
        "CHAT_MODEL": "small-us-east-1",
        "DECK_TABLE": "DeckTable",
        "FLAG": "true",
    }


@pytest.mark.parametrize(
    ("route", "long"),
    [
        (Route("POST", "/api/chat", streams=True), True),
        (Route("GET", "/api/chat/turn/{id}", streams=True), True),
        (Route("DELETE", "/api/chat/turn/{id}", streams=True), False),
        (Route("GET", "/api/chat/status", streams=True), False),
        (Route("POST", "/api/conversations"), False),
    ],
)
def test_a_stop_and_a_list_are_not_long(route: Route, long: bool) -> None:
    assert route.long is long


def test_literal_paths_are_chosen_before_parameters() -> None:
    paths = ["/a/{rest+}", "/a/{id}", "/a/b", "/a/{id}/c", "/a"]
    assert sorted(paths, key=specificity) == ["/a", "/a/b", "/a/{id}", "/a/{id}/c", "/a/{rest+}"]


def test_a_greedy_parameter_takes_slashes() -> None:
    assert starlette_path("/api/docs/{path+}") == "/api/docs/{path:path}"


@pytest.mark.parametrize(
    ("value", "resolved"),
    [
        ({"Fn::Join": ["-", ["a", {"Ref": "P"}]]}, "a-p"),
        ({"Fn::Select": [1, ["a", "b"]]}, "b"),
        ({"Fn::Split": [",", "a,b"]}, ["a", "b"]),
        ({"Fn::FindInMap": ["M", "one", "two"]}, 3),
        ({"Fn::GetAtt": ["T", "Arn"]}, "T.Arn"),
        ({"Fn::Sub": ["${A}/${P}/${!keep}", {"A": "x"}]}, "x/p/${keep}"),
        ({"Fn::If": ["Yes", "then", "else"]}, "then"),
        ([{"Ref": "AWS::NoValue"}, 1], [1]),
        ({"Fn::And": [{"Condition": "Yes"}, {"Fn::Not": [{"Condition": "Yes"}]}]}, False),
        ({"Fn::Or": [{"Condition": "Yes"}, {"Fn::Equals": ["a", "b"]}]}, True),
    ],
)
def test_intrinsic_functions_are_resolved(value: Any, resolved: Any) -> None:
    template = {
        "Parameters": {"P": {"Default": "p"}},
        "Conditions": {"Yes": {"Fn::Equals": ["1", 1]}},
        "Mappings": {"M": {"one": {"two": 3}}},
    }
    assert Resolver(template, {}).resolve(value) == resolved


def test_given_parameters_win_over_defaults() -> None:
    assert Resolver({"Parameters": {"P": {"Default": "p"}}}, {"P": "q"}).resolve({"Ref": "P"}) == "q"


@pytest.mark.parametrize(
    "text",
    ["{", "- a", "Resources: {F: {Type: 'AWS::Serverless::Function', Properties: {CodeUri: x}}}"],
    ids=["no YAML", "no mapping", "no handler"],
)
def test_a_template_that_cannot_be_used_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "template.yaml").write_text(text)
    with pytest.raises(TemplateError):
        read_template(tmp_path / "template.yaml")


def test_a_missing_template_is_named(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=r"template\.yaml is missing"):
        read_template(tmp_path / "template.yaml")
