"""TLS is verified: a certificate that nobody signed gets neither key nor prompt."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from deckhand.domain.errors import GatewayFailed
from tests.gateway_asking import asker


@pytest.fixture
def unsigned(tmp_path: Path) -> ssl.SSLContext:
    """A server's context with a certificate for 127.0.0.1 that is signed by itself only."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "both.pem").write_bytes(private + certificate.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both.pem")
    return context


async def test_a_certificate_that_nobody_signed_is_refused_before_anything_is_sent(unsigned: ssl.SSLContext) -> None:
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.read(100))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=unsigned) as server:
        port = server.sockets[0].getsockname()[1]
        async with asker(f"https://127.0.0.1:{port}/v1/chat/completions") as asked:
            with pytest.raises(GatewayFailed):
                await asked.ask()

    assert requests == []
