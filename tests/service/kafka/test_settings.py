"""client.properties as operators have them for Kafka's own tools."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from service.kafka.errors import BadClientConfig
from service.kafka.settings import ClientSettings
from tests.helpers.paths import ROOT

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def load(tmp_path: Path, text: str) -> ClientSettings:
    file = tmp_path / "client.properties"
    file.write_text(text)
    return ClientSettings.load("a:9092", file)


def test_sasl_over_tls(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(PEM)
    settings = load(
        tmp_path,
        f"""
        # as for kafka-topics.sh --command-config
        security.protocol=SASL_SSL
        ssl.truststore.type = PEM
        ssl.truststore.location: {tmp_path}/ca.pem
        ssl.endpoint.identification.algorithm=
        sasl.mechanism=SCRAM-SHA-512
        sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
            username="scope" password="p=#!w";
        max.poll.records=10
        """,
    )
    assert settings.kafka_python() == {
        "bootstrap_servers": ["a:9092"],
        "security_protocol": "SASL_SSL",
        "ssl_cafile": f"{tmp_path}/ca.pem",
        "ssl_check_hostname": False,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "scope",
        "sasl_plain_password": "p=#!w",
    }
    assert ClientSettings.from_json(settings.to_json()) == settings


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("ssl.truststore.location=/no/such.pem", "ssl.truststore.location: no file /no/such.pem"),
        ("ssl.truststore.type=JKS", "ssl.truststore.type=JKS"),
        ("ssl.engine.factory.class=x", "ssl.engine.factory.class is not supported"),
        ("sasl.mechanism=OAUTHBEARER", "sasl.mechanism=OAUTHBEARER"),
        ("sasl.jaas.config=Foo required;", "sasl.jaas.config: no username"),
        ("security.protocol", "no value for 'security.protocol'"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(BadClientConfig, match=r"^[^\n]*$") as refused:
        load(tmp_path, text)
    assert named in str(refused.value)


@pytest.mark.parametrize(
    ("raw", "password"),
    [
        (rb'password="a\\\\b"', "a\\b"),  # once for the properties, once for JAAS
        (rb'password="say \\"hi\\""', 'say "hi"'),
        (b'password = "p\\u00e4ss"', "p\u00e4ss"),
        ('password="p\u00e4ss \u03a9"'.encode(), "p\u00e4ss \u03a9"),
        ('password="p\u00e4ss"'.encode("latin-1"), "p\u00e4ss"),
        (b'\\\n    password=\\\r\n\t"two  spaces "', "two  spaces "),
    ],
)
def test_a_password_is_read_as_java_reads_it(tmp_path: Path, raw: bytes, password: str) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(b'sasl.jaas.config = x.PlainLoginModule required username="u" ' + raw + b";")
    assert ClientSettings.load("a:9092", file).kafka_python()["sasl_plain_password"] == password


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        (b"client.id=\\u12", "Invalid \\u escape sequence: \\u12"),
        (b"client.id=\0", "not a text file"),
        (b'sasl.jaas.config=x.Y required username="u" password="s3cret"', "sasl.jaas.config: no semicolon at its end"),
        (
            b'sasl.jaas.config=x.Y required username="u" password="s3cret" tokenauth="true";',
            "sasl.jaas.config: tokenauth is not supported",
        ),
    ],
)
def test_a_file_that_is_broken_is_named_and_no_password(tmp_path: Path, raw: bytes, named: str) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(raw)
    with pytest.raises(BadClientConfig, match=r"^[^\n]*$") as refused:
        ClientSettings.load("a:9092", file)
    assert named in str(refused.value)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("servers", ["", "host", "host:port", "host:1 2"])
def test_bad_bootstrap_servers_are_named(servers: str) -> None:
    with pytest.raises(BadClientConfig, match="--bootstrap-servers"):
        ClientSettings.load(servers, None)


def test_several_servers_and_ipv6() -> None:
    assert ClientSettings.load("a:1, [::1]:2", None).bootstrap_servers == ("a:1", "[::1]:2")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadClientConfig, match=r"client properties .*gone\.properties: No such file"):
        ClientSettings.load("a:1", tmp_path / "gone.properties")


def test_the_examples_of_the_guide_can_be_used(tmp_path: Path) -> None:
    guide = (ROOT / "docs/running.md").read_text()
    section = guide.partition("## Logging in to Kafka\n")[2].partition("\n## ")[0]
    (tmp_path / "some.pem").write_text(PEM)
    logins = []
    for example in re.findall(r"(?:^    .*\n)+", section, re.MULTILINE):
        text = re.sub(r"/etc/txnscope/\w+\.pem", f"{tmp_path}/some.pem", textwrap.dedent(example))
        arguments = load(tmp_path, text).kafka_python()
        logins.append((arguments["security_protocol"], arguments.get("sasl_mechanism")))
    assert logins == [
        ("SSL", None),
        ("SSL", None),
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SASL_SSL", "OAUTHBEARER"),
        ("SASL_SSL", "OAUTHBEARER"),
    ]
