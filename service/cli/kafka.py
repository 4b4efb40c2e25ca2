"""Checks the brokers of the settings, and builds the arguments of processes that use them.

The check comes first because a JVM takes seconds to report a bad setting.
"""

from __future__ import annotations

import sys

from service.cli.errors import CommandFailed
from service.domain.retention_policy import DEFAULT
from service.kafka.errors import BadClientConfig
from service.kafka.settings import ClientSettings
from service.settings import STALLED, Settings


def ingest_arguments(settings: Settings) -> list[str]:
    """Returns `python -m spark_jobs …`; the process finds the store in its environment (`settings.for_children`).

    CommandFailed for an address, file or key that cannot be used.
    """
    client_settings(settings)
    arguments = [sys.executable, "-m", "spark_jobs", *broker_arguments(settings)]
    for flag, value in {
        "--cluster": settings.cluster,
        "--checkpoint": settings.checkpoint,
        "--spark-master": settings.spark_master,
        "--partitions": settings.partitions if settings.partitions != STALLED else None,
    }.items():
        if value is not None:
            arguments += [flag, str(value)]
    for flag, globs in {"--topics": settings.topics, "--mirrored": settings.mirrored}.items():
        if globs:
            arguments += [flag, *globs]
    if settings.rules.rules:
        arguments += ["--rules", settings.rules.dump()]
    if settings.keep != DEFAULT:
        arguments += ["--keep", settings.keep.dump()]
    return arguments


def client_settings(settings: Settings) -> ClientSettings:
    """Returns the settings of a Kafka client. CommandFailed for an address, file or key that cannot be used, or without
    an address.
    """
    if not settings.bootstrap_servers:
        raise CommandFailed("--bootstrap-servers is missing: give HOST:PORT[,…]")
    try:
        return ClientSettings.load(settings.bootstrap_servers, settings.kafka_config)
    except BadClientConfig as error:
        raise CommandFailed(str(error)) from error


def broker_arguments(settings: Settings) -> list[str]:
    """Returns the flags that name the same brokers to another process."""
    given = {"--bootstrap-servers": settings.bootstrap_servers, "--kafka-config": settings.kafka_config}
    return [text for flag, value in given.items() if value is not None for text in (flag, str(value))]
