"""The environment that a function sees on the laptop: the template's, with the developer's settings over it."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from infra.local.template import Function

SETTINGS_PREFIXES = ("CHAT_", "HEALTH_", "DECKHAND_")
SETTINGS = ("AGENT_API_TOKEN", "CONFIRM_WRITES")
PASSED_ON = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "COVERAGE_PROCESS_START"),
)
"""What a process needs of its machine. AWS credentials are not among it: nothing on the laptop talks to the cloud."""


def developer_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings that the developer's shell gives."""
    return {name: value for name, value in environ.items() if name.startswith(SETTINGS_PREFIXES) or name in SETTINGS}


def function_environment(
    function: Function, environ: Mapping[str, str], *, data: Path, demo_url: str | None, origin: str
) -> dict[str, str]:
    """All variables of one function's processes. `demo_url` is the demo gateway's endpoint while no other is set;
    `origin` is where a browser finds the stack.
    """
    settings = {"DECKHAND_RATE_PER_MINUTE": "0", "DECKHAND_ORIGINS": origin, **developer_settings(environ)}
    if demo_url is not None:
        settings |= {"DECKHAND_DEMO": "1", "CHAT_ENDPOINT_URL": demo_url, "CHAT_MODEL": "demo"}
    return {
        **{name: environ[name] for name in PASSED_ON if name in environ},
        # The template's secrets are names of SSM parameters, which are out of reach here.
        **{name: value for name, value in function.environment.items() if not value.startswith("ssm:")},
        **settings,
        "DECKHAND_SQLITE": str(data / "deckhand.sqlite3"),
        "DECKHAND_REPORTS": str(data / "reports"),
        "RESPONSE_MODE": "stream",
        "POWERTOOLS_TRACE_DISABLED": "true",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory),
        "LAMBDA_TASK_ROOT": str(function.code),
        "TZ": ":UTC",
    }


def wants_demo(environ: Mapping[str, str]) -> bool:
    """Whether no gateway is set, in the present form or the legacy one."""
    return not environ.get("CHAT_ENDPOINT_URL") and not environ.get("CHAT_GATEWAY_HOST")


def shifted_clock(environ: Mapping[str, str]) -> Callable[[], float]:
    """The time that functions go by: the machine's, moved by `DECKHAND_CLOCK_OFFSET_S`. What is no number stops them
    anyhow.
    """
    try:
        offset = float(environ.get("DECKHAND_CLOCK_OFFSET_S") or 0)
    except ValueError:
        offset = 0.0
    return lambda: time.time() + offset
