"""Tests of logins to real brokers. Kafka's own tools and txnscope log in with the same client.properties."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from service.kafka.client import KafkaClient
from service.kafka.cluster import cluster_id
from service.kafka.errors import KafkaFailure, KafkaRefused, KafkaUnavailable
from service.kafka.settings import ClientSettings
from tests.helpers.certificates import Authority
from tests.helpers.reader_options import through_spark
from tests.helpers.secured_broker import CLIENT, CLIENT_SECRET, SCRAM_USER, SecuredBroker, login
from tests.helpers.waiting import wait_for, wait_until

pytestmark = pytest.mark.broker

LOGINS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker("4.3.1", tmp_path_factory.mktemp("secured")) as running:
        yield running


def address(secured: SecuredBroker, name: str) -> str:
    return {"mutual": secured.mutual, "tls": secured.tls}.get(name, secured.login)


def connected(secured: SecuredBroker, name: str, *lines: str) -> str:
    settings = ClientSettings.load(address(secured, name), secured.properties(name, *lines))
    with KafkaClient(settings) as client:
        return cluster_id(client)


def refusal(secured: SecuredBroker, name: str, *lines: str) -> KafkaFailure:
    with pytest.raises(KafkaFailure, match=r"^[^\n]*$") as failure:
        connected(secured, name, *lines)
    return failure.value


@pytest.mark.parametrize("name", [*LOGINS, "mutual", "tls"])
def test_each_kind_of_login_opens_its_listener(secured: SecuredBroker, name: str) -> None:
    assert connected(secured, name)


@pytest.mark.parametrize("name", ["SCRAM-SHA-512", "OAUTHBEARER", "mutual"])
def test_kafkas_own_tools_log_in_with_the_same_file(secured: SecuredBroker, name: str) -> None:
    command = f"txnscope.oauthbearer.token.command={sys.executable} -c pass"  # Kafka's tools ignore a key of txnscope
    file = secured.properties(name, *([command] if name == "mutual" else []))
    tool = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", address(secured, name))
    with patch.dict(os.environ, {"JAVA_TOOL_OPTIONS": secured.java_options}):
        secured.broker.tool(*tool, "--command-config", str(file), "--list")


@pytest.mark.parametrize(
    ("name", "module", "user"),
    [
        ("PLAIN", "plain.PlainLoginModule", "plain-user"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule", SCRAM_USER),
        ("SCRAM-SHA-512", "scram.ScramLoginModule", SCRAM_USER),
    ],
)
def test_a_wrong_password_is_refused_in_one_line_that_names_the_broker(
    secured: SecuredBroker, name: str, module: str, user: str
) -> None:
    failure = refusal(secured, name, f"sasl.jaas.config={login(module, user, 'wr0ng')}")
    assert isinstance(failure, KafkaRefused)
    assert str(failure).startswith(f"{secured.login} refuses: ")
    assert "uthentication failed" in str(failure)
    assert "wr0ng" not in str(failure)


def test_a_client_without_a_certificate_is_refused(secured: SecuredBroker) -> None:
    settings = ClientSettings.load(secured.mutual, secured.properties("tls"))
    with pytest.raises(KafkaUnavailable, match=f"^{secured.mutual} does not answer: [a-z0-9 ]*certificate[a-z ]*$"):
        KafkaClient(settings)


def test_a_broker_of_another_authority_is_not_trusted(secured: SecuredBroker, tmp_path: Path) -> None:
    other = Authority(tmp_path, "another").certificate
    failure = refusal(secured, "tls", f"ssl.truststore.location={other}")
    assert str(failure) == (
        f"{secured.tls} does not answer: TLS: the certificate is refused: unable to get local issuer certificate"
    )


def test_a_broker_without_tls_is_named(secured: SecuredBroker) -> None:
    settings = ClientSettings.load(secured.admin, secured.properties("tls"))
    with pytest.raises(KafkaUnavailable, match=f"^{secured.admin} does not answer: TLS: it closed the connection$"):
        KafkaClient(settings)


def test_a_login_at_a_listener_without_sasl_is_refused_in_one_line(secured: SecuredBroker) -> None:
    settings = ClientSettings.load(secured.tls, secured.properties("PLAIN"))
    with pytest.raises(KafkaFailure, match=f"^{secured.tls} (refuses|does not answer): [^\\n]+$"):
        KafkaClient(settings)


def test_settings_show_no_secret(secured: SecuredBroker) -> None:
    for name in LOGINS:
        settings = ClientSettings.load(secured.login, secured.properties(name))
        assert "secret" not in repr(settings)
        assert "secret" not in repr(settings.kafka_python().get("sasl_oauth_token_provider"))


def cut(client: KafkaClient) -> None:
    """Closes the connections of a client, as the restart of a broker does."""
    for conn in [*client._client._manager._conns.values()]:
        conn.close()


def failure_of(client: KafkaClient) -> str:
    with pytest.raises(KafkaUnavailable) as failure:
        cluster_id(client)
    return str(failure.value)


def eventually(client: KafkaClient) -> None:
    """Waits until a request of the client succeeds."""
    wait_for(lambda: cluster_id(client), "an answer after the rotation", retry_on=(KafkaFailure,))


class TestTokens:
    def test_one_token_serves_all_connections_until_it_runs_out(self, secured: SecuredBroker) -> None:
        before = len(secured.issuer.given)
        scope = 'sasl.oauthbearer.scope="of this test"'  # no other test uses this scope, so no cached token fits
        for _ in range(3):
            assert connected(secured, "OAUTHBEARER", scope)
        assert secured.issuer.given[before:] == [CLIENT]
        assert "scope=%22of+this+test%22" in secured.issuer.forms[-1]

    def test_a_header_may_be_url_encoded(self, secured: SecuredBroker) -> None:
        """With header.urlencode, the client sends the space in the secret as `+`. The issuer of these tests does not
        decode this, so it accepts the client only if `+` is in the issuer's secret."""
        failure = refusal(secured, "OAUTHBEARER", "sasl.oauthbearer.header.urlencode=true")
        assert str(failure).endswith("it answers 401: invalid_client")
        secured.issuer.clients["oauth-client"] = "oauth+secret"
        try:
            assert connected(secured, "OAUTHBEARER", "sasl.oauthbearer.header.urlencode=true")
        finally:
            secured.issuer.clients["oauth-client"] = CLIENT_SECRET

    def test_a_wrong_secret_names_the_server_and_no_secret(self, secured: SecuredBroker) -> None:
        failure = refusal(
            secured,
            "OAUTHBEARER",
            f"sasl.oauthbearer.client.credentials.client.id={CLIENT}",
            "sasl.oauthbearer.client.credentials.client.secret=wr0ng",
        )
        place = secured.issuer.url.split("/")[2]
        assert str(failure) == f"no token from {place}: it answers 401: invalid_client"

    def test_client_credentials_keys_of_kafka_4_win_over_the_login(self, secured: SecuredBroker) -> None:
        assert connected(
            secured,
            "OAUTHBEARER",
            "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
            f"sasl.oauthbearer.client.credentials.client.id={CLIENT}",
            f"sasl.oauthbearer.client.credentials.client.secret={CLIENT_SECRET}",
        )

    def test_a_token_file_is_read_again_for_each_token(self, secured: SecuredBroker, tmp_path: Path) -> None:
        file = tmp_path / "a token"
        where = f"sasl.oauthbearer.token.endpoint.url={file.as_uri()}"
        assert str(refusal(secured, "OAUTHBEARER", where)) == f"no token from {file}: No such file or directory"
        file.write_text("a.forged.token\n")
        assert isinstance(refusal(secured, "OAUTHBEARER", where), KafkaRefused)
        file.write_text(f"{secured.issuer.token('by-file')}\n")
        assert connected(secured, "OAUTHBEARER", where), "the refused token is not used again"

    def test_a_token_that_a_command_prints_is_used(self, secured: SecuredBroker, tmp_path: Path) -> None:
        (tmp_path / "token").write_text(secured.issuer.token("by-command"))
        line = f"txnscope.oauthbearer.token.command=cat '{tmp_path}/token'"
        handler = "sasl.login.callback.handler.class=software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
        assert connected(secured, "OAUTHBEARER", handler, line)

    def test_a_command_that_fails_is_named_with_its_last_line(self, secured: SecuredBroker, tmp_path: Path) -> None:
        program = tmp_path / "giver"
        program.write_text("#!/bin/sh\necho trouble ahead >&2\necho no role >&2\nexit 3\n")
        program.chmod(0o755)
        line = f"txnscope.oauthbearer.token.command={program} hidden-argument"
        assert str(refusal(secured, "OAUTHBEARER", line)) == "no token from giver: exit code 3: no role"

    def test_a_connection_outlives_its_token(self, secured: SecuredBroker) -> None:
        """A broker ends a session when the token expires (KIP-368). The client logs in again before the token
        expires."""
        secured.issuer.life_s = 3
        try:
            file = secured.properties("OAUTHBEARER", "sasl.oauthbearer.scope=short")
            with KafkaClient(ClientSettings.load(secured.login, file)) as client:
                given = len(secured.issuer.given)
                while len(secured.issuer.given) < given + 2:
                    assert cluster_id(client)
        finally:
            secured.issuer.life_s = 600


