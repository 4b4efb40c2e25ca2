"""Prometheus metrics of everything the store knows."""

from __future__ import annotations

from sqlalchemy import Engine

from service.metrics.page import Metrics


def create_metrics(engine: Engine) -> Metrics:
    """Reads nothing yet; `engine` may be a reading one."""
    return Metrics(engine)
