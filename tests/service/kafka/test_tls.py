"""Certificates and keys as text in client.properties, against a server that demands a client's certificate."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from service.kafka.errors import BadClientConfig
from service.kafka.settings import ClientSettings
from tests.helpers.reader_options import option_of, through_spark

PASSWORD = "of the key"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost that trusts itself, and its encrypted key, in one file as Java's PEM stores have."""
    folder = tmp_path_factory.mktemp("own")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-passout", f"pass:{PASSWORD}"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", *names, *files], check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_text((folder / "certificate.pem").read_text() + (folder / "key.pem").read_text())
    return both


def properties(tmp_path: Path, own: Path, password: str = PASSWORD) -> ClientSettings:
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SSL\nssl.truststore.location={own.parent / 'certificate.pem'}\n"
        f"ssl.keystore.location={own}\nssl.key.password={password}\n"
    )
    return ClientSettings.load("localhost:9093", file)


def answer_of_server(own: Path, context: ssl.SSLContext, trusted: Path | None = None) -> bytes:
    """Returns the name of a client with `context`, from a server that demands a certificate which `trusted` (by default
    its own certificate) has signed."""
    demanding = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    demanding.load_cert_chain(own, password=PASSWORD)
    demanding.verify_mode = ssl.CERT_REQUIRED
    demanding.load_verify_locations(trusted or own.parent / "certificate.pem")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with demanding.wrap_socket(listening.accept()[0], server_side=True) as connection:
                connection.sendall(connection.getpeercert()["subject"][0][0][1].encode())  # type: ignore[index]

        server = threading.Thread(target=serve)
        server.start()
        with (
            socket.create_connection(listening.getsockname()) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as client,
        ):
            answer = client.recv(100)
        server.join()
    return answer


def test_settings_for_other_machines_need_no_files(tmp_path: Path, own: Path) -> None:
    here = properties(tmp_path, own)
    there = through_spark(here.portable())
    assert str(own.parent) not in option_of(there)
    arguments = there.kafka_python()
    assert answer_of_server(own, arguments["ssl_context"]) == b"localhost"


def test_text_beside_a_file_leaves_out_neither(tmp_path: Path, own: Path) -> None:
    text = (own.parent / "certificate.pem").read_text().replace("\n", "\\n")
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SSL\nssl.truststore.certificates={text}\nssl.keystore.location={own}\n"
        f"ssl.key.password={PASSWORD}\n"
    )
    arguments = ClientSettings.load("localhost:9093", file).kafka_python()
    assert answer_of_server(own, arguments["ssl_context"]) == b"localhost"


def test_a_key_without_its_certificate_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nssl.keystore.key=-----BEGIN\n")
    with pytest.raises(BadClientConfig, match=r"ssl\.keystore\.key needs ssl\.keystore\.certificate\.chain"):
        ClientSettings.load("a:9092", file)


def test_settings_without_files_stay_as_they_are() -> None:
    settings = ClientSettings.load("a:9092", None)
    assert settings.portable() == settings
    assert "ssl_context" not in settings.kafka_python()


def test_text_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nssl.truststore.certificates=nothing\n")
    with pytest.raises(BadClientConfig, match=r"ssl\.truststore\.certificates"):
        ClientSettings.load("a:9092", file)


def test_a_key_that_cannot_be_read_is_named_and_its_password_is_not(tmp_path: Path, own: Path) -> None:
    with pytest.raises(BadClientConfig, match=r"ssl\.keystore\.location: .*both\.pem: ") as failure:
        properties(tmp_path, own, "another one")
    assert "another one" not in str(failure.value)
