"""Every setting of txnscope as one model: its fields, their defaults, and what their values may be."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote, urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    StrictBool,
    ValidationInfo,
    field_validator,
    model_validator,
)

from service.access.configuration import AuthConfig, Table, Text
from service.access.credentials import weakness_of
from service.access.hosts import parse_host
from service.canary.configuration import CanaryTable
from service.domain.application_rules import ApplicationRule, mistake_in
from service.domain.applications import Framework
from service.domain.duration_text import span_ms
from service.domain.findings.rules import Rule
from service.domain.retention_policy import DEFAULT, Keep
from service.notifications.configuration import NotifyTable
from service.otlp.configuration import OtlpTable
from service.store.backends import DEFAULT_URL

_GLOB: Final = re.compile(r"[A-Za-z0-9._*?\[\]!-]+")
_SPARK_MASTER: Final = re.compile(r"yarn|(spark|k8s)://.+|local(-cluster)?(\[.+\])?")
_SHORTEST_KEPT_MS: Final = 3_600_000


class SettingsError(Exception):
    """A setting cannot be used; the message is one line with the setting and the place where it was set."""


def flag(name: str) -> str:
    """Returns the flag of a setting: `--kafka-config` for `kafka_config`."""
    return "--" + name.replace("_", "-")


def _words(what: str, read: Callable[[Any], str]) -> BeforeValidator:
    """Returns a validator that reads a list from several words of a flag, from a list in the file, or from one text
    with commas or spaces in the environment."""

    def validate(words: Any) -> tuple[str, ...]:
        if isinstance(words, str):
            words = words.replace(",", " ").split()
        if not isinstance(words, list | tuple):
            raise ValueError(f"not a list of {what}")
        return tuple(map(read, words))

    return BeforeValidator(validate)


def _glob(glob: Any) -> str:
    if not isinstance(glob, str) or not _GLOB.fullmatch(glob):
        raise ValueError(f"{glob!r} is neither a topic nor a glob like orders-*")
    return glob


def _cluster_name(name: str) -> str:
    """Returns the name. Raises ValueError if the name is empty, is not printable, begins or ends with a space, or
    cannot be one segment of an API path, because servers and clients interpret slashes and dots."""
    if "/" in name or name in ("", ".", "..") or name != name.strip() or not name.isprintable():
        raise ValueError(
            f"{name!r} is no name: give printable text without a slash or spaces at its ends, other than . and .."
        )
    return name


def _service_url(url: str) -> str:
    """Returns the URL without a slash at its end. Raises ValueError for a text that is no URL; the error does not show
    a text that may contain a password."""
    shown = "the address, which has an @," if "@" in url else repr(url)
    if not re.fullmatch(r"[!-~]+", url):
        raise ValueError(f"{shown} is not a URL: it has spaces, or characters that have to be percent-encoded")
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an address that is none
        is_one = False
    if not is_one:
        raise ValueError(f"{shown} is not a URL like http://127.0.0.1:8080")
    return url.rstrip("/")


def _spark_master(master: str) -> str:
    """Returns the master. Raises ValueError for a text that Spark would refuse with a traceback."""
    if not _SPARK_MASTER.fullmatch(master):
        raise ValueError(f"{master!r} is not a Spark master: give spark://HOST:PORT, yarn, k8s://URL or local[CORES]")
    return master


def _spark_conf(conf: Any) -> dict[str, str]:
    """Returns a mapping from name to value of Spark's settings, from KEY=VALUE words of a flag or from a table of the
    file. Raises ValueError for a name without `spark.` in front; errors show no values, because they may be
    passwords."""
    if isinstance(conf, list):
        pairs = [str(pair).partition("=") for pair in conf]
        if missing := [name for name, equals, _ in pairs if not equals]:
            raise ValueError(f"{missing[0]!r} is not KEY=VALUE")
        conf = {name.strip(): value.strip() for name, _, value in pairs}
    if not isinstance(conf, dict):
        raise ValueError("not a table of Spark's settings")
    if foreign := [name for name in conf if not name.startswith("spark.")]:
        raise ValueError(f"{foreign[0]!r} is not a Spark setting: its name has to begin with spark.")
    return {name: str(value) for name, value in conf.items()}


def _kept_ms(duration: Any) -> int:
    kept = span_ms(duration)
    if kept < _SHORTEST_KEPT_MS:
        raise ValueError(f"{duration!r} is shorter than an hour")
    return kept


def _time_ms(value: Any) -> int:
    """Returns the time in ms, from a time of TOML or its text; a time without an offset is UTC. Raises ValueError for
    any other value."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is not a time: write one like 2026-03-14T08:00:00Z") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


