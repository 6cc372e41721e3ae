"""Settings from the environment, typed, read once. Every bad value is named at once; secrets may be
`ssm:<parameter>`.
"""

import os
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from deckhand.domain.access import ConfirmWrites
from deckhand.domain.allowance import Allowance
from deckhand.domain.price import Prices, read_prices
from deckhand.domain.times import zone

ORIGIN = re.compile(r"(https://[a-z0-9.-]+|http://localhost)(:[0-9]{1,5})?")
VAPID_SUBJECT = re.compile(r"mailto:[^@\s]+@([\w-]+\.)+[\w-]+|https://([\w-]+\.)+[\w-]+")
"""An address that a push service may write to (RFC 8292, section 2.1). Apple's takes none without a full domain."""


PARAMETER = "ssm:"
"""Begins the name of a parameter that holds a secret."""
VAPID_KEY = re.compile(r"[A-Za-z0-9_+/-]{42,}=*")
SECRETS = ("chat_api_key", "agent_api_token", "chat_api_token", "chat_conductor_token", "deckhand_admin_token")
"""Those that are sent in headers."""
TRUE = ("1", "true", "t", "yes", "y", "on")


class SettingsError(Exception):
    """The environment cannot be used; the message names every variable at fault and never a value."""


class Settings(BaseModel):
    """Field names are the environment's names in lower case. An empty variable counts as unset."""

    model_config = ConfigDict(frozen=True, extra="ignore", arbitrary_types_allowed=True)

    chat_endpoint_url: str | None = None
    chat_api_key: SecretStr | None = None
    chat_model: str = ""
    chat_gateway_port: int | None = Field(default=None, ge=1, le=65_535)
    chat_gateway_tls: bool = False
    health_system_prompt: str | None = None
    chat_agent_name: str = "Chat"
    chat_agent_emoji: str = "💬"
    chat_max_turns: int = Field(default=36, ge=1)
    chat_iter_timeout_ms: int = Field(default=180_000, ge=0)
    chat_turn_deadline_ms: int = Field(default=720_000, ge=0)
    chat_prompt_cache: bool = True
    chat_prompt_profile: Literal["full", "compact"] = "full"
    chat_daily_tokens: int = Field(default=0, ge=0)
    chat_daily_cost_usd: Decimal = Field(default=Decimal(0), ge=0)
    chat_prices: Prices = Prices()
    chat_window_chars: int = Field(default=24_000, ge=1)
    health_debug: bool = False
    agent_api_token: SecretStr | None = None
    chat_proposal_ttl_ms: int = Field(default=900_000, ge=1_000)
    confirm_writes: ConfirmWrites = "destructive"

    chat_api_token: SecretStr | None = None
    chat_max_concurrent: int = 1
    chat_conductor_token: SecretStr | None = None
    chat_conductor_pod: str = Field(default="", pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,63})?$")
    chat_conductor_url: str | None = None
    chat_conductor_cooldown_s: int = Field(default=300, ge=1)
    deckhand_admin_token: SecretStr | None = None
    deckhand_origins: tuple[str, ...] = ()
    deckhand_enrol_code: SecretStr | None = None
    deckhand_rate_per_minute: int = Field(default=0, ge=0)
    reports_bucket: str = ""
    s3_endpoint: str | None = None
    deckhand_reports: str | None = None

    deckhand_tz: str = "UTC"
    deckhand_sqlite: str | None = None
    deckhand_vapid_key: SecretStr | None = None
    deckhand_vapid_subject: str = "mailto:operator@example.com"
    deckhand_push_allow_loopback: bool = False
    deckhand_demo: bool = False
    deckhand_clock_offset_s: float = Field(default=0.0, allow_inf_nan=False)
    deck_table: str = "deck"
    turns_table: str = "turns"
    identity_table: str = "identity"
    dynamodb_endpoint: str | None = None
    jobs_queue_url: str = ""
    sqs_endpoint: str | None = None
    response_mode: Literal["stream", "buffer"] = "buffer"

    @field_validator("deckhand_tz")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        try:
            zone(name)
        except ValueError:
            raise ValueError("must be the IANA name of a time zone") from None
        return name

    @field_validator("deckhand_vapid_subject")
    @classmethod
    def _reachable_subject(cls, subject: str) -> str:
        if not VAPID_SUBJECT.fullmatch(subject):
            raise ValueError("must be mailto: and an address, or https:// and a host, with a full domain")
        return subject

    @field_validator("deckhand_vapid_key")
    @classmethod
    def _key_for_pushes(cls, key: SecretStr | None) -> SecretStr | None:
        """As far as its form goes: what can read it takes long to load."""
        text = "" if key is None else key.get_secret_value().strip()
        if key is not None and not text.startswith((PARAMETER, "-----BEGIN")) and not VAPID_KEY.fullmatch(text):
            raise ValueError("must be a key as `deckhand vapid` prints it")
        return key

    @field_validator(*SECRETS)
    @classmethod
    def _sendable(cls, secret: SecretStr | None) -> SecretStr | None:
        text = "" if secret is None else secret.get_secret_value()
        if any(character < " " or character == "\x7f" for character in text):
            raise ValueError("holds a line break or another character that no header carries")
        if text.strip() == PARAMETER:
            raise ValueError("names no parameter")
        return secret

    @field_validator("chat_prices", mode="before")
    @classmethod
    def _price_table(cls, table: Any) -> Any:
        return read_prices(table) if isinstance(table, str) else table

    @field_validator("deckhand_push_allow_loopback", "deckhand_clock_offset_s")
    @classmethod
    def _laptop_only(cls, value: Any, info: ValidationInfo) -> Any:
        if value and not info.data.get("deckhand_sqlite"):
            raise ValueError("is for the laptop and for tests only")
        return value

    @field_validator("chat_max_concurrent", mode="before")
    @classmethod
    def _never_wider(cls, value: Any) -> int:
        """What cannot be read, or is below 1, is 1 (seed 002)."""
        try:
            return max(1, int(value))
        except (TypeError, ValueError):
            return 1

    @field_validator("deckhand_origins", mode="before")
    @classmethod
    def _origins(cls, value: Any) -> Any:
        """A comma list. Browsers have passkeys on https pages and on localhost only."""
        found = tuple(part.strip().rstrip("/") for part in value.split(",")) if isinstance(value, str) else value
        if not all(ORIGIN.fullmatch(origin) for origin in found):
            raise ValueError("must be origins such as https://deck.example.org, with commas between them")
        return found

    @field_validator("chat_endpoint_url", "chat_conductor_url")
    @classmethod
    def _http_url(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        return url

    @field_validator("chat_conductor_url")
    @classmethod
    def _whole_conductor(cls, url: str | None, rest: ValidationInfo) -> str | None:
        if url is not None and not (rest.data.get("chat_conductor_token") and rest.data.get("chat_conductor_pod")):
            raise ValueError("needs CHAT_CONDUCTOR_TOKEN and CHAT_CONDUCTOR_POD beside it")
        return url

    @model_validator(mode="before")
    @classmethod
    def _legacy_gateway(cls, given: Any) -> Any:
        """`CHAT_GATEWAY_*` compose the canonical variables while those are unset."""
        if not isinstance(given, dict) or "chat_endpoint_url" in given or "chat_gateway_host" not in given:
            return given
        secure = str(given.get("chat_gateway_tls", "")).lower() in TRUE
        port = f":{given['chat_gateway_port']}" if "chat_gateway_port" in given else ""
        composed = {
            "chat_endpoint_url": f"{'https' if secure else 'http'}://{given['chat_gateway_host']}{port}/v1/chat/completions",
            "chat_api_key": given.get("chat_gateway_token"),
            "chat_model": given.get("chat_gateway_model", ""),
        }
        return {**composed, **given}

    @property
    def zone(self) -> ZoneInfo:
        return zone(self.deckhand_tz)

    @property
    def allowance(self) -> Allowance:
        """What each principal may use a day."""
        return Allowance(tokens=self.chat_daily_tokens or None, cost=self.chat_daily_cost_usd or None)

    @property
    def chat_configured(self) -> bool:
        return self.chat_endpoint_url is not None


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Raises `SettingsError` with every name at fault."""
    source = os.environ if environment is None else environment
    given = {name.lower(): value for name, value in source.items() if value != ""}
    try:
        return Settings.model_validate(given)
    except ValidationError as invalid:
        faults = [f"{str(e['loc'][0]).upper()} ({_told(e['msg'])})" for e in invalid.errors() if e["loc"]]
        raise SettingsError("These settings cannot be used: " + "; ".join(faults)) from None


def _told(message: str) -> str:
    return message.removeprefix("Value error, ")
