"""The settings: one model, read from flags, environment and TOML, and passed to child processes as a JSON document.

`service.cli` and `spark_jobs` use this package. It imports the models of the tables of the TOML file from
`service.access`, `service.domain`, `service.notifications`, `service.canary` and `service.otlp`, and of the rest of
`service` only `service.store.backends`.
"""

from service.settings.loading import DOCUMENT, ENV_PREFIX, for_ingest, for_service, for_store, load
from service.settings.model import Settings, SettingsError, flag

__all__ = [
    "DOCUMENT",
    "ENV_PREFIX",
    "Settings",
    "SettingsError",
    "flag",
    "for_ingest",
    "for_service",
    "for_store",
    "load",
]