_AS_TIME: Final = PlainSerializer(lambda ms: datetime.fromtimestamp(ms / 1000, UTC).isoformat(), return_type=str)
_AS_SECONDS: Final = PlainSerializer(lambda ms: f"{ms // 1000}s", return_type=str)
DurationMs = Annotated[int, BeforeValidator(span_ms), _AS_SECONDS]
KeptMs = Annotated[int, BeforeValidator(_kept_ms), _AS_SECONDS]
TimeMs = Annotated[int, BeforeValidator(_time_ms), _AS_TIME]
ClusterName = Annotated[str, AfterValidator(_cluster_name)]
Globs = Annotated[tuple[str, ...], _words("topics", _glob)]


class RuleTable(Table):
    """One table `[[rules]]` of the configuration file."""

    prefix: Text | None = None
    topic: Text | None = None
    long_after: DurationMs | None = None
    owner: Text | None = None
    mute_until: TimeMs | None = None
    full_history: StrictBool = False

    @model_validator(mode="after")
    def _has_a_scope(self) -> RuleTable:
        if (self.prefix is None) == (self.topic is None):
            raise ValueError("needs either prefix or topic")
        if self.full_history and self.prefix is None:
            raise ValueError(
                "full_history needs a prefix, not a topic, because the topics of a transaction are known too late"
            )
        return self

    @property
    def rule(self) -> Rule:
        return Rule(self.prefix, self.topic, self.long_after, self.owner, self.mute_until, self.full_history)


class ApplicationTable(Table):
    """One table `[[applications]]` of the configuration file."""

    prefix: Text | None = None
    pattern: Text | None = None
    name: Text | None = None
    kind: Framework | None = None

    @model_validator(mode="after")
    def _is_a_rule(self) -> ApplicationTable:
        if (mistake := mistake_in(self.prefix, self.pattern, self.name)) is not None:
            raise ValueError(mistake)
        return self

    @property
    def rule(self) -> ApplicationRule:
        pattern = None if self.pattern is None else re.compile(self.pattern)
        return ApplicationRule(self.prefix, pattern, self.name, self.kind)


class KeepTable(Table):
    """The table `[keep]` of the configuration file."""

    history: KeptMs = DEFAULT.history
    minutes: KeptMs = DEFAULT.minutes
    producer_ids: KeptMs = DEFAULT.producer_ids
    rejects: KeptMs = DEFAULT.rejects
    gaps: KeptMs = DEFAULT.gaps
    findings: KeptMs = DEFAULT.findings

    @property
    def keep(self) -> Keep:
        return Keep(**dict(self))


class Watching(Table):
    """The settings for watching one cluster."""

    bootstrap_servers: str | None = None
    kafka_config: Path | None = None
    remediation_config: Path | None = None
    topics: Globs = ()
    mirrored: Globs = ()
    partitions: Literal["stalled", "all"] = "stalled"
    canary: CanaryTable | None = None

    @field_validator("partitions")
    @classmethod
    def _has_topics(cls, partitions: str, info: ValidationInfo) -> str:
        """Checks that `partitions = "all"` comes with `topics`. The field is declared after `topics`, so that this
        check can read them."""
        if partitions == "all" and not info.data.get("topics"):
            raise ValueError("'all' needs --topics, because it reads every byte of these topics")
        return partitions


class WatchedCluster(Watching):
    """One table `[[clusters]]` of the configuration file: a cluster, and the settings that apply only to this
    cluster."""

    name: ClusterName

    @model_validator(mode="after")
    def _has_brokers(self) -> WatchedCluster:
        if not (self.bootstrap_servers or self.kafka_config):
            raise ValueError("bootstrap_servers is missing: give HOST:PORT[,…]")
        return self


