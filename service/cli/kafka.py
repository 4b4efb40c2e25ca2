"""The arguments of the streaming application, checked before it starts: its JVM takes seconds to say no."""

from __future__ import annotations

import sys

from service.cli.errors import CommandFailed
from service.domain.keeping import DEFAULT
from service.kafka.errors import BadClientConfig
from service.kafka.settings import ClientSettings
from service.settings import Settings


def ingest_arguments(settings: Settings) -> list[str]:
    """`python -m spark_jobs …`; it finds the store in its environment (`settings.for_children`).

    CommandFailed for an address, file or key that cannot be used.
    """
    if not settings.bootstrap_servers:
        raise CommandFailed("--bootstrap-servers is missing: the brokers to begin with, HOST:PORT[,…]")
    try:
        ClientSettings.load(settings.bootstrap_servers, settings.kafka_config)
    except BadClientConfig as error:
        raise CommandFailed(str(error)) from error
    arguments = [sys.executable, "-m", "spark_jobs", "--bootstrap-servers", settings.bootstrap_servers]
    for flag, value in {
        "--kafka-config": settings.kafka_config,
        "--cluster": settings.cluster,
        "--checkpoint": settings.checkpoint,
    }.items():
        if value is not None:
            arguments += [flag, str(value)]
    if settings.rules.rules:
        arguments += ["--rules", settings.rules.dump()]
    if settings.keep != DEFAULT:
        arguments += ["--keep", settings.keep.dump()]
    return arguments
