"""The keys of client.properties: those that are honoured, ignored with a note, or refused.

A key without a security prefix (buffer sizes, retries, groups) concerns Java clients, and is ignored. A security key
that is in none of the tables here is refused: ignoring it might change who logs in, or which brokers are trusted.
`tests/service/kafka/test_client_keys.py` asserts the outcome for every key of Kafka's own clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from service.kafka import oauth, tls
from service.kafka.client_properties import reading, stores

PROTOCOL: Final = "security.protocol"
MECHANISM: Final = "sasl.mechanism"
JAAS: Final = "sasl.jaas.config"
LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
SERVERS: Final = "bootstrap.servers"
KERBEROS_SERVICE: Final = "sasl.kerberos.service.name"

OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
PASSWORDS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The mechanisms that log in with a name and a password."""

_SECURITY: Final = ("security.", "ssl.", "sasl.", "txnscope.")
_KAFKA: Final = "org.apache.kafka.common.security"
_BOOLEANS: Final = ("true", "false")

HONOURED: Final = frozenset(
    {
        SERVERS,
        "client.id",
        PROTOCOL,
        *(f"{store}.{name}" for store in (stores.TRUST_STORE, stores.KEY_STORE) for name in stores.ATTRIBUTES),
        *stores.TEXTS,
        stores.KEY_PASSWORD,
        tls.HOST_CHECK,
        tls.ENABLED,
        tls.NEWEST,
        tls.CIPHERS,
        MECHANISM,
        JAAS,
        KERBEROS_SERVICE,
        LOGIN_HANDLER,
        *oauth.KEYS,
    }
)

IGNORED: Final = frozenset(
    {
        # how Java does TLS
        "security.providers",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        # how Java keeps a login
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        # how Java checks a token before it sends it
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        # keys of brokers, in a file that both share
        "sasl.enabled.mechanisms",
        "sasl.mechanism.inter.broker.protocol",
        "security.inter.broker.protocol",
        "ssl.client.auth",
        "ssl.principal.mapping.rules",
    }
)

REFUSED_PREFIX: Final = "sasl.oauthbearer.assertion."
"""Prefix of the keys for a signed assertion, which replaces the client secret (KIP-1139)."""

CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    "sasl.client.callback.handler.class": (
        f"{_KAFKA}.authenticator.SaslClientCallbackHandler",
        f"{_KAFKA}.oauthbearer.internals.OAuthBearerSaslClientCallbackHandler",
    ),
    "sasl.login.class": (
        f"{_KAFKA}.authenticator.DefaultLogin",
        f"{_KAFKA}.kerberos.KerberosLogin",
        f"{_KAFKA}.oauthbearer.internals.OAuthBearerRefreshingLogin",
    ),
    "sasl.oauthbearer.jwt.retriever.class": (
        f"{_KAFKA}.oauthbearer.DefaultJwtRetriever",
        f"{_KAFKA}.oauthbearer.ClientCredentialsJwtRetriever",
        f"{_KAFKA}.oauthbearer.FileJwtRetriever",
    ),
    "ssl.engine.factory.class": (f"{_KAFKA}.ssl.DefaultSslEngineFactory",),
}
"""Maps a key whose value names a Java class to the accepted classes: classes of Kafka that behave as txnscope does."""


class _Choice(NamedTuple):
    """The values that a key may have. `folds`: True if upper and lower case count as equal. `many`: True if the key
    takes a comma-separated list of these values."""

    values: tuple[str, ...]
    folds: bool = True
    may_be_empty: bool = False
    many: bool = False

    def allows(self, value: str) -> bool:
        allowed = {self._folded(one) for one in (*self.values, *([""] if self.may_be_empty else []))}
        parts = value.split(",") if self.many else [value]
        return all(self._folded(part.strip()) in allowed for part in parts)

    def _folded(self, value: str) -> str:
        return value.upper() if self.folds else value

    def __str__(self) -> str:
        return ", ".join(self.values) + (", or empty" if self.may_be_empty else "")


_MANAGERS: Final = _Choice(("SunX509", "NewSunX509", "PKIX", "X509", "X.509", "SunPKIX", "IbmX509", "IbmPKIX"))
_CHOICES: Final[Mapping[str, _Choice]] = {
    PROTOCOL: _Choice(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    MECHANISM: _Choice((*PASSWORDS, OAUTHBEARER, GSSAPI)),
    f"{stores.TRUST_STORE}.type": _Choice(stores.TYPES),
    f"{stores.KEY_STORE}.type": _Choice(stores.TYPES),
    tls.HOST_CHECK: _Choice(("https",), may_be_empty=True),
    tls.NEWEST: _Choice(("TLS", *tls.VERSIONS), folds=False),
    tls.ENABLED: _Choice(
        (*tls.VERSIONS, "TLSv1.1", "TLSv1", "SSLv3", "SSLv2Hello"), folds=False, may_be_empty=True, many=True
    ),
    "ssl.keymanager.algorithm": _MANAGERS,
    "ssl.trustmanager.algorithm": _MANAGERS,
    oauth.URL_ENCODES: _Choice(_BOOLEANS),
    # Kafka's own tools refuse a file with any other value of these keys
    "client.dns.lookup": _Choice(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"), folds=False),
    "metadata.recovery.strategy": _Choice(("rebootstrap", "none")),
    "metrics.recording.level": _Choice(("INFO", "DEBUG", "TRACE"), folds=False),
}


def mistakes(properties: Mapping[str, str]) -> Iterator[str]:
    """Yields a text for each refused key, and for each key with a value that the key may not have. `properties`: the
    result of `reading.resolve`."""
    has_command = oauth.COMMAND in properties
    for key, value in properties.items():
        if key in CLASSES:
            if value and value not in CLASSES[key] and not (has_command and key.startswith("sasl.oauthbearer.")):
                yield f"{key}={value} is not supported: it can be {', '.join(CLASSES[key])}"
        elif key.startswith(REFUSED_PREFIX):
            if not has_command:
                yield f"{key} is not supported: set {oauth.COMMAND} to a command that prints a token"
        elif key not in HONOURED and not is_ignored(key):
            yield f"{key} is not supported"
        if key in _CHOICES and not _CHOICES[key].allows(value):
            yield f"{key}={value or '(empty)'} is not one of {_CHOICES[key]}{_advice(key, value)}"


def is_ignored(key: str) -> bool:
    """Returns True for a key that has no effect and is not refused: a key in IGNORED, or a key that is in no table and
    has no security prefix."""
    return key in IGNORED or not (
        key in HONOURED or key in CLASSES or reading.is_of_provider(key) or key.startswith(_SECURITY)
    )


def ignored(properties: Mapping[str, str]) -> list[str]:
    """Returns the keys of the file that have no effect."""
    return [
        key for key in properties if is_ignored(key) or (key.startswith(REFUSED_PREFIX) and oauth.COMMAND in properties)
    ]


def _advice(key: str, value: str) -> str:
    if key == MECHANISM and value.upper() == "AWS_MSK_IAM":
        return (
            f"; this mechanism is for Java only: use {OAUTHBEARER}, and set {oauth.COMMAND} to a command that prints"
            " a token"
        )
    if key.endswith(".type"):
        return ": convert the store to PKCS12 or PEM"
    return ""
