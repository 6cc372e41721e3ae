"""Settings from the environment."""

from decimal import Decimal

import pytest

from deckhand.domain.allowance import Allowance
from deckhand.push.vapid import new_key
from deckhand.settings import Settings, SettingsError, read_settings


def test_nothing_set_gives_the_defaults() -> None:
    settings = read_settings({})
    assert (settings.chat_max_turns, settings.chat_iter_timeout_ms, settings.chat_turn_deadline_ms) == (
        36,
        180_000,
        720_000,
    )
    assert (settings.chat_agent_name, settings.chat_agent_emoji, settings.chat_window_chars) == ("Chat", "💬", 24_000)
    assert (settings.chat_configured, settings.chat_prompt_cache, settings.deckhand_tz) == (False, True, "UTC")


def test_an_empty_variable_counts_as_unset() -> None:
    assert read_settings({"CHAT_MAX_TURNS": "", "AGENT_API_TOKEN": "", "CHAT_ENDPOINT_URL": ""}) == Settings()


def test_every_bad_variable_is_named_at_once_and_no_value_is() -> None:
    bad = {
        "CHAT_MAX_TURNS": "0",
        "CHAT_ITER_TIMEOUT_MS": "soon",
        "CHAT_TURN_DEADLINE_MS": "-1",
        "CHAT_PROMPT_CACHE": "perhaps",
        "CHAT_ENDPOINT_URL": "ftp://secret-host",
        "DECKHAND_TZ": "Mars/Secret",
        "RESPONSE_MODE": "sekret-mode",
        "CHAT_DAILY_TOKENS": "-1",
        "CHAT_DAILY_COST_USD": "NaN",
        "CHAT_PRICES": '{"m": "secret"}',
        "DECKHAND_RATE_PER_MINUTE": "1.5",
        "CHAT_GATEWAY_TLS": "perhaps",
        "DECKHAND_VAPID_KEY": "secret",
        "CHAT_API_KEY": "secret\n",
        "AGENT_API_TOKEN": "ssm:",
    }
    with pytest.raises(SettingsError) as error:
        read_settings(bad)
    assert [name for name in bad if name not in str(error.value)] == []
    assert "secret" not in str(error.value).lower()
    assert "soon" not in str(error.value)
    assert "Value error" not in str(error.value)


@pytest.mark.parametrize("name", ["../etc/passwd", "/etc/localtime", "UTC\x00", "Nowhere"])
def test_a_zone_that_does_not_exist_stops_the_start(name: str) -> None:
    with pytest.raises(SettingsError, match="DECKHAND_TZ"):
        read_settings({"DECKHAND_TZ": name})


def test_zero_switches_a_time_limit_off() -> None:
    settings = read_settings({"CHAT_ITER_TIMEOUT_MS": "0", "CHAT_TURN_DEADLINE_MS": "0"})
    assert (settings.chat_iter_timeout_ms, settings.chat_turn_deadline_ms) == (0, 0)


@pytest.mark.parametrize(("tls", "scheme"), [("1", "https"), ("true", "https"), ("0", "http"), ("", "http")])
def test_the_legacy_variables_make_up_the_address(tls: str, scheme: str) -> None:
    legacy = {
        "CHAT_GATEWAY_HOST": "models.test",
        "CHAT_GATEWAY_PORT": "8080",
        "CHAT_GATEWAY_TLS": tls,
        "CHAT_GATEWAY_TOKEN": "t0ken",
        "CHAT_GATEWAY_MODEL": "small",
    }
    settings = read_settings(legacy)
    assert settings.chat_endpoint_url == f"{scheme}://models.test:8080/v1/chat/completions"
    assert settings.chat_model == "small"
    assert settings.chat_api_key is not None
    assert settings.chat_api_key.get_secret_value() == "t0ken"


def test_the_address_wins_over_the_legacy_variables() -> None:
    given = {"CHAT_ENDPOINT_URL": "https://a.test/chat", "CHAT_GATEWAY_HOST": "b.test", "CHAT_GATEWAY_TOKEN": "t"}
    settings = read_settings(given)
    assert (settings.chat_endpoint_url, settings.chat_api_key) == ("https://a.test/chat", None)


def test_a_legacy_port_that_is_no_number_is_named() -> None:
    with pytest.raises(SettingsError, match="CHAT_GATEWAY_PORT"):
        read_settings({"CHAT_GATEWAY_HOST": "b.test", "CHAT_GATEWAY_PORT": "eighty", "CHAT_MAX_TURNS": "0"})


def test_a_secret_is_not_shown() -> None:
    settings = read_settings({"CHAT_API_KEY": "k-123456", "AGENT_API_TOKEN": "t-123456"})
    assert "123456" not in repr(settings) + str(settings)


def test_an_allowance_of_zero_is_none() -> None:
    assert not read_settings({"CHAT_DAILY_TOKENS": "0", "CHAT_DAILY_COST_USD": "0.00"}).allowance.is_limited
    settings = read_settings({"CHAT_DAILY_TOKENS": "5000", "CHAT_DAILY_COST_USD": "0.1"})
    assert settings.allowance == Allowance(tokens=5_000, cost=Decimal("0.1"))


