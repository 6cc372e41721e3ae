"""Where pushes may be sent to, and with which keys."""

import base64
from collections.abc import Sequence

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain.base64url import to_base64url
from deckhand.domain.errors import InvalidSubscription, UnknownHost
from deckhand.domain.push_endpoint import MAX_LENGTH, PUSH_HOSTS, connect_to, is_public, parse_endpoint
from deckhand.domain.push_keys import checked_point, checked_secret
from deckhand.push.addresses import addresses

CASE_65 = (
    "http://push.test/x",
    "https://127.0.0.1/x",
    "https://169.254.169.254/",
    "https://u@push.test/",
    "https://push.test:8443/x",
    "https://localhost/x",
    "https://push.test/" + "x" * 3_000,
)
ODD = (
    "",
    "push.test/x",
    "https://",
    "https:///x",
    "ftp://push.test/x",
    "https://u:p@push.test/",
    "https://push.test:0/x",
    "https://push.test:99999/x",
    "https://push.test:80/x",
    "https://[::1]/x",
    "https://[::ffff:127.0.0.1]/x",
    "https://[fd00::1.2.3.4]/x",
    "https://10.0.0.1/x",
    "https://172.16.0.1/x",
    "https://192.168.1.1/x",
    "https://100.64.0.1/x",
    "https://0.0.0.0/x",
    "https://224.0.0.1/x",
    "https://2130706433/x",
    "https://127.1/x",
    "https://0x7f.0.0.1/x",
    "https://0177.0.0.01/x",
    "https://127.0.0.0x1/x",
    "https://localhost./x",
    "https://push.test./x",
    "https://push..test/x",
    "https://-push.test/x",
    "https://push_1.test/x",
    "https://pu sh.test/x",
    "https://push.test/\n",
    "https://push.test\\@127.0.0.1/x",
    "https://push.test/x#part",
    "https://püsh.test/x",
    "https://127.0.0.1\u3002test/x",
)


def leads_to(*found: str) -> Sequence[str]:
    return found


@pytest.mark.parametrize("url", [*CASE_65, *ODD])
def test_case_65_an_endpoint_that_is_no_public_https_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidSubscription):
        parse_endpoint(url)
    if url not in ("", "https://"):
        with pytest.raises(InvalidSubscription):
            parse_endpoint(url, allow_loopback=True)


@pytest.mark.parametrize(
    "url",
    [
        "https://fcm.googleapis.com/fcm/send/abc:123",
        "https://updates.push.services.mozilla.com/wpush/v2/gAAA=",
        "https://web.push.apple.com/QGuQ",
        "https://db5p.notify.windows.com/w/?token=BQYA%2f",
    ],
)
def test_the_push_services_of_the_browsers_are_reached_by_name(url: str) -> None:
    endpoint = parse_endpoint(url)

    def never(_: str) -> Sequence[str]:
        raise AssertionError

    assert connect_to(endpoint, never) == endpoint.host
    assert endpoint.origin + endpoint.target == url


@pytest.mark.parametrize("host", PUSH_HOSTS)
def test_a_host_that_only_looks_like_a_push_service_is_looked_up(host: str) -> None:
    for name in (f"evil{host}", f"{host}.evil.test"):
        with pytest.raises(InvalidSubscription):
            connect_to(parse_endpoint(f"https://{name}/x"), lambda _: leads_to("10.0.0.1"))


def test_a_host_that_nobody_knows_is_connected_to_at_the_address_that_was_checked() -> None:
    endpoint = parse_endpoint("https://push.example.org:443/x?y=1")
    assert connect_to(endpoint, lambda _: leads_to("93.184.216.34", "2606:2800:220:1::1")) == "93.184.216.34"
    assert (endpoint.origin, endpoint.target) == ("https://push.example.org", "/x?y=1")


