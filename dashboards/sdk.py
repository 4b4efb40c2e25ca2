"""Grafana's own types of a dashboard, imported in one place."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():  # deprecated by the SDK, but the model that Grafana 10 to 13 and all tools load
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models import common, dashboard, heatmap, prometheus, stat, table, timeseries

__all__ = [
    "JSONEncoder",
    "common",
    "dashboard",
    "heatmap",
    "prometheus",
    "register_default_plugins",
    "stat",
    "table",
    "timeseries",
]
