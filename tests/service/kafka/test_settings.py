"""Tests of client.properties as operators write them for Kafka's own tools."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from service.kafka.errors import BadClientConfig
from service.kafka.settings import ClientSettings
from tests.helpers.certificates import Authority
from tests.helpers.paths import ROOT
from tests.helpers.reader_options import through_spark
from tests.service.kafka.properties import load, refusal

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_settings_for_sasl_over_tls_are_read(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    settings = load(
        tmp_path,
        f"""
        # as for kafka-topics.sh --command-config
        security.protocol=SASL_SSL
        ssl.truststore.type = PEM
        ssl.truststore.location: {authority.certificate}
        ssl.endpoint.identification.algorithm=
        sasl.mechanism=SCRAM-SHA-512
        sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
            username="scope" password="p=#!w";
        max.poll.records=10
        """,
    )
    arguments = settings.kafka_python()
    context = arguments.pop("ssl_context")
    assert (len(context.get_ca_certs()), context.check_hostname) == (1, False)
    assert arguments == {
        "bootstrap_servers": ["a:9092"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "scope",
        "sasl_plain_password": "p=#!w",
    }
    assert through_spark(settings) == settings


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            "security.protocol=SSL\nssl.truststore.location=/no/such.pem",
            "ssl.truststore.location: /no/such.pem: No such file or directory",
        ),
        ("ssl.truststore.type=BCFKS", "ssl.truststore.type=BCFKS is not one of PEM, PKCS12, JKS"),
        ("ssl.engine.factory.class=x", "ssl.engine.factory.class=x is not supported"),
        ("ssl.trustore.location=x", "ssl.trustore.location is not supported"),
        ("sasl.mechanism=OAUTHBEARER", "sasl.mechanism=OAUTHBEARER"),
        ("sasl.mechanism=SCRAM-SHA-1", "sasl.mechanism=SCRAM-SHA-1 is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        (f"sasl.jaas.config={PLAIN} required;", "sasl.jaas.config: username or password is missing"),
        ("security.protocol", "security.protocol=(empty) is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("security.protocol=SASL_PLAIN", "security.protocol=SASL_PLAIN is not one of PLAINTEXT, SSL"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "sasl.mechanism=PLAIN needs sasl.jaas.config"),
        ("security.protocol=SASL_SSL", "sasl.mechanism=GSSAPI (the default) needs sasl.kerberos.service.name"),
        (
            f'security.protocol=SASL_SSL\nsasl.jaas.config={PLAIN} required username="u" password="p";',
            f"{PLAIN} does not serve sasl.mechanism=GSSAPI (the default)",
        ),
        (
            'sasl.jaas.config=com.vendor.VaultLoginModule required username="path" password="key";',
            "sasl.jaas.config: the login module com.vendor.VaultLoginModule is not supported",
        ),
        ("sasl.login.callback.handler.class=com.vendor.Vault", "sasl.login.callback.handler.class=com.vendor.Vault is"),
        ("sasl.client.callback.handler.class=com.vendor.Vault", "sasl.client.callback.handler.class=com.vendor.Vault"),
        ("sasl.oauthbearer.assertion.file=x", "sasl.oauthbearer.assertion.file is not supported: set txnscope"),
        (
            "security.protocol=SSL\nssl.enabled.protocols=TLSv1.1",
            "ssl.enabled.protocols=TLSv1.1: neither TLSv1.2 nor TLSv1.3 is left",
        ),
        (
            "ssl.cipher.suite=x\nsecurity.protocol=TLS",
            "ssl.cipher.suite is not supported; security.protocol=TLS is not",
        ),
    ],
)
def test_a_setting_that_cannot_be_honoured_is_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    assert named in refusal(tmp_path, text)


@pytest.mark.parametrize(
    ("raw", "password"),
    [
        (rb'password="a\\\\b"', "a\\b"),  # escaped once for the properties file and once for JAAS
        (rb'password="say \\"hi\\""', 'say "hi"'),
        (b'password = "p\\u00e4ss"', "p\u00e4ss"),
        ('password="p\u00e4ss \u03a9"'.encode(), "p\u00e4ss \u03a9"),
        ('password="p\u00e4ss"'.encode("latin-1"), "p\u00e4ss"),
        (b'\\\n    password=\\\r\n\t"two  spaces "', "two  spaces "),
    ],
)
def test_a_password_is_read_as_java_reads_it(tmp_path: Path, raw: bytes, password: str) -> None:
    text = f'sasl.jaas.config = {PLAIN} required username="u" '.encode() + raw + b";"
    assert load(tmp_path, text).kafka_python()["sasl_plain_password"] == password


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        (b"client.id=\\u12", "Invalid \\u escape sequence: \\u12"),
        (b"client.id=\0", "not a text file"),
        (b'sasl.jaas.config=x.Y required username="u" password="s3cret"', "sasl.jaas.config: no semicolon at its end"),
        (
            f'sasl.jaas.config={PLAIN} required username="u" password="s3cret" tokenauth="true";'.encode(),
            "sasl.jaas.config: tokenauth is not supported",
        ),
    ],
)
def test_a_broken_line_is_named_without_its_password(tmp_path: Path, raw: bytes, named: str) -> None:
    refused = refusal(tmp_path, raw)
    assert (named in refused, "s3cret" in refused) == (True, False)


@pytest.mark.parametrize("servers", ["", "host", "host:port", "host:1 2", "host:65536", "SSL://host", "SSL:/host:1"])
def test_bad_bootstrap_servers_are_named(servers: str) -> None:
    with pytest.raises(BadClientConfig, match="--bootstrap-servers"):
        ClientSettings.load(servers, None)


def test_several_servers_ipv6_addresses_and_schemes_are_read() -> None:
    assert ClientSettings.load("a:1, [::1]:2", None).bootstrap_servers == ("a:1", "[::1]:2")
    with_schemes = "SASL_SSL://a:1,b_c:2,plaintext://[::1]:3"
    assert ClientSettings.load(with_schemes, None).bootstrap_servers == ("a:1", "b_c:2", "[::1]:3")


def test_servers_of_the_file_are_used_where_the_flag_names_none(tmp_path: Path) -> None:
    of_file = "bootstrap.servers=PLAINTEXT://a:1,b:2\n"
    assert load(tmp_path, of_file, None).bootstrap_servers == ("a:1", "b:2")
    assert load(tmp_path, of_file, "c:3").bootstrap_servers == ("c:3",)
    assert refusal(tmp_path, "bootstrap.servers=a\n", None).startswith("bootstrap.servers: 'a' is not HOST:PORT")
    missing = r"--bootstrap-servers is missing, and .*properties has no bootstrap\.servers:"
    assert re.match(missing, refusal(tmp_path, "", None))


def test_lines_without_effect_are_noted(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "max.poll.records=1\nssl.provider=SunJSSE\nssl.truststore.location=/no/such.pem\nsasl.mechanism=PLAIN\n"
        "sasl.kerberos.kinit.cmd=/usr/bin/kinit\n",
    )
    name = f"client properties {tmp_path}/client.properties"
    assert settings.notes("SSL://a:1,b:2") == (
        f"{name}: ignored (only Java clients need them): max.poll.records, sasl.kerberos.kinit.cmd, ssl.provider",
        f"{name}: not used while security.protocol is PLAINTEXT (the default): sasl.mechanism, ssl.truststore.location",
        f"{name}: the scheme of SSL://a:1 has no effect: security.protocol is PLAINTEXT (the default)",
    )


def test_an_empty_value_counts_and_of_two_values_the_last_one(tmp_path: Path) -> None:
    settings = load(
        tmp_path, "security.protocol=nonsense\nssl.endpoint.identification.algorithm\nsecurity.protocol : ssl \n"
    )
    arguments = settings.kafka_python()
    assert arguments["security_protocol"] == "SSL"
    assert not arguments["ssl_context"].check_hostname


def test_a_byte_order_mark_hides_no_key(tmp_path: Path) -> None:
    assert load(tmp_path, "\ufeffsecurity.protocol=SSL\n").kafka_python()["security_protocol"] == "SSL"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadClientConfig, match=r"client properties .*gone\.properties: No such file"):
        ClientSettings.load("a:1", tmp_path / "gone.properties")


def test_the_examples_of_the_guide_can_be_used(tmp_path: Path) -> None:
    guide = (ROOT / "docs/running.md").read_text()
    section = guide.partition("## Logging in to Kafka\n")[2].partition("\n## ")[0]
    pem = Authority(tmp_path).issue("some")
    logins = []
    for example in re.findall(r"(?:^    .*\n)+", section, re.MULTILINE):
        text = re.sub(r"/etc/txnscope/\w+\.pem", str(pem), textwrap.dedent(example))
        arguments = load(tmp_path, text).kafka_python()
        logins.append((arguments["security_protocol"], arguments.get("sasl_mechanism")))
    assert logins == [
        ("SSL", None),
        ("SSL", None),
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SASL_SSL", "OAUTHBEARER"),
        ("SASL_SSL", "OAUTHBEARER"),
    ]
