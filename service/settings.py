"""The settings of the command line, in order of precedence: flags, `TXNSCOPE_*`, the file of `--config`, defaults."""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings.exceptions import SettingsError as UnreadableSetting

from service.access.configuration import AuthConfig
from service.access.configuration import parse as parse_auth
from service.access.hosts import parse_host
from service.access.keys import weakness_of
from service.domain.findings.rules import Rules
from service.domain.findings.rules import parse as parse_rules
from service.domain.retention_policy import Keep
from service.domain.retention_policy import parse as parse_keep
from service.store.backends import DEFAULT_URL
from service.watched_clusters import STALLED, WatchedCluster, cluster_name, partitions_mode, topic_globs
from service.watched_clusters import dump as dump_clusters
from service.watched_clusters import parse as parse_clusters

ENV_PREFIX: Final = "TXNSCOPE_"

Globs = Annotated[tuple[str, ...], NoDecode]
"""Topic globs: several words of a flag, a list in the file, one text with commas or spaces in the environment."""
WatchedClusters = Annotated[tuple[WatchedCluster, ...], NoDecode]
"""Clusters to watch: tables in the file, JSON in the environment."""
SparkConf = Annotated[dict[str, str], NoDecode]
"""Spark's own settings: several KEY=VALUE of a flag, a table in the file, JSON in the environment."""
_SAY_IT_ALL: Final = (
    "clusters",
    "spark_conf",
    "rules",
    "keep",
    "topics",
    "mirrored",
    "partitions",
    "operators",
    "auth",
    "allowed_hosts",
)
"""Settings with error messages that already contain the wrong value, or the wrong part of it."""
_SPARK_MASTER: Final = re.compile(r"yarn|(spark|k8s)://.+|local(-cluster)?(\[.+\])?")


class SettingsError(Exception):
    """A setting cannot be used; the message is one line with the setting and the place where it was set."""


