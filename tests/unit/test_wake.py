"""When a pod counts as ready, and where prompts may be sent."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.agent.wake import PodStatus, WakeFailed, instant, safe_endpoint, standing

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()
OURS = "https://models.test/v1/chat/completions"


@pytest.mark.parametrize(
    ("since", "found"),
    [
        ("2026-01-02T03:04:05Z", "ready"),
        ("2026-01-02T03:04:05+00:00", "ready"),
        ("2026-01-02T05:04:05.000+02:00", "ready"),
        ("2025-12-31T23:59:59Z", "ready"),
        (None, "starting"),
    ],
)
def test_002_16_a_running_pod_is_ready_from_its_instant_on(since: str | None, found: str) -> None:
    assert standing(PodStatus("running", OURS, since), now=NOW) == found


@pytest.mark.parametrize(
    "since",
    ["2026-01-02T03:04:05.001Z", "2026-01-02T03:04:05-00:01", "2026-01-02T03:04:05", "2026-01-02", "", "now", "0"],
)
def test_002_16_an_instant_ahead_or_none_at_all_is_refused(since: str) -> None:
    with pytest.raises(WakeFailed):
        standing(PodStatus("running", OURS, since), now=NOW)


@pytest.mark.parametrize("state", ["", "Stopped", "exited", "stopping", "running "])
def test_002_22_a_state_that_is_not_in_the_contract_is_refused(state: str) -> None:
    with pytest.raises(WakeFailed):
        standing(PodStatus(state, OURS, "2026-01-01T00:00:00Z"), now=NOW)


@given(state=st.text() | st.sampled_from(["running", "starting", "stopped"]), since=st.text() | st.none())
def test_whatever_a_conductor_says_is_a_standing_or_refused(state: str, since: str | None) -> None:
    try:
        found = standing(PodStatus(state, OURS, since), now=NOW)
    except WakeFailed:
        return
    assert found != "ready" or (since is not None and (instant(since) or 0) <= NOW)


@given(st.integers(min_value=0, max_value=4_000_000_000), st.integers(min_value=-1439, max_value=1439))
def test_an_instant_is_the_same_at_any_offset(seconds: int, minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    assert instant(datetime.fromtimestamp(seconds, zone).isoformat()) == seconds


@pytest.mark.parametrize(
    "url",
    [
        "https://pods.test/v1/chat/completions",
        "https://abc-8000.proxy.pods.test:8443/v1/chat/completions?version=1",
        "https://8.8.8.8/v1",
        "https://[2606:4700::1111]/v1",
        "HTTPS://MODELS.TEST/other",
        OURS,
    ],
)
def test_002_16_https_at_a_public_host_is_safe(url: str) -> None:
    assert safe_endpoint(url, configured=OURS)


@pytest.mark.parametrize(
    "url",
    [
        None,
        "",
        "pods.test",
        "http://pods.test/v1",
        "http://models.test/v1/chat/completions",
        "https://user@pods.test/v1",
        "https://user:key@pods.test/v1",
        "https://@pods.test/v1",
        "https://models.test@evil.test/v1",
        "https:///v1",
        "https://:443/v1",
        "https://pods.test:0/v1",
        "https://pods.test:99999/v1",
        "https://pods.test:port/v1",
        "https://pods.test/v1#part",
        "https://pods.test/v 1",
        "https://pods.test/v1\n",
        "https://pods.test\\@evil.test/v1",
        "https://pods.test\t/v1",
        "https://pöds.test/v1",
        "ftp://pods.test/v1",
        "javascript:alert(1)",
        "https://localhost/v1",
        "https://inner.localhost./v1",
        "https://127.0.0.1/v1",
        "https://10.1.2.3/v1",
        "https://192.168.0.1/v1",
        "https://169.254.169.254/latest",
        "https://[::1]/v1",
        "https://[fd00::1]/v1",
        "https://[::ffff:127.0.0.1]/v1",
        "https://[::1/v1",
        "https://2130706433/v1",
        "https://0x7f.1/v1",
        "https://127.1/v1",
        "https://127.0.0.0x1/v1",
    ],
)
def test_002_16_no_other_address_is_safe(url: str | None) -> None:
    assert not safe_endpoint(url, configured=OURS)


def test_the_deployments_own_scheme_and_host_are_safe_whatever_they_are() -> None:
    assert safe_endpoint("http://127.0.0.1:9/v1", configured="http://127.0.0.1:8080/v1/chat/completions")
    assert not safe_endpoint("http://127.0.0.1:9/v1", configured="https://127.0.0.1:8080/v1/chat/completions")
    assert not safe_endpoint("http://127.0.0.2:9/v1", configured="http://127.0.0.1:8080/v1/chat/completions")


@given(st.text() | st.text().map(lambda text: f"https://{text}"))
def test_any_text_is_safe_or_not(url: str) -> None:
    assert not safe_endpoint(url, configured=OURS) or url.lower().startswith("https://")
