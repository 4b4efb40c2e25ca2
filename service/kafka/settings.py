"""Connection settings of a cluster: bootstrap servers and a Java-style client.properties, translated for kafka-python.

Operators have such a file already for Kafka's own tools; the keys are those of `ProducerConfig`/`SslConfigs`/
`SaslConfigs` in Kafka's Java clients.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from service.kafka import oauth, tls
from service.kafka.client_properties import keys, login, reading, stores
from service.kafka.errors import BadClientConfig

FLAG: Final = "--bootstrap-servers"
_ADDRESS: Final = re.compile(
    r"(?:(?P<scheme>[0-9a-zA-Z%._-]*)://)?(?P<host>\[[0-9a-fA-F:]+\]|[^:\s/]+):(?P<port>\d{1,5})"
)
_LAST_PORT: Final = 65_535
_TRIMMED: Final = "".join(map(chr, range(33)))
"""The characters that Java's `String.trim` removes at both ends of a value."""

_SECRETS: Final = (stores.KEY_PASSWORD, f"{stores.KEY_STORE}.password", stores.KEY, oauth.CLIENT_SECRET)
_SECRET_OPTION: Final = re.compile(r"""(?i)(?:password|secret)\s*=(?!\s*(?:""|''))""")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Bootstrap servers and client properties of a cluster. `properties`: keys and values of the file as written; the
    variables of config providers (`${…}`) stay until a value is used (`portable` replaces them). `file`: None if the
    settings were not read from a file of this machine."""

    bootstrap_servers: tuple[str, ...]
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    file: Path | None = None

    @classmethod
    def load(cls, bootstrap_servers: str | None, properties_file: Path | None) -> ClientSettings:
        """Returns the settings from the two flags of the command line. If `bootstrap_servers` is None, the file has to
        name the servers. Checks the whole file. Raises BadClientConfig naming the file and the key, or the address."""
        settings = cls((), file=properties_file and properties_file.absolute()).latest()
        if bootstrap_servers is not None:
            try:
                found = _addresses(bootstrap_servers)
            except ValueError as e:
                raise BadClientConfig(f"{FLAG}: {e}") from e
        else:
            found = settings._own_servers()
        settings = replace(settings, bootstrap_servers=found)
        settings.kafka_python()
        return settings

    def latest(self) -> ClientSettings:
        """Returns the settings as the file contains them now, because credentials change while a process runs. Raises
        BadClientConfig."""
        if self.file is None:
            return self
        try:
            return replace(self, properties=tuple(reading.read(self.file).items()))
        except ValueError as e:
            raise BadClientConfig(f"client properties {e}") from e

    @property
    def has_secret(self) -> bool:
        """True if the file itself contains a password, a client secret or a private key. The trust store's password
        and variables that stand for such values do not count."""
        written = reading.without_variables(dict(self.properties))
        return any(
            (key in _SECRETS and value.strip()) or (key == keys.JAAS and _SECRET_OPTION.search(value))
            for key, value in written.items()
        )

    @property
    def provider_files(self) -> tuple[Path, ...]:
        """The files from which config providers take values. Raises BadClientConfig."""
        with self._named():
            return reading.resolve(dict(self.properties)).files

    @property
    def pem_files(self) -> tuple[Path, ...]:
        """The files with certificates and keys that the properties name. Raises BadClientConfig."""
        with self._named():
            properties = self._resolved()
        return tuple(Path(value) for key in stores.FILES if (value := properties.get(key)))

    def notes(self, bootstrap_servers: str | None) -> tuple[str, ...]:
        """Returns notes for people: keys of the file, and schemes in server addresses, that have no effect. Raises
        BadClientConfig."""
        with self._named():
            properties = self._resolved()
        servers = bootstrap_servers or properties.get(keys.SERVERS, "")
        return tuple(f"{self._name}: {note}" for note in _notes(properties, servers))

    def portable(self) -> ClientSettings:
        """Returns the same settings for other machines. The contents of key and trust stores replace the names of their
        files, and values replace the variables of config providers. Without TLS, keys that begin with `ssl.` are left
        out. Raises BadClientConfig."""
        with self._named():
            properties = self._resolved()
            if _uses_tls(properties):
                properties = stores.with_texts(properties)
            else:
                properties = {key: value for key, value in properties.items() if not key.startswith("ssl.")}
            return replace(self, properties=tuple(properties.items()), file=None)

    def kafka_python(self) -> dict[str, Any]:
        """Returns keyword arguments for kafka-python's clients; reads credentials again at each call. Raises
        BadClientConfig for a mistake in the file."""
        with self._named():
            properties = self._resolved()
            if wrong := "; ".join(keys.mistakes(properties)):
                raise ValueError(wrong)
            out: dict[str, Any] = {"bootstrap_servers": list(self.bootstrap_servers)}
            if name := properties.get("client.id"):
                out["client_id"] = name
            if protocol := properties.get(keys.PROTOCOL):
                out["security_protocol"] = protocol.upper()
            out |= login.arguments(properties)
            if _uses_tls(properties):
                out["ssl_context"] = tls.context(properties)
            return out

    def _own_servers(self) -> tuple[str, ...]:
        with self._named():
            given = self._resolved().get(keys.SERVERS)
            if given is not None:
                try:
                    return _addresses(given)
                except ValueError as e:
                    raise ValueError(f"{keys.SERVERS}: {e}") from e
        also = f", and {self.file} has no {keys.SERVERS}" if self.file else ""
        raise BadClientConfig(f"{FLAG} is missing{also}: give HOST:PORT[,…]")

    def _resolved(self) -> dict[str, str]:
        found = reading.resolve(dict(self.properties)).properties
        return {key: value.strip(_TRIMMED) for key, value in found.items()}

    @property
    def _name(self) -> str:
        return "client properties" if self.file is None else f"client properties {self.file}"

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Turns a ValueError into BadClientConfig. The new text names the file, and hides values from config
        providers."""
        try:
            yield
        except ValueError as e:
            text = str(e)
            with suppress(ValueError):  # if a provider has failed: its errors hold no value
                text = reading.resolve(dict(self.properties)).masked(text)
            raise BadClientConfig(f"{self._name}: {text}") from None


