"""Reads the settings and passes them on to child processes as a JSON document. The order of precedence: flags,
`TXNSCOPE_*`, the file of `--config`, the document of the parent process, defaults."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from service.settings.mistakes import Place, explain
from service.settings.model import Settings, SettingsError, Watching, flag

ENV_PREFIX: Final = "TXNSCOPE_"
DOCUMENT: Final = f"{ENV_PREFIX}SETTINGS"
"""Environment variable with the settings of a parent process as JSON. The settings may contain passwords (the store's
URL, Spark's settings), so they are not on the command line: every user can read command lines."""

_TABLES: Final = (
    "applications",
    "auth",
    "canary",
    "clusters",
    "keep",
    "notify",
    "operators",
    "otlp",
    "rules",
    "spark_conf",
)
"""Settings whose environment variables contain JSON."""
_JOINED: Final = ("auth", "keep", "operators")
"""Tables whose keys may come from different places. Any other setting is taken as a whole from the first place that has
it."""

_FOR_STORE: Final = frozenset({"store"})
_FOR_INGEST: Final = (_FOR_STORE | Watching.model_fields.keys() | {"cluster", "clusters", "checkpoint", "liveness"}) - {
    "remediation_config",
    "canary",
} | {"spark_master", "spark_conf", "rules", "applications", "keep"}
_FOR_SERVICE: Final = _FOR_STORE | {
    *("bootstrap_servers", "kafka_config", "remediation_config", "clusters", "canary"),
    *("operators", "auth", "notify", "otlp", "mcp", "url"),
    *("host", "port", "allowed_hosts", "tls_cert", "tls_key", "tls_client_ca", "insecure"),
}


def load(flags: Mapping[str, Any], config: str | None = None) -> Settings:
    """Returns the settings in effect. A flag that is None was not given. `config`: the path of the configuration file;
    None: the path in TXNSCOPE_CONFIG, if set.

    Raises SettingsError if the file cannot be read, a table in the environment is not JSON, a key is unknown, or a
    value does not fit.
    """
    path = config or os.environ.get(f"{ENV_PREFIX}CONFIG")
    places = [
        Place({name: value for name, value in flags.items() if value is not None}, flag),
        Place(_variables(), lambda name: f"{ENV_PREFIX}{name.upper()}"),
        Place(_file(path) if path else {}, lambda name: f"--config {path}: {name}", f"--config {path}"),
        Place(_document(), lambda name: f"{DOCUMENT}: {name}", DOCUMENT),
    ]
    values: dict[str, Any] = {}
    for place in reversed(places):
        for name, value in place.values.items():
            values[name] = _join(values.get(name), value) if name in _JOINED else value
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise SettingsError(explain(error, values, places)) from None


def for_store(settings: Settings) -> dict[str, str]:
    """Returns the environment of a child process that uses only the store."""
    return _environment(settings, _FOR_STORE)


def for_ingest(settings: Settings) -> dict[str, str]:
    """Returns the environment of a child process that starts Spark: with Spark's settings, without operators' keys."""
    return _environment(settings, _FOR_INGEST)


def for_service(settings: Settings) -> dict[str, str]:
    """Returns the environment of a child process that serves requests. Includes the keys and password hashes that the
    child process checks."""
    return _environment(settings, _FOR_SERVICE)


def _environment(settings: Settings, names: Set[str]) -> dict[str, str]:
    """Returns the variable DOCUMENT, which contains the settings in `names`. Also returns, with an empty value, every
    settings variable (`TXNSCOPE_*`) that this process has in its environment."""
    own = {f"{ENV_PREFIX}{name.upper()}" for name in (*Settings.model_fields, "config")}
    document = settings.model_dump_json(include=set(names), exclude_defaults=True)
    return dict.fromkeys(own & os.environ.keys(), "") | {DOCUMENT: document}


def _variables() -> dict[str, Any]:
    """Returns the settings of the environment. An empty variable counts as not set."""
    found = {}
    for name in Settings.model_fields:
        variable = f"{ENV_PREFIX}{name.upper()}"
        if text := os.environ.get(variable):
            found[name] = _decoded(variable, text) if name in _TABLES else text
    return found


def _document() -> dict[str, Any]:
    found = _decoded(DOCUMENT, os.environ.get(DOCUMENT) or "{}")
    if not isinstance(found, dict):
        raise SettingsError(f"{DOCUMENT}: not a table")
    return found


def _decoded(variable: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # the value may contain keys: only the name is reported
        raise SettingsError(f"{variable}: not JSON") from None


def _file(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"--config {path}: {error.strerror}") from None
    except ValueError as error:  # neither UTF-8 nor TOML
        raise SettingsError(f"--config {path}: not TOML: {' '.join(str(error).split())}") from None


def _join(below: Any, above: Any) -> Any:
    """Joins two tables, and also the tables in them. Returns a table with the keys of both tables. If both tables have
    a value for a key, the value in `above` counts."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _join(below.get(key), value) for key, value in above.items()}