class TestRotation:
    """Tests of credentials that change while a client runs: the client uses the new ones when it reconnects."""

    def test_a_changed_password_in_the_file_is_used_without_a_restart(self, secured: SecuredBroker) -> None:
        user, module = "rotating", "scram.ScramLoginModule"
        secured.set_scram("old", user)
        file = secured.properties("SCRAM-SHA-512", f"sasl.jaas.config={login(module, user, 'old')}")
        with KafkaClient(ClientSettings.load(secured.login, file)) as client:
            assert cluster_id(client)
            secured.set_scram("new", user)
            assert cluster_id(client), "an existing connection stays open"
            cut(client)
            with pytest.raises(KafkaRefused, match=r"^broker 1 \(127.0.0.1:\d+\) refuses: "):
                cluster_id(client)
            replaced = file.read_text().replace("old", "new")
            file.write_text(replaced)
            eventually(client)

    def test_a_changed_password_of_a_config_provider_is_read_again(
        self, secured: SecuredBroker, tmp_path: Path
    ) -> None:
        user, secret = "provided", tmp_path / "password"
        secured.set_scram("old", user)
        secret.write_text("old")
        file = secured.properties(
            "SCRAM-SHA-512",
            "config.providers=dir",
            "config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider",
            f"sasl.jaas.config={login('scram.ScramLoginModule', user, f'${{dir:{tmp_path}:password}}')}",
        )
        here = ClientSettings.load(secured.login, file)
        with KafkaClient(through_spark(here)) as client:
            assert cluster_id(client)
            secured.set_scram("new", user)
            cut(client)
            with pytest.raises(KafkaRefused):
                cluster_id(client)
            secret.unlink()
            wait_until(
                lambda: failure_of(client),
                lambda text: "no file password in" in text,
                "an error that names the missing file",
            )
            secret.write_text("new")
            eventually(client)

    def test_changed_certificates_and_their_authority_are_used(self, secured: SecuredBroker, tmp_path: Path) -> None:
        other = Authority(tmp_path / "other", "other")
        trust, own = tmp_path / "trust.pem", tmp_path / "own.pem"
        trust.write_text(secured.authority.certificate.read_text())
        own.write_text(secured.authority.issue("first").read_text())
        lines = (f"ssl.truststore.location={trust}", f"ssl.keystore.location={own}", "ssl.key.password=")
        with KafkaClient(ClientSettings.load(secured.mutual, secured.properties("mutual", *lines))) as client:
            assert cluster_id(client)
            own.write_text(secured.authority.issue("second", life=-timedelta(hours=1)).read_text())
            trust.write_text(other.certificate.read_text())
            assert cluster_id(client), "an existing connection stays open"
            cut(client)
            with pytest.raises(KafkaUnavailable, match="TLS: the certificate is refused: unable to get local issuer"):
                cluster_id(client)
            trust.write_text(secured.authority.certificate.read_text())
            wait_until(
                lambda: failure_of(client), lambda text: "alert certificate" in text, "a TLS alert of the broker"
            )
            own.write_text(secured.authority.issue("third").read_text())
            eventually(client)
