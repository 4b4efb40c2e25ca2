"""Tests of the TLS settings in client.properties: certificates, keys, trust stores, key stores, protocols and
ciphers."""

from __future__ import annotations

import itertools
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from service.kafka.settings import ClientSettings
from tests.helpers.certificates import Authority, pkcs12
from tests.helpers.reader_options import option_of, through_spark
from tests.service.kafka import properties

STORE_PASSWORD = "of the store"
TRUST = ("ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def trusted(authority: Authority) -> Path:
    return pkcs12(authority.certificate, STORE_PASSWORD)


@pytest.fixture(scope="module")
def own(authority: Authority) -> Path:
    """Returns a store with a certificate for localhost, its key, and the certificate of the authority."""
    return pkcs12(authority.issue("own"), STORE_PASSWORD, more=authority.certificate)


def load(tmp_path: Path, *lines: str) -> ClientSettings:
    return properties.load(tmp_path, "\n".join(["security.protocol=SSL", *lines, ""]), "localhost:9093")


def context(settings: ClientSettings) -> ssl.SSLContext:
    found: ssl.SSLContext = settings.kafka_python()["ssl_context"]
    return found


def refusal(tmp_path: Path, *lines: str) -> str:
    return properties.refusal(tmp_path, "\n".join(["security.protocol=SSL", *lines, ""]))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("store_type", ["PKCS12", "pkcs12", "JKS"])
def test_the_lines_of_a_store_may_be_in_any_order(
    tmp_path: Path, trusted: Path, order: tuple[int, ...], store_type: str
) -> None:
    lines = [f"{key}={value}" for key, value in zip(TRUST, (trusted, STORE_PASSWORD, store_type), strict=True)]
    assert len(context(load(tmp_path, *(lines[at] for at in order))).get_ca_certs()) == 1


@pytest.mark.parametrize("is_there", [True, False], ids=["here", "on another machine"])
def test_a_key_store_identifies_the_client(tmp_path: Path, authority: Authority, own: Path, is_there: bool) -> None:
    settings = load(
        tmp_path,
        f"ssl.truststore.location={authority.certificate}",
        f"ssl.keystore.password={STORE_PASSWORD}",
        f"ssl.keystore.location={own}",
        "ssl.keystore.type=PKCS12",
    )
    if not is_there:
        settings = through_spark(settings.portable())
        assert str(own) not in option_of(settings)
        assert "BEGIN PRIVATE KEY" not in option_of(settings), "the private key stays encrypted"
    assert answer_of_server(own.with_suffix(".pem"), context(settings), authority.certificate) == b"own"


def test_a_wrong_store_is_named_without_its_password(
    tmp_path: Path, authority: Authority, trusted: Path, own: Path
) -> None:
    at = f"ssl.truststore.location={trusted}"
    assert refusal(tmp_path, at) == f"ssl.truststore.location: {trusted}: ssl.truststore.password is missing"
    assert refusal(tmp_path, at, "ssl.truststore.password=guess") == (
        f"ssl.truststore.location: {trusted}: neither PEM nor PKCS12, or ssl.truststore.password is wrong"
    )
    assert refusal(tmp_path, at, "ssl.truststore.type=PEM") == f"ssl.truststore.type=PEM, but {trusted} is not PEM"
    pem = f"ssl.truststore.location={authority.certificate}"
    assert refusal(tmp_path, pem, "ssl.truststore.type=JKS").endswith(f"but {authority.certificate} is PEM")
    assert refusal(tmp_path, pem, "ssl.truststore.password=x").startswith("ssl.truststore.password cannot be given")
    assert refusal(tmp_path, pem, "ssl.truststore.certificates=x").endswith("exclude each other: give only one of them")
    keyless = (f"ssl.keystore.location={trusted}", f"ssl.keystore.password={STORE_PASSWORD}")
    assert refusal(tmp_path, *keyless) == f"ssl.keystore.location: {trusted} has no private key"
    key = (f"ssl.keystore.location={own}", f"ssl.keystore.password={STORE_PASSWORD}", "ssl.key.password=guess")
    assert (
        refusal(tmp_path, *key) == f"ssl.keystore.location: {own}: neither PEM nor PKCS12, or ssl.key.password is wrong"
    )
    both = (f"ssl.truststore.location={own}", f"ssl.truststore.password={STORE_PASSWORD}")
    assert "has a private key: give a store with only the trusted" in refusal(tmp_path, *both)


@pytest.mark.parametrize(("magic", "store_type"), [("feedfeed", "JKS"), ("cececece", "JCEKS")])
def test_a_store_that_only_java_reads_is_refused_with_a_convert_command(
    tmp_path: Path, magic: str, store_type: str
) -> None:
    store = tmp_path / "my store.jks"
    store.write_bytes(bytes.fromhex(magic) + bytes(8))
    said = refusal(tmp_path, "ssl.truststore.password=x", f"ssl.truststore.location={store}")
    assert said == (
        f"ssl.truststore.location: {store} is {store_type}, which only Java reads; to convert it, run:"
        f" keytool -importkeystore -srckeystore '{store}' -srcstoretype {store_type}"
        f" -destkeystore '{tmp_path}/my store.p12' -deststoretype PKCS12"
    )


def test_the_convert_command_makes_a_store_that_can_be_read(tmp_path: Path, authority: Authority) -> None:
    store, password = tmp_path / "trusted.jks", "of the store"
    keytool = ["keytool", "-importcert", "-noprompt", "-alias", "a", "-file", str(authority.certificate)]
    made = ["-keystore", str(store), "-storetype", "JKS", "-storepass", password]
    try:
        subprocess.run([*keytool, *made], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no keytool: it comes with a JDK")
    lines = [f"ssl.truststore.location={store}", f"ssl.truststore.password={password}"]
    command = refusal(tmp_path, *lines).partition("to convert it, run: ")[2]
    flags = f" -noprompt -srcstorepass '{password}' -deststorepass '{password}'"
    subprocess.run(command + flags, shell=True, check=True, capture_output=True)
    lines[0] = f"ssl.truststore.location={store.with_suffix('.p12')}"
    assert len(context(load(tmp_path, *lines)).get_ca_certs()) == 1


V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("line", "oldest", "newest"),
    [
        ("", V12, V13),
        ("ssl.enabled.protocols=TLSv1.3", V13, V13),
        ("ssl.enabled.protocols=TLSv1.1, TLSv1.2", V12, V12),
        ("ssl.protocol=TLSv1.2", V12, V12),
        ("ssl.protocol=TLS", V12, V13),
        ("ssl.cipher.suites=TLS_AES_256_GCM_SHA384", V13, V13),
        ("ssl.cipher.suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", V12, V12),
    ],
)
def test_only_enabled_tls_protocols_are_used(
    tmp_path: Path, line: str, oldest: ssl.TLSVersion, newest: ssl.TLSVersion
) -> None:
    made = context(load(tmp_path, line))
    assert (made.minimum_version, made.maximum_version) == (oldest, newest)


def test_only_listed_ciphers_that_openssl_has_are_used(tmp_path: Path) -> None:
    suites = [
        "TLS_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_RSA_WITH_AES_128_CBC_SHA",
        "TLS_RSA_WITH_NULL_SHA256",
        "TLS_EMPTY_RENEGOTIATION_INFO_SCSV",
    ]
    made = context(load(tmp_path, f"ssl.cipher.suites={','.join(suites)}"))
    assert {cipher["name"] for cipher in made.get_ciphers() if cipher["protocol"] != "TLSv1.3"} == {
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "DHE-RSA-AES128-SHA256",
        "AES128-SHA",
    }
    assert ": neither TLSv1.2 nor TLSv1.3 is left" in refusal(tmp_path, "ssl.cipher.suites=TLS_RSA_WITH_NULL_SHA256")


PASSWORD = "of the key"


@pytest.fixture(scope="module")
def self_signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a file with a self-signed certificate for localhost and its encrypted key, as in one of Java's PEM
    stores."""
    folder = tmp_path_factory.mktemp("self_signed")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-passout", f"pass:{PASSWORD}"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", *names, *files], check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_text((folder / "certificate.pem").read_text() + (folder / "key.pem").read_text())
    return both


def own_lines(self_signed: Path, password: str = PASSWORD) -> list[str]:
    trust = f"ssl.truststore.location={self_signed.parent / 'certificate.pem'}"
    return [trust, f"ssl.keystore.location={self_signed}", f"ssl.key.password={password}"]


def answer_of_server(self_signed: Path, context: ssl.SSLContext, trusted: Path | None = None) -> bytes:
    """Connects with `context` to a TLS server that has the certificate and the key in `self_signed`. Returns the name
    in the client's certificate as the server reads it.

    The server accepts only certificates that `trusted` signed. By default, `trusted` is the server's own certificate.
    """
    demanding = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    demanding.load_cert_chain(self_signed, password=PASSWORD)
    demanding.verify_mode = ssl.CERT_REQUIRED
    demanding.load_verify_locations(trusted or self_signed.parent / "certificate.pem")
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


def test_settings_for_other_machines_need_no_files(tmp_path: Path, self_signed: Path) -> None:
    here = load(tmp_path, *own_lines(self_signed))
    there = through_spark(here.portable())
    assert str(self_signed.parent) not in option_of(there)
    arguments = there.kafka_python()
    assert answer_of_server(self_signed, arguments["ssl_context"]) == b"localhost"


def test_certificates_as_text_are_used_beside_a_file(tmp_path: Path, self_signed: Path) -> None:
    text = (self_signed.parent / "certificate.pem").read_text().replace("\n", "\\n")
    arguments = load(tmp_path, f"ssl.truststore.certificates={text}", *own_lines(self_signed)[1:]).kafka_python()
    assert answer_of_server(self_signed, arguments["ssl_context"]) == b"localhost"


def test_settings_without_files_stay_as_they_are() -> None:
    settings = ClientSettings.load("a:9092", None)
    assert settings.portable() == settings
    assert "ssl_context" not in settings.kafka_python()


def test_text_without_a_certificate_is_named(tmp_path: Path) -> None:
    key = "ssl.keystore.key=-----BEGIN"
    assert "ssl.keystore.key needs ssl.keystore.certificate.chain" in refusal(tmp_path, key)
    assert "ssl.truststore.certificates" in refusal(tmp_path, "ssl.truststore.certificates=nothing")


def test_a_key_that_cannot_be_read_is_named_and_its_password_is_not(tmp_path: Path, self_signed: Path) -> None:
    refused = refusal(tmp_path, *own_lines(self_signed, "another one"))
    assert refused.startswith(f"ssl.keystore.location: {self_signed}: ")
    assert "another one" not in refused