class Settings(BaseSettings):
    """Every setting of the command line. A field's name is the flag (with dashes), the variable (in capitals), and the
    key in the file."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_ignore_empty=True, extra="forbid", frozen=True)

    bootstrap_servers: str | None = None
    kafka_config: Path | None = None
    remediation_config: Path | None = None
    cluster: str | None = None
    store: str = Field(default=DEFAULT_URL, min_length=1, repr=False)
    checkpoint: Path | None = None
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=1, le=65535)
    url: str = Field(default="http://127.0.0.1:8080", repr=False)
    topics: Globs = ()
    mirrored: Globs = ()
    partitions: str = STALLED
    clusters: WatchedClusters = ()
    liveness: str | None = Field(default=None, min_length=1)
    spark_master: str | None = Field(default=None, min_length=1)
    spark_conf: SparkConf = Field(default_factory=dict, repr=False)
    operators: dict[str, str] = Field(default_factory=dict, repr=False)
    operator_key_file: Path | None = None
    auth: AuthConfig = AuthConfig()
    allowed_hosts: Globs = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    insecure: bool = False
    key_file: Path | None = None
    ca: Path | None = None
    client_cert: Path | None = None
    rules: Rules = Rules()
    keep: Keep = Keep()

    @field_validator("rules", mode="before")
    @classmethod
    def _reads_rules(cls, rules: Any) -> Rules:
        """Reads `[[rules]]` of the file, or their JSON in TXNSCOPE_RULES."""
        if isinstance(rules, Rules):
            return rules
        if not isinstance(rules, list):
            raise ValueError("not a list of tables: write [[rules]]")
        return parse_rules(rules)

    @field_validator("keep", mode="before")
    @classmethod
    def _reads_keep(cls, keep: Any) -> Keep:
        """Reads `[keep]` of the file, or its JSON in TXNSCOPE_KEEP."""
        return keep if isinstance(keep, Keep) else parse_keep(keep)

    @field_validator("auth", mode="before")
    @classmethod
    def _reads_auth(cls, auth: Any) -> AuthConfig:
        """Reads `[auth]` of the file, or its JSON in TXNSCOPE_AUTH."""
        return auth if isinstance(auth, AuthConfig) else parse_auth(auth)

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _are_hosts(cls, hosts: Any) -> tuple[str, ...]:
        if isinstance(hosts, str):
            hosts = hosts.replace(",", " ").split()
        if not isinstance(hosts, list | tuple):
            raise ValueError("not a list of hosts")
        return tuple(parse_host(str(host)) for host in hosts)

    @field_validator("tls_key", "tls_client_ca")
    @classmethod
    def _come_with_a_certificate(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        """Checks files that mean nothing without the one before them. The fields come after `tls_cert`."""
        if file is not None and info.data.get("tls_cert") is None:
            raise ValueError("needs --tls-cert and --tls-key")
        return file

    @model_validator(mode="after")
    def _has_the_key(self) -> Settings:
        if self.tls_cert is not None and self.tls_key is None:
            raise ValueError("--tls-cert needs --tls-key")
        return self

    @field_validator("topics", "mirrored", mode="before")
    @classmethod
    def _are_globs(cls, globs: Any) -> tuple[str, ...]:
        return topic_globs(globs)

    @field_validator("clusters", mode="before")
    @classmethod
    def _reads_clusters(cls, clusters: Any) -> tuple[WatchedCluster, ...]:
        """Reads `[[clusters]]` of the file, or their JSON in TXNSCOPE_CLUSTERS."""
        return clusters if isinstance(clusters, tuple) else parse_clusters(clusters)

    @field_validator("spark_master")
    @classmethod
    def _is_spark_master(cls, master: str | None) -> str | None:
        """Checks what Spark would refuse with a traceback."""
        if master is not None and not _SPARK_MASTER.fullmatch(master):
            raise ValueError("no master of Spark's: spark://HOST:PORT, yarn, k8s://URL or local[CORES]")
        return master

    @field_validator("spark_conf", mode="before")
    @classmethod
    def _is_spark_conf(cls, conf: Any) -> dict[str, str]:
        """Reads Spark's settings. Their values do not appear in errors: they may be passwords."""
        if isinstance(conf, str):
            try:
                conf = json.loads(conf)
            except json.JSONDecodeError:
                raise ValueError('not JSON like {"spark.driver.host": "10.0.0.1"}') from None
        if isinstance(conf, list):
            pairs = [str(pair).partition("=") for pair in conf]
            if missing := [name for name, equals, _ in pairs if not equals]:
                raise ValueError(f"{missing[0]!r} is not KEY=VALUE")
            conf = {name.strip(): value.strip() for name, _, value in pairs}
        if not isinstance(conf, dict):
            raise ValueError("not a table of Spark's settings")
        if foreign := [name for name in conf if not name.startswith("spark.")]:
            raise ValueError(f"{foreign[0]!r} is not a setting of Spark's: their names begin with spark.")
        return {name: str(value) for name, value in conf.items()}

    @field_validator("partitions")
    @classmethod
    def _can_be_done(cls, partitions: str, info: ValidationInfo) -> str:
        """Checks `partitions`. The field comes after `topics`, which this check needs."""
        return partitions_mode(partitions, info.data.get("topics", ()))

    @field_validator("operators")
    @classmethod
    def _have_keys(cls, operators: dict[str, str]) -> dict[str, str]:
        """Checks the keys, by name, of those who may have markers written: `[operators]` of the file, or its JSON in
        TXNSCOPE_OPERATORS."""
        for name, key in operators.items():
            if (why := weakness_of(key)) is not None:
                raise ValueError(f"the key of {name!r} {why}: take one from `openssl rand -hex 16`")
            if not name.strip():
                raise ValueError("an operator has no name: the audit needs one")
        if len(set(operators.values())) < len(operators):
            raise ValueError("two operators have the same key: the audit could not distinguish them")
        return operators

    @field_validator("cluster")
    @classmethod
    def _fits_in_a_path(cls, cluster: str | None) -> str | None:
        return None if cluster is None else cluster_name(cluster)

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if not re.fullmatch(r"[!-~]+", url):
            raise ValueError("not a URL: it has spaces, or characters that have to be percent-encoded")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or (parts.port == 0):
            raise ValueError("not a URL like http://127.0.0.1:8080")
        return url.rstrip("/")


