"""Connection settings of a cluster: bootstrap servers and a Java-style client.properties, translated for kafka-python.

Operators have such a file already for Kafka's own tools; the keys are those of `ProducerConfig`/`SslConfigs`/
`SaslConfigs` in Kafka's Java clients.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import javaproperties

from service.kafka import jaas, oauth, tls
from service.kafka.errors import BadClientConfig

_SECURITY = ("security.", "ssl.", "sasl.", "txnscope.")
_ONLY_JAVA = (
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.",
    "sasl.login.retry.",
    "sasl.oauthbearer.header.urlencode",
)
"""Keys with the prefix of security that change no identity and no trust."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Bootstrap servers and client properties of a cluster. `properties`: keys and values of the file, as written.
    `file`: the file itself; None if there is none on this machine."""

    bootstrap_servers: tuple[str, ...]
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    file: Path | None = None

    @classmethod
    def load(cls, bootstrap_servers: str, properties_file: Path | None) -> ClientSettings:
        """Reads the flags of the command line. Raises BadClientConfig naming the file, key or address."""
        servers = tuple(part.strip() for part in bootstrap_servers.split(",") if part.strip())
        for server in servers:
            if not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^:\s]+):\d{1,5}", server):
                raise BadClientConfig(f"--bootstrap-servers: {server!r} is not HOST:PORT")
        if not servers:
            raise BadClientConfig("--bootstrap-servers: no HOST:PORT given")
        settings = cls(servers, file=properties_file and properties_file.absolute()).latest()
        settings.kafka_python()
        return settings

    def latest(self) -> ClientSettings:
        """Returns the settings as the file contains them now, because credentials change while a process runs. Raises
        BadClientConfig."""
        return self if self.file is None else replace(self, properties=tuple(_read_properties(self.file).items()))

    @property
    def has_secret(self) -> bool:
        """Whether a password, a client secret or a private key is among the properties."""
        return any(key in _SECRETS or (key == _JAAS and _SECRET_OPTION.search(value)) for key, value in self.properties)

    @property
    def pem_files(self) -> tuple[Path, ...]:
        """The files with certificates and keys that the properties name."""
        return tuple(Path(value) for key, value in self.properties if key in tls.FILES)

    def to_json(self) -> str:
        """Returns the settings as text for another process (Spark passes options on as strings)."""
        return json.dumps([self.bootstrap_servers, self.properties, self.file and str(self.file)])

    @classmethod
    def from_json(cls, text: str) -> ClientSettings:
        servers, properties, file = json.loads(text)
        return cls(tuple(servers), tuple((key, value) for key, value in properties), file and Path(file))

    def portable(self) -> ClientSettings:
        """Returns the same settings without names of files, for other machines. Raises BadClientConfig."""
        try:
            return replace(self, properties=tuple(tls.with_texts(dict(self.properties)).items()), file=None)
        except (OSError, UnicodeDecodeError) as e:
            raise BadClientConfig(f"client properties: {e}") from e

    def kafka_python(self) -> dict[str, Any]:
        """Returns keyword arguments for kafka-python's clients. Raises BadClientConfig for a security key that cannot
        be honoured.

        Keys that do not concern identity and trust (buffer sizes, retries) are meant for Java clients and are ignored.
        """
        out: dict[str, Any] = {"bootstrap_servers": list(self.bootstrap_servers)}
        for key, value in self.properties:
            if key in _TRANSLATE:
                out.update(_TRANSLATE[key](key, value))
            elif key.startswith(_SECURITY) and not key.startswith(_ONLY_JAVA):
                raise BadClientConfig(f"client properties: {key} is not supported")
        if out.get("sasl_mechanism") == _OAUTH:
            out["sasl_oauth_token_provider"] = _token_provider(dict(self.properties))
        if any(key in tls.TEXTS for key, _ in self.properties):
            out["ssl_context"] = _context(dict(self.portable().properties), out)
        return out


class Clients(NamedTuple):
    """Settings for the brokers of the clusters in `by_name`, and for those of all others (None: no brokers)."""

    other: ClientSettings | None
    by_name: Mapping[str, ClientSettings]


def _context(properties: dict[str, str], out: dict[str, Any]) -> ssl.SSLContext:
    """Returns the context from certificates and keys as text, and removes from `out` what is in it now."""
    texts: dict[str, str] = {key: properties[key] for key in tls.TEXTS if key in properties}
    checks_host, password = out.pop("ssl_check_hostname", True), out.pop("ssl_password", None)
    for file in ("ssl_cafile", "ssl_certfile"):
        out.pop(file, None)
    if tls.KEY in texts and tls.CHAIN not in texts:
        raise BadClientConfig(f"client properties: {tls.KEY} needs {tls.CHAIN}")
    try:
        return tls.context(texts, password, checks_host=checks_host)
    except (ssl.SSLError, ValueError) as e:
        raise BadClientConfig(f"client properties: {', '.join(texts)}: {e.args[-1] if e.args else e}") from e


def _read_properties(path: Path) -> dict[str, str]:
    """Reads a file as java.util.Properties does. Text may also be UTF-8, which Java takes for ISO 8859-1."""
    try:
        raw = path.read_bytes()
    except OSError as e:
        raise BadClientConfig(f"client properties {path}: {e.strerror}") from e
    if b"\0" in raw:
        raise BadClientConfig(f"client properties {path}: not a text file")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    properties = {}
    try:
        for entry in javaproperties.parse(text):
            if isinstance(entry, javaproperties.KeyValue):
                if not entry.value and not re.search("[=:]", entry.source):
                    raise BadClientConfig(f"client properties {path}: no value for {entry.key!r}")
                properties[entry.key] = entry.value
    except javaproperties.InvalidUEscapeError as e:
        raise BadClientConfig(f"client properties {path}: {e}") from e
    return properties


def _plain(name: str) -> Any:
    return lambda _key, value: {name: value}


def _pem(name: str) -> Any:
    def translate(key: str, value: str) -> dict[str, Any]:
        if not Path(value).is_file():
            raise BadClientConfig(f"client properties: {key}: no file {value}")
        if b"-----BEGIN" not in Path(value).read_bytes():
            raise BadClientConfig(
                f"client properties: {key}: {value} is not PEM (convert a JKS or PKCS12 store to PEM)"
            )
        return {name: value}

    return translate


def _store_type(key: str, value: str) -> dict[str, Any]:
    if value.upper() != "PEM":
        raise BadClientConfig(f"client properties: {key}={value} is not supported (convert the store to PEM)")
    return {}


def _mechanism(key: str, value: str) -> dict[str, Any]:
    if value.upper() == "AWS_MSK_IAM":
        raise BadClientConfig(f"client properties: {key}={value} is for Java only: use {_OAUTH} with a {_COMMAND}")
    if value.upper() not in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", _OAUTH):
        raise BadClientConfig(f"client properties: {key}={value} is not supported")
    return {"sasl_mechanism": value.upper()}


def _token_provider(properties: dict[str, str]) -> oauth.TokenProvider:
    handler = properties.get(_HANDLER, "")
    if handler.rpartition(".")[2] not in ("", "OAuthBearerLoginCallbackHandler") and _COMMAND not in properties:
        raise BadClientConfig(f"client properties: {_HANDLER}={handler} is for Java only: add a {_COMMAND}")
    try:
        options = jaas.parse(properties[_JAAS]).options if _JAAS in properties else {}
        return oauth.provider(oauth.source_of(properties, options), oauth.extensions_of(options))
    except ValueError as e:
        raise BadClientConfig(f"client properties: {e}") from e


def _jaas(key: str, value: str) -> dict[str, Any]:
    try:
        login = jaas.parse(value)
    except ValueError as e:
        raise BadClientConfig(f"client properties: {key}: {e}") from e
    if login.module.endswith(("Krb5LoginModule", "OAuthBearerLoginModule")):
        return {}
    if not login.options.keys() >= {"username", "password"}:
        raise BadClientConfig(f"client properties: {key}: no username and password in it")
    if login.options.get("tokenauth", "").lower() == "true":
        raise BadClientConfig(f"client properties: {key}: tokenauth is not supported")
    return {"sasl_plain_username": login.options["username"], "sasl_plain_password": login.options["password"]}


_OAUTH = "OAUTHBEARER"
_JAAS = "sasl.jaas.config"
_HANDLER = "sasl.login.callback.handler.class"
_COMMAND = oauth.COMMAND
_SECRETS = ("ssl.key.password", "ssl.keystore.password", tls.KEY, oauth.CLIENT_SECRET)
_SECRET_OPTION = re.compile(r"(?i)password|secret")

_TRANSLATE: dict[str, Any] = {
    "client.id": _plain("client_id"),
    "security.protocol": lambda _key, value: {"security_protocol": value.upper()},
    "ssl.truststore.location": _pem("ssl_cafile"),
    "ssl.truststore.type": _store_type,
    "ssl.keystore.type": _store_type,
    # Java's PEM key store holds certificate and key in one file; Python loads both from it
    "ssl.keystore.location": _pem("ssl_certfile"),
    **dict.fromkeys(tls.TEXTS, lambda _key, _value: {}),
    "ssl.key.password": _plain("ssl_password"),
    "ssl.endpoint.identification.algorithm": lambda _key, value: {"ssl_check_hostname": bool(value)},
    "sasl.mechanism": _mechanism,
    _JAAS: _jaas,
    **dict.fromkeys((*oauth.KEYS, _HANDLER), lambda _key, _value: {}),
    "sasl.kerberos.service.name": _plain("sasl_kerberos_service_name"),
}
