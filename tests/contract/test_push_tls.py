"""A push goes to the address that was checked, and only to whoever can prove the name."""

import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from urllib3.exceptions import SSLError

from deckhand.domain.push_endpoint import Endpoint
from deckhand.push.sender import post

NAME = "push.example.org"
BODY = b"secret"


def certificate(folder: Path, name: str) -> Path:
    """A key and a certificate for `name`, signed by itself, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / f"{name}.pem"
    file.write_bytes(private + made.public_bytes(pem))
    return file


WAIT_S = 30
"""Ends a test that hangs; no test waits that long."""


class TlsServer:
    """Takes one connection. `asked` is the name that was asked for."""

    def __init__(self, pem: Path) -> None:
        self.asked: str | None = None
        self._request = b""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pem)
        self._context.sni_callback = self._note
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(WAIT_S)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def endpoint(self) -> Endpoint:
        port = self._listening.getsockname()[1]
        return Endpoint(f"https://{NAME}/x", "https", NAME, port, "/x?y=1", trusted=False)

    @property
    def request(self) -> bytes:
        """All that came through, once the connection has ended."""
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        return self._request

    def close(self) -> None:
        self._thread.join(WAIT_S)
        self._listening.close()

    def _note(self, _: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> None:
        self.asked = name

    def _serve(self) -> None:
        connection, _ = self._listening.accept()
        connection.settimeout(WAIT_S)
        try:
            with self._context.wrap_socket(connection, server_side=True) as secure:
                # Whoever closes on bytes that it has not read resets the connection, and its answer may be lost.
                while not self._request.endswith(BODY) and (more := secure.recv(65_536)):
                    self._request += more
                secure.sendall(b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n")
        except OSError:
            connection.close()  # who came did not like the certificate


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TlsServer]:
    """Of a name that its test gives; whoever signed for it is trusted."""
    pem = certificate(tmp_path, request.param)
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    made = TlsServer(pem)
    yield made
    made.close()


@pytest.mark.parametrize("server", [NAME], indirect=True)
def test_the_address_is_connected_to_in_the_name_of_the_host(server: TlsServer) -> None:
    status, headers = post(server.endpoint, "127.0.0.1", BODY, {"Host": NAME})
    assert (status, headers["retry-after"]) == (429, "7")
    assert server.asked == NAME
    assert server.request.startswith(b"POST /x?y=1 HTTP/1.1\r\n")
    assert server.request.lower().count(b"host: ") == 1
    assert f"Host: {NAME}\r\n".encode() in server.request


@pytest.mark.parametrize("server", ["other.example.org"], indirect=True)
def test_case_65_whoever_cannot_prove_the_name_gets_nothing(server: TlsServer) -> None:
    with pytest.raises(SSLError):
        post(server.endpoint, "127.0.0.1", BODY, {"Host": NAME})
    assert server.request == b""


@pytest.mark.parametrize("server", [NAME], indirect=True)
def test_a_certificate_that_nobody_signed_gets_nothing(server: TlsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(SSLError):
        post(server.endpoint, "127.0.0.1", BODY, {"Host": NAME})
    assert server.request == b""
