"""PKCS12 and JKS stores, and the protocols and ciphers that client.properties leave."""

from __future__ import annotations

import itertools
import ssl
import subprocess
from pathlib import Path

import pytest

from service.kafka.errors import BadClientConfig
from service.kafka.settings import ClientSettings
from tests.helpers.certificates import Authority, pkcs12
from tests.helpers.reader_options import option_of, through_spark
from tests.service.kafka.test_tls import answer_of_server

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
    """A store with a certificate for localhost, its key, and the certificate of the authority."""
    return pkcs12(authority.issue("own"), STORE_PASSWORD, more=authority.certificate)


def load(tmp_path: Path, *lines: str) -> ClientSettings:
    file = tmp_path / "client.properties"
    file.write_text("\n".join(["security.protocol=SSL", *lines, ""]))
    return ClientSettings.load("localhost:9093", file)


def context(settings: ClientSettings) -> ssl.SSLContext:
    found: ssl.SSLContext = settings.kafka_python()["ssl_context"]
    return found


def refusal(tmp_path: Path, *lines: str) -> str:
    with pytest.raises(BadClientConfig, match=r"^[^\n]*$") as refused:
        load(tmp_path, *lines)
    return str(refused.value).removeprefix(f"client properties {tmp_path}/client.properties: ")


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("store_type", ["PKCS12", "pkcs12", "JKS"])
def test_the_lines_of_a_store_stand_in_any_order(
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
        assert "BEGIN PRIVATE KEY" not in option_of(settings), "it stays encrypted"
    assert answer_of_server(own.with_suffix(".pem"), context(settings), authority.certificate) == b"own"


def test_what_is_wrong_with_a_store_is_named_without_its_password(
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
    assert refusal(tmp_path, pem, "ssl.truststore.certificates=x").endswith("exclude each other")
    keyless = (f"ssl.keystore.location={trusted}", f"ssl.keystore.password={STORE_PASSWORD}")
    assert refusal(tmp_path, *keyless) == f"ssl.keystore.location: {trusted} has no private key"
    both = (f"ssl.truststore.location={own}", f"ssl.truststore.password={STORE_PASSWORD}")
    assert "has a private key: give a store with only the trusted" in refusal(tmp_path, *both)


@pytest.mark.parametrize(("magic", "store_type"), [("feedfeed", "JKS"), ("cececece", "JCEKS")])
def test_the_command_that_converts_what_only_java_reads(tmp_path: Path, magic: str, store_type: str) -> None:
    store = tmp_path / "my store.jks"
    store.write_bytes(bytes.fromhex(magic) + bytes(8))
    said = refusal(tmp_path, "ssl.truststore.password=x", f"ssl.truststore.location={store}")
    assert said == (
        f"ssl.truststore.location: {store} is {store_type}: convert it: keytool -importkeystore"
        f" -srckeystore '{store}' -srcstoretype {store_type} -destkeystore '{tmp_path}/my store.p12'"
        " -deststoretype PKCS12"
    )


def test_the_command_converts(tmp_path: Path, authority: Authority) -> None:
    store, password = tmp_path / "trusted.jks", "of the store"
    keytool = ["keytool", "-importcert", "-noprompt", "-alias", "a", "-file", str(authority.certificate)]
    made = ["-keystore", str(store), "-storetype", "JKS", "-storepass", password]
    try:
        subprocess.run([*keytool, *made], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no keytool: it comes with a JDK")
    lines = [f"ssl.truststore.location={store}", f"ssl.truststore.password={password}"]
    command = refusal(tmp_path, *lines).partition("convert it: ")[2]
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
def test_the_protocols_that_are_left(tmp_path: Path, line: str, oldest: ssl.TLSVersion, newest: ssl.TLSVersion) -> None:
    made = context(load(tmp_path, line))
    assert (made.minimum_version, made.maximum_version) == (oldest, newest)


def test_the_ciphers_that_are_left(tmp_path: Path) -> None:
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
    assert {one["name"] for one in made.get_ciphers() if one["protocol"] != "TLSv1.3"} == {
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "DHE-RSA-AES128-SHA256",
        "AES128-SHA",
    }
    assert "leave neither TLSv1.2 nor TLSv1.3" in refusal(tmp_path, "ssl.cipher.suites=TLS_RSA_WITH_NULL_SHA256")