class Settings(Watching):
    """Every setting. A field's name is also the variable (TXNSCOPE_ and the name in capitals), the key in the file and,
    if the setting has one, the flag (with dashes). A field without a repr may hold a secret: error messages do not show
    its value."""

    cluster: ClusterName | None = None
    store: str = Field(default=DEFAULT_URL, min_length=1, repr=False)
    checkpoint: Path | None = None
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=1, le=65535)
    url: Annotated[str, AfterValidator(_service_url)] = Field(default="http://127.0.0.1:8080", repr=False)
    clusters: tuple[WatchedCluster, ...] = ()
    liveness: str | None = Field(default=None, min_length=1)
    spark_master: Annotated[str, AfterValidator(_spark_master)] | None = Field(default=None)
    spark_conf: Annotated[dict[str, str], BeforeValidator(_spark_conf)] = Field(default={}, repr=False)
    operators: dict[str, str] = Field(default={}, repr=False)
    operator_key_file: Path | None = None
    auth: AuthConfig = AuthConfig()
    allowed_hosts: Annotated[tuple[str, ...], _words("hosts", lambda host: parse_host(str(host)))] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    insecure: bool = False
    mcp: bool = False
    key_file: Path | None = None
    ca: Path | None = None
    client_cert: Path | None = None
    rules: tuple[RuleTable, ...] = ()
    applications: tuple[ApplicationTable, ...] = ()
    notify: tuple[NotifyTable, ...] = ()
    otlp: OtlpTable | None = None
    keep: KeepTable = KeepTable()

    @field_validator("clusters", "notify")
    @classmethod
    def _have_different_names(
        cls, tables: Sequence[WatchedCluster | NotifyTable], info: ValidationInfo
    ) -> Sequence[WatchedCluster | NotifyTable]:
        names = [table.name for table in tables]
        if twice := next((name for name in names if names.count(name) > 1), None):
            what = "clusters" if info.field_name == "clusters" else "receivers"
            raise ValueError(f"two {what} have the name {twice!r}")
        return tables

    @field_validator("operators")
    @classmethod
    def _have_keys(cls, operators: dict[str, str]) -> dict[str, str]:
        """Checks that every operator has a name and a strong key, and that no two operators have the same key."""
        for name, key in operators.items():
            if (why := weakness_of(key)) is not None:
                raise ValueError(f"the key of {name!r} {why}: take one from `openssl rand -hex 16`")
            if not name.strip():
                raise ValueError("an operator has no name: the audit needs one")
        if len(set(operators.values())) < len(operators):
            raise ValueError("two operators have the same key: the audit could not distinguish them")
        return operators

    @field_validator("tls_key", "tls_client_ca")
    @classmethod
    def _come_with_a_certificate(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        """Checks that `tls_cert` is set if `tls_key` or `tls_client_ca` is. Both fields are declared after `tls_cert`,
        so that this check can read it."""
        if file is not None and info.data.get("tls_cert") is None:
            raise ValueError("needs --tls-cert and --tls-key")
        return file

    @model_validator(mode="after")
    def _has_the_key(self) -> Settings:
        if self.tls_cert is not None and self.tls_key is None:
            raise ValueError("--tls-cert needs --tls-key")
        return self

    def of_each_cluster(self) -> list[Settings]:
        """Returns the settings for each cluster to watch: all `[[clusters]]`, or the one that `cluster` names; without
        `[[clusters]]`, the cluster of the flags. Raises SettingsError if the flags and `[[clusters]]` do not fit
        together."""
        if not self.clusters:
            return [self]
        for name in ("bootstrap_servers", "kafka_config", "remediation_config", "topics", "mirrored"):
            if getattr(self, name):
                raise SettingsError(f"{flag(name)}: each of [[clusters]] has its own value, so leave the flag out")
        if self.cluster is not None and self.cluster not in (names := [cluster.name for cluster in self.clusters]):
            raise SettingsError(
                f"--cluster {self.cluster}: no [[clusters]] has this name; there are: {', '.join(names)}"
            )
        return [self._of(cluster) for cluster in self.clusters if self.cluster in (None, cluster.name)]

    def of_one_cluster(self) -> Settings:
        """Returns the settings for the one cluster that a command is about. Raises SettingsError if there are several
        and `cluster` is not set."""
        found = self.of_each_cluster()
        if len(found) > 1:
            raise SettingsError(
                f"--cluster is missing: choose one of {', '.join(str(settings.cluster) for settings in found)}"
            )
        return found[0]

    def _of(self, cluster: WatchedCluster) -> Settings:
        own = {name: getattr(cluster, name) for name in Watching.model_fields}
        own["canary"] = cluster.canary or self.canary
        folder = None if self.checkpoint is None else self.checkpoint / quote(cluster.name, safe="")
        return self.model_copy(update=own | {"cluster": cluster.name, "clusters": (), "checkpoint": folder})
