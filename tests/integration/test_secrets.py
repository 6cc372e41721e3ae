"""Secrets in the Parameter Store: read decrypted, kept for five minutes, never guessed at."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import boto3
import pytest
from aws_lambda_powertools.utilities.parameters import base
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError
from moto import mock_aws

from deckhand.bootstrap import Parts
from deckhand.edge.secrets import resolve
from deckhand.settings import read_settings

NAME = "/deckhand/secret"
# With what they keep.
PROVIDERS: dict[str, Any] = vars(base)["DEFAULT_PROVIDERS"]


class Parameters:
    """The Parameter Store; `later` moves the clock by which values are kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client: Any = boto3.client("ssm")
        self._monkeypatch = monkeypatch

    def put(self, value: str) -> None:
        self.client.put_parameter(Name=NAME, Value=value, Type="SecureString", Overwrite=True)

    def later(self, seconds: float) -> None:
        class Later(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return datetime.now(tz) + timedelta(seconds=seconds)

        self._monkeypatch.setattr(base, "datetime", Later)


@pytest.fixture
def parameters(monkeypatch: pytest.MonkeyPatch) -> Iterator[Parameters]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    PROVIDERS.clear()
    with mock_aws():
        yield Parameters(monkeypatch)
    PROVIDERS.clear()


def test_a_value_that_names_no_parameter_is_the_secret() -> None:
    assert (resolve("s3cret"), resolve(""), resolve(None)) == ("s3cret", "", None)


def test_a_parameter_is_decrypted_and_kept_for_five_minutes(parameters: Parameters) -> None:
    parameters.put("one")
    assert resolve(f"ssm:{NAME}") == "one"
    parameters.put("two")
    parameters.later(298)
    assert resolve(f"ssm:{NAME}") == "one"
    parameters.later(302)
    assert resolve(f"ssm:{NAME}") == "two"


def test_a_parameter_that_is_not_there_opens_nothing(parameters: Parameters) -> None:
    with pytest.raises(GetParameterError):
        resolve(f"ssm:{NAME}")


def test_each_secret_of_the_settings_follows_its_parameter(parameters: Parameters) -> None:
    settings = {"CHAT_ENDPOINT_URL": "http://gateway.invalid/v1", "DECKHAND_SQLITE": "unused"}
    for name in ("CHAT_API_KEY", "AGENT_API_TOKEN", "DECKHAND_ADMIN_TOKEN"):
        settings[name] = f"ssm:{NAME}"
    parts = Parts(read_settings(settings))
    assert parts.gateway is not None
    for number, value in enumerate(("one", "two")):
        parameters.put(value)
        parameters.later(301 * number)
        assert parts.gateway._endpoint.api_key() == value
        assert (parts.authenticator._agent_token, parts.authenticator._admin_token) == (value, value)
