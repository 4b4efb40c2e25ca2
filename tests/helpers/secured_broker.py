"""Runs a broker whose listeners have the usual kinds of security: a login with or without TLS, a client certificate, or
only TLS."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import Final
from unittest.mock import patch

from kafka.protocol.admin import AlterUserScramCredentialsRequest

from deploy.demo.broker import Broker
from tests.helpers.acls import escaped, quoted
from tests.helpers.brokers import connect, free_ports
from tests.helpers.certificates import Authority
from tests.helpers.token_issuer import AUDIENCE, TokenIssuer

PLAIN_USER, PLAIN_SECRET = "plain-user", "plain secret; \"with\" 'marks'"
VAULT_USER, VAULT_SECRET = "vault-user", "secret-of-the-vault"
LITERAL_USER, LITERAL_SECRET = "literal-user", "${file:/run/secrets/none:password}"
SCRAM_USER, SCRAM_SECRET = "scram=user,1", "scram secret"
CLIENT, CLIENT_SECRET = "oauth-client", "oauth secret"
KEY_PASSWORD: Final = "of the key"
_MODULES: Final = "org.apache.kafka.common.security"
_ITERATIONS: Final = 4096
_HASHES: Final = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}


class SecuredBroker:
    """A broker with secured listeners: `with SecuredBroker("4.3.1", directory) as secured`. These attributes are the
    addresses of its listeners:

    - `login`: PLAIN, SCRAM or OAUTHBEARER over TLS.
    - `clear`: PLAIN without TLS.
    - `mutual`: a client certificate.
    - `tls`: only TLS.
    - `admin`: neither a login nor TLS.
    """

    def __init__(self, version: str, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority(directory / "certificates")
        self.server_certificate = self.authority.issue("broker")
        self.client_certificate = self.authority.issue("client", key_password=KEY_PASSWORD)
        self.issuer = TokenIssuer(directory / "issuer", {CLIENT: CLIENT_SECRET})
        port, *others = free_ports(5)
        self.login, self.clear, self.mutual, self.tls = (f"127.0.0.1:{at}" for at in others)
        addresses = {
            "PLAINTEXT": f"127.0.0.1:{port}",
            "LOGIN": self.login,
            "CLEAR": self.clear,
            "MUTUAL": self.mutual,
            "TLS": self.tls,
        }
        listeners = ",".join(f"{name}://{address}" for name, address in addresses.items())
        passwords = {PLAIN_USER: PLAIN_SECRET, VAULT_USER: VAULT_SECRET, LITERAL_USER: LITERAL_SECRET}
        users = " ".join(f"user_{user}={quoted(secret)}" for user, secret in passwords.items())
        plain = escaped(f"{_MODULES}.plain.PlainLoginModule required {users};")
        self.broker = Broker(
            version,
            port,
            directory / "kafka",
            {
                "listeners": f"{listeners},CONTROLLER://127.0.0.1:{port + 1}",
                "advertised.listeners": listeners,
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_SSL,MUTUAL:SSL,"
                "TLS:SSL,CLEAR:SASL_PLAINTEXT",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.server_certificate),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority.certificate),
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
                "listener.name.login.plain.sasl.jaas.config": plain,
                "listener.name.clear.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.clear.plain.sasl.jaas.config": plain,
                **{
                    f"listener.name.login.{name.lower()}.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule"
                    " required;"
                    for name in _HASHES
                },
                "listener.name.login.oauthbearer.sasl.jaas.config": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule"
                " required;",
                "listener.name.login.oauthbearer.sasl.server.callback.handler.class": f"{_MODULES}.oauthbearer"
                ".OAuthBearerValidatorCallbackHandler",
                "listener.name.login.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": self.issuer.keys.as_uri(),
                "listener.name.login.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
                "listener.name.login.oauthbearer.connections.max.reauth.ms": "3600000",
            },
            heap_mb=384,
        )

    @property
    def admin(self) -> str:
        return self.broker.bootstrap

    def properties(self, name: str, *lines: str) -> Path:
        """Writes a new client.properties, and returns its path. `name` is the login: PLAIN, SCRAM-SHA-256,
        SCRAM-SHA-512, OAUTHBEARER, mutual or tls. `lines` are further properties; if a key occurs twice, its last line
        wins."""
        file = self.directory / f"{name}-{secrets.token_hex(4)}.properties"
        trust = [f"ssl.truststore.type=PEM\nssl.truststore.location={self.authority.certificate}"]
        file.write_text("\n".join([*trust, *self._identity(name), *lines, ""]))
        return file

    def set_scram(self, secret: str, user: str = SCRAM_USER) -> None:
        """Sets the password of `user` for both SCRAM mechanisms."""
        wanted = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
        with connect(self.admin) as client:
            for mechanism, hash_name in _HASHES.values():
                salt = secrets.token_bytes(24)
                salted = hashlib.pbkdf2_hmac(hash_name, secret.encode(), salt, _ITERATIONS)
                one = wanted(name=user, mechanism=mechanism, iterations=_ITERATIONS, salt=salt, salted_password=salted)
                answer = client.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=[one]))
                assert [result.error_code for result in answer.results] == [0]

    def __enter__(self) -> SecuredBroker:
        self.issuer.__enter__()
        self.start()
        self.set_scram(SCRAM_SECRET)
        return self

    def start(self) -> None:
        """Starts the broker. A broker that was stopped before still has its data."""
        # the broker, and Kafka's tools, accept a list of allowed OAuth URLs only in this way
        with patch.dict(os.environ, {"JAVA_TOOL_OPTIONS": self.java_options}):
            self.broker.start()

    @property
    def java_options(self) -> str:
        return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.issuer.keys.as_uri()},{self.issuer.url}"

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self.broker.discard()
        self.issuer.__exit__(kind, e, trace)

    def _identity(self, name: str) -> list[str]:
        if name == "tls":
            return ["security.protocol=SSL"]
        if name == "mutual":
            return [
                "security.protocol=SSL",
                "ssl.keystore.type=PEM",
                f"ssl.keystore.location={self.client_certificate}",
                f"ssl.key.password={KEY_PASSWORD}",
            ]
        lines = ["security.protocol=SASL_SSL", f"sasl.mechanism={name}"]
        if name == "OAUTHBEARER":
            return [
                *lines,
                f"sasl.login.callback.handler.class={_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler",
                f"sasl.oauthbearer.token.endpoint.url={self.issuer.url}",
                f"sasl.jaas.config={_MODULES}.oauthbearer.OAuthBearerLoginModule required"
                f' clientId="{CLIENT}" clientSecret="{CLIENT_SECRET}" scope="kafka";',
            ]
        module, user, secret = (
            ("plain.PlainLoginModule", PLAIN_USER, PLAIN_SECRET)
            if name == "PLAIN"
            else ("scram.ScramLoginModule", SCRAM_USER, SCRAM_SECRET)
        )
        return [*lines, "sasl.jaas.config=" + login(module, user, secret)]


def login(module: str, user: str, secret: str) -> str:
    """Returns a JAAS login as the value of a properties file."""
    return escaped(f'{_MODULES}.{module} required username="{user}" password={quoted(secret)};')
