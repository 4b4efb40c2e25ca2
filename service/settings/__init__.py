"""The settings: one model, read from flags, environment and TOML, and passed to child processes as a JSON document.

`service.cli` and `spark_jobs` use it. It imports only `service.access`, `service.domain`, `service.notifications`,
`service.canary` and `service.otlp` (the tables), and `service.store.backends`.
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