class Clients(NamedTuple):
    """The connection settings of all clusters. `by_name`: a mapping from the name of a cluster to its own settings.
    `other`: the settings of every cluster without its own; None if there are no such settings."""

    other: ClientSettings | None
    by_name: Mapping[str, ClientSettings]


def _addresses(text: str) -> tuple[str, ...]:
    """Returns the addresses in the text as HOST:PORT. A scheme in front of an address is dropped, as in Java, because
    only `security.protocol` has an effect. Raises ValueError."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise ValueError("no HOST:PORT given")
    found = []
    for part in parts:
        match = _ADDRESS.fullmatch(part)
        if match is None or int(match["port"]) > _LAST_PORT:
            raise ValueError(f"{part!r} is not HOST:PORT")
        found.append(f"{match['host']}:{match['port']}")
    return tuple(found)


def _uses_tls(properties: Mapping[str, str]) -> bool:
    return properties.get(keys.PROTOCOL, "").upper().endswith("SSL")


def _notes(properties: Mapping[str, str], servers: str) -> Iterator[str]:
    protocol = properties.get(keys.PROTOCOL, "").upper() or "PLAINTEXT"
    shown = f"{keys.PROTOCOL} is {protocol}" + ("" if keys.PROTOCOL in properties else " (the default)")
    if names := keys.ignored(properties):
        yield f"ignored (only Java clients need them): {', '.join(sorted(names))}"
    unused = [
        key
        for key in properties
        if (key.startswith("ssl.") and not protocol.endswith("SSL"))
        or (key.startswith("sasl.") and not protocol.startswith("SASL"))
    ]
    if unused := sorted(set(unused) - set(names)):
        yield f"not used while {shown}: {', '.join(unused)}"
    for part in servers.split(","):
        found = _ADDRESS.fullmatch(part.strip())
        if found is not None and found["scheme"] and found["scheme"].upper() != protocol:
            yield f"the scheme of {part.strip()} has no effect: {shown}"