@pytest.mark.parametrize("private", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fe80::1%eth0", "nonsense"])
def test_one_private_address_among_public_ones_is_enough_to_refuse(private: str) -> None:
    endpoint = parse_endpoint("https://push.example.org/x")
    with pytest.raises(InvalidSubscription):
        connect_to(endpoint, lambda _: leads_to("93.184.216.34", private))


def test_a_host_without_an_address_is_refused() -> None:
    with pytest.raises(InvalidSubscription):
        connect_to(parse_endpoint("https://push.example.org/x"), lambda _: leads_to())


@pytest.mark.parametrize(
    "address",
    [
        "::ffff:93.184.216.34",
        "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "64:ff9b::7f00:1",
        "fec0::1",
        "fc00::1",
        "ff02::1",
        "2001:db8::1",
        "192.0.2.1",
        "198.18.0.1",
        "240.0.0.1",
        "255.255.255.255",
    ],
)
def test_special_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


@given(st.ip_addresses(v=4, network="10.0.0.0/8") | st.ip_addresses(v=6, network="fc00::/7"))
def test_private_networks_are_never_public(address: object) -> None:
    assert not is_public(str(address))


@given(st.text(max_size=60))
def test_any_text_is_an_endpoint_or_refused(text: str) -> None:
    for url in (text, f"https://{text}", f"https://push.test/{text}"):
        try:
            endpoint = parse_endpoint(url)
        except InvalidSubscription:
            continue
        assert len(url) <= MAX_LENGTH
        assert endpoint.scheme == "https"
        assert endpoint.port == 443
        assert "." in endpoint.host


def test_plain_http_to_this_machine_passes_only_where_that_is_allowed() -> None:
    url = "http://127.0.0.1:4711/push/x"
    with pytest.raises(InvalidSubscription):
        parse_endpoint(url)
    endpoint = parse_endpoint(url, allow_loopback=True)
    assert (endpoint.origin, endpoint.port, endpoint.target) == ("http://127.0.0.1:4711", 4711, "/push/x")
    with pytest.raises(InvalidSubscription):
        parse_endpoint("http://10.0.0.1/x", allow_loopback=True)


def test_a_name_that_leads_nowhere_is_told_apart() -> None:
    with pytest.raises(UnknownHost):
        addresses("no-such-host.invalid")


# -- keys


def point() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def forms(raw: bytes) -> list[str]:
    """Every way in which browsers and libraries write bytes."""
    url, plain = base64.urlsafe_b64encode(raw).decode(), base64.b64encode(raw).decode()
    return [url, url.rstrip("="), plain, plain.rstrip("="), url.rstrip("=") + "=="]


def test_keys_are_taken_in_any_form_of_base64_and_kept_in_one() -> None:
    raw = point()
    assert {checked_point(form) for form in forms(raw)} == {to_base64url(raw)}
    assert {checked_secret(form) for form in forms(b"\xfb\xff" * 8)} == {to_base64url(b"\xfb\xff" * 8)}


def test_a_key_that_is_no_point_on_the_curve_is_refused() -> None:
    raw = point()
    off = raw[:-1] + bytes([raw[-1] ^ 1])
    compressed = bytes([2 + raw[-1] % 2]) + raw[1:33]
    for bad in (b"", raw[:-1], raw + b"\0", b"\x05" + raw[1:], bytes(65), b"\x04" + bytes(64), off, compressed):
        with pytest.raises(InvalidSubscription):
            checked_point(to_base64url(bad))


@pytest.mark.parametrize("text", ["", "!", "a", "ä" * 22, to_base64url(bytes(15)), to_base64url(bytes(17))])
def test_a_secret_that_is_no_16_bytes_is_refused(text: str) -> None:
    with pytest.raises(InvalidSubscription):
        checked_secret(text)


@given(st.text(max_size=100))
def test_any_text_is_a_key_or_refused(text: str) -> None:
    for check in (checked_point, checked_secret):
        try:
            check(text)
        except InvalidSubscription:
            continue
