"""TLS is verified: a certificate that nobody signed gets neither key nor prompt; whose signature counts can be set."""

import hashlib
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from deckhand.agent.conductor import HttpConductor
from deckhand.agent.wake import WakeFailed
from deckhand.domain.errors import GatewayFailed
from tests.gateway_asking import asker
from tests.scripted_gateway import Reply, ScriptedGateway, text_reply

AUTHORITY = "deck authority"


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    """A folder as `SSL_CERT_DIR` wants it, with an authority of our own; beside it what it signed for 127.0.0.1."""
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, AUTHORITY)])
    now = datetime.now(UTC)

    def certificate(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        made = x509.CertificateBuilder(issuer, subject, public, x509.random_serial_number())
        return made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))

    known = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    root = certificate(issuer, authority.public_key()).add_extension(x509.BasicConstraints(True, None), critical=True)
    root = root.add_extension(usage, critical=True).add_extension(known, critical=False)
    leaf = certificate(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gateway")]), key.public_key())
    leaf = leaf.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
    leaf = leaf.add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(known), critical=False)
    folder = tmp_path / "roots"
    folder.mkdir()
    (folder / _hashed(AUTHORITY)).write_bytes(root.sign(authority, hashes.SHA256()).public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "server.pem").write_bytes(private + leaf.sign(authority, hashes.SHA256()).public_bytes(Encoding.PEM))
    return folder


def _hashed(name: str) -> str:
    """The file's name by which OpenSSL finds an authority: a hash of its canonical subject, here a common name."""
    text = name.encode()
    value = bytes([0x06, 3, 0x55, 4, 3, 0x0C, len(text)]) + text
    subject = bytes([0x31, len(value) + 2, 0x30, len(value)]) + value
    return f"{int.from_bytes(hashlib.sha1(subject).digest()[:4], 'little'):08x}.0"  # noqa: S324 - OpenSSL's choice


@pytest.fixture
def gateway(roots: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedGateway]:
    """On https; nobody is told whom to trust."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(roots.parent / "server.pem")
    with ScriptedGateway(tls) as serving:
        yield serving
        serving.verify()


async def test_a_certificate_that_nobody_signed_is_refused_before_anything_is_sent(gateway: ScriptedGateway) -> None:
    async with asker(gateway.url) as asked:
        with pytest.raises(GatewayFailed):
            await asked.ask()
    assert gateway.requests == []


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
async def test_an_authority_that_the_environment_names_is_trusted(
    gateway: ScriptedGateway, roots: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, str(roots / _hashed(AUTHORITY) if name == "SSL_CERT_FILE" else roots))
    gateway.queue(text_reply("Hi"))
    async with asker(gateway.url) as asked:
        assert (await asked.ask()).text == "Hi"


async def test_roots_that_cannot_be_read_are_a_failure_of_the_gateway_and_told_in_the_log(
    gateway: ScriptedGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "nothing.pem"))
    async with asker(gateway.url) as asked:
        with pytest.raises(GatewayFailed):
            await asked.ask()
    assert [getattr(record, "cause", None) for record in caplog.records] == ["SSL_CERT_FILE or SSL_CERT_DIR"]


def test_the_conductor_is_trusted_by_the_same_roots(
    gateway: ScriptedGateway, roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conductor = HttpConductor(gateway.url.removesuffix("/v1/chat/completions"), token=lambda: "t", pod="qwen")
    with pytest.raises(WakeFailed):
        conductor.status()
    monkeypatch.setenv("SSL_CERT_FILE", str(roots / _hashed(AUTHORITY)))
    gateway.queue(Reply([b'{"state": "stopped"}'], headers={"content-type": "application/json"}))
    assert conductor.status().state == "stopped"
    monkeypatch.setenv("SSL_CERT_FILE", str(roots / "nothing.pem"))
    with pytest.raises(WakeFailed):
        conductor.status()