def load(flags: Mapping[str, str | list[str] | None], config: str | None = None) -> Settings:
    """Returns the settings in effect. A flag that is None was not given. `config` None: the file of TXNSCOPE_CONFIG, if
    any.

    Raises SettingsError if the file cannot be read, has an unknown key, or a value does not fit.
    """
    path = config or os.environ.get(f"{ENV_PREFIX}CONFIG")
    in_file = _read(path) if path else {}
    given = {name: value for name, value in flags.items() if value is not None}

    class Layered(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's own signature
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, InitSettingsSource(settings_cls, in_file)

    try:
        return Layered(**given)  # type: ignore[arg-type]  # strings, made into the fields' types by pydantic
    except ValidationError as error:
        raise SettingsError(_explain(error, given, path)) from None
    except UnreadableSetting as error:  # the value may contain keys: report only the name
        raise SettingsError(f"{_variable(error)}: not JSON") from None


def for_children(settings: Settings) -> dict[str, str]:
    """Returns the environment of the processes that a command starts or becomes: the store, and no keys of operators.

    The store's URL is not an argument, because it may contain a password, and everybody on a machine can read command
    lines.
    """
    secret = dict.fromkeys((f"{ENV_PREFIX}OPERATORS", f"{ENV_PREFIX}AUTH", f"{ENV_PREFIX}SPARK_CONF"), "")
    return {f"{ENV_PREFIX}STORE": settings.store, **secret}


def for_ingest(settings: Settings) -> dict[str, str]:
    """Returns the same as `for_children`, with Spark's settings: only for the process that starts Spark."""
    return for_children(settings) | {f"{ENV_PREFIX}SPARK_CONF": json.dumps(settings.spark_conf)}


def for_service(settings: Settings) -> dict[str, str]:
    """Returns the same as `for_children`, with keys of operators and `[auth]`: only for the process that compares
    them."""
    keys = json.dumps(settings.operators) if settings.operators else ""
    clusters = dump_clusters(settings.clusters) if settings.clusters else ""
    return for_children(settings) | {
        f"{ENV_PREFIX}OPERATORS": keys,
        f"{ENV_PREFIX}AUTH": settings.auth.dump(),
        f"{ENV_PREFIX}CLUSTERS": clusters,
    }


def flag(name: str) -> str:
    """Returns the flag of a setting: `--kafka-config` for `kafka_config`."""
    return "--" + name.replace("_", "-")


def _read(path: str) -> dict[str, Any]:
    try:
        found = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"--config {path}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"--config {path}: not TOML: {_line(error)}") from None
    for key in found:
        if key not in Settings.model_fields:
            near = difflib.get_close_matches(key.replace("-", "_").lower(), Settings.model_fields, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise SettingsError(f"--config {path}: unknown key {key!r}{hint}")
    return found


def _explain(error: ValidationError, given: Mapping[str, Any], path: str | None) -> str:
    """Returns the first mistake, and where the value came from."""
    first = error.errors(include_url=False, include_context=False)[0]
    if not first["loc"]:  # of several settings together
        return str(first["msg"].removeprefix("Value error, "))
    name = str(first["loc"][0])
    if name in given:
        origin = flag(name)
    elif os.environ.get(ENV_PREFIX + name.upper()):
        origin = ENV_PREFIX + name.upper()
    else:
        origin = f"--config {path}: {name}"
    what = first["msg"].removeprefix("Value error, ")
    return f"{origin}: {what}" if name in _SAY_IT_ALL else f"{origin}: {first['input']!r}: {what}"


def _variable(error: UnreadableSetting) -> str:
    """Returns the variable that the error is about; pydantic-settings has the field's name only in a sentence."""
    quoted = re.search(r'field "(\w+)"', str(error))
    return ENV_PREFIX + quoted.group(1).upper() if quoted else f"{ENV_PREFIX}*"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
