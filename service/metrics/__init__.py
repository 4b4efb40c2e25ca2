"""Prometheus metrics of everything the store knows."""

from __future__ import annotations

from sqlalchemy import Engine

from service.metrics.page import Metrics


def create_metrics(engine: Engine) -> Metrics:
    """Returns the metrics of a store, and reads nothing yet. `engine` may be one that only reads."""
    return Metrics(engine)