def test_a_bad_price_stops_the_start_with_the_name_of_its_model() -> None:
    with pytest.raises(SettingsError, match=r"CHAT_PRICES .*gpt-9"):
        read_settings({"CHAT_PRICES": '{"gpt-9": {"input": 1}}'})


def test_prices_are_found_by_the_name_of_a_model() -> None:
    settings = read_settings({"CHAT_PRICES": '{"gpt-*": {"input": 1, "output": 2}}'})
    assert settings.chat_prices.find("gpt-9") is not None
    assert read_settings({}).chat_prices.find("gpt-9") is None


def test_origins_are_a_comma_list() -> None:
    settings = read_settings(
        {"DECKHAND_ORIGINS": "https://deck.example.org/, https://b.test:8443,http://localhost:8787"}
    )
    assert settings.deckhand_origins == ("https://deck.example.org", "https://b.test:8443", "http://localhost:8787")
    assert read_settings({}).deckhand_origins == ()


@pytest.mark.parametrize(
    "origins",
    ["deck.example.org", "http://deck.example.org", "https://a.test/path", "https://a.test,", "https://u@a.test", "*"],
)
def test_what_is_no_origin_of_passkeys_stops_the_start(origins: str) -> None:
    with pytest.raises(SettingsError, match="DECKHAND_ORIGINS"):
        read_settings({"DECKHAND_ORIGINS": origins})


def test_pushes_to_this_machine_are_for_the_laptop_only() -> None:
    allowed = {"DECKHAND_PUSH_ALLOW_LOOPBACK": "1"}
    assert read_settings({**allowed, "DECKHAND_SQLITE": "x.sqlite3"}).deckhand_push_allow_loopback
    with pytest.raises(SettingsError, match="DECKHAND_PUSH_ALLOW_LOOPBACK"):
        read_settings(allowed)


@pytest.mark.parametrize("key", [new_key(), f" {new_key()}\n", "ssm:/deckhand/vapid-key"])
def test_a_key_for_pushes_is_one_or_names_where_it_is(key: str) -> None:
    assert read_settings({"DECKHAND_VAPID_KEY": key}).deckhand_vapid_key is not None


@pytest.mark.parametrize("subject", ["mailto:ann@example.org", "https://deck.example"])
def test_a_push_service_is_told_whom_to_write_to(subject: str) -> None:
    assert read_settings({"DECKHAND_VAPID_SUBJECT": subject}).deckhand_vapid_subject == subject


@pytest.mark.parametrize("subject", ["ann@example.org", "mailto:ann", "mailto:ann@localhost", "https://a b.example"])
def test_an_address_that_push_services_refuse_stops_the_start(subject: str) -> None:
    with pytest.raises(SettingsError, match="DECKHAND_VAPID_SUBJECT"):
        read_settings({"DECKHAND_VAPID_SUBJECT": subject})


CONDUCTOR = {
    "CHAT_CONDUCTOR_URL": "https://conductor.test",
    "CHAT_CONDUCTOR_TOKEN": "t-123456",
    "CHAT_CONDUCTOR_POD": "qwen",
}


def test_a_conductor_is_three_settings_and_a_cooldown() -> None:
    settings = read_settings({**CONDUCTOR, "CHAT_CONDUCTOR_COOLDOWN_S": "60"})
    assert (settings.chat_conductor_pod, settings.chat_conductor_cooldown_s) == ("qwen", 60)
    assert "123456" not in repr(settings)


@pytest.mark.parametrize("missing", ["CHAT_CONDUCTOR_TOKEN", "CHAT_CONDUCTOR_POD"])
def test_002_22_half_a_conductor_stops_the_start(missing: str) -> None:
    with pytest.raises(SettingsError, match=missing):
        read_settings({**CONDUCTOR, missing: ""})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CHAT_CONDUCTOR_URL", "conductor.test"),
        ("CHAT_CONDUCTOR_POD", "../admin"),
        ("CHAT_CONDUCTOR_POD", "a b"),
        ("CHAT_CONDUCTOR_COOLDOWN_S", "0"),
        ("CHAT_CONDUCTOR_COOLDOWN_S", "soon"),
    ],
)
def test_a_conductor_that_cannot_be_used_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        read_settings({**CONDUCTOR, name: value})


def test_a_clock_is_moved_on_the_laptop_only() -> None:
    moved = {"DECKHAND_CLOCK_OFFSET_S": "-86400.5"}
    assert read_settings({**moved, "DECKHAND_SQLITE": "x.sqlite3"}).deckhand_clock_offset_s == -86_400.5
    for bad in (moved, {"DECKHAND_SQLITE": "x.sqlite3", "DECKHAND_CLOCK_OFFSET_S": "nan"}):
        with pytest.raises(SettingsError, match="DECKHAND_CLOCK_OFFSET_S"):
            read_settings(bad)
